/*
 * How the folders of a recording are named: those of its parts, and those of a flight recorder's snapshots, which have
 * such parts each; and what stands beside them in a trace's directory.
 */
#ifndef PLUMB_BASE_TRACE_FOLDERS_H
#define PLUMB_BASE_TRACE_FOLDERS_H

#include <string_view>

namespace plumb {

inline bool is_numbered(std::string_view name, std::string_view start) {
    return name.starts_with(start) && name.size() > start.size() &&
           name.find_first_not_of("0123456789", start.size()) == std::string_view::npos;
}

/* ust, kernel, ust-65534 */
inline bool is_domain_folder(std::string_view name) {
    return name == "ust" || name == "kernel" || is_numbered(name, "ust-");
}

/* snapshot-1 */
inline bool is_snapshot_folder(std::string_view name) {
    return is_numbered(name, "snapshot-");
}

/* .replaced-1: the trace that was there before, put aside until there is another one. Who was killed meanwhile leaves it so. */
inline constexpr std::string_view aside_start = ".replaced-";
inline bool is_aside_folder(std::string_view name) {
    return is_numbered(name, aside_start);
}

} // namespace plumb

#endif
