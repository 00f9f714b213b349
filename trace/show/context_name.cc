#include "trace/show/context_name.h"

namespace plumb {
namespace {

struct ContextNameFinder : SkipVisitor {
    void text(const Step& step, std::string_view value) {
        if (step.role == Role::process_name) name = value;
    }
    std::string_view name;
};

} // namespace

std::string_view context_name_of(const Event& event) {
    if (event.stream->is_plumb_record()) return {};
    ContextNameFinder finder;
    static_cast<void>(visit_stream_context(event, finder));
    return finder.name;
}

} // namespace plumb
