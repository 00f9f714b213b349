/*
 * A call tree as a picture: each function as wide as its weight, the outermost at the bottom. One SVG file that needs nothing else;
 * in a browser it can be searched and zoomed into.
 */
#ifndef PLUMB_TRACE_SHOW_FLAME_SVG_H
#define PLUMB_TRACE_SHOW_FLAME_SVG_H

#include <functional>
#include <string>
#include <string_view>

namespace plumb {

/* What is drawn: nodes as trace/answers/call_tree.h has them. */
struct FlameNode {
    std::string_view name;
    double weight;
    std::string weight_text;
    /* Calls it for each node above this one. */
    std::function<void(const std::function<void(const FlameNode&)>&)> each;
};

struct FlameText {
    std::string title;
    std::string unit; /* "events", "of bytes" */
};

/* Names come from the trace: they are escaped. */
std::string flame_svg(const FlameNode& root, const FlameText& text);

} // namespace plumb

#endif
