/*
 * How the folders of a recording are named: those of its parts, and those of a flight recorder's snapshots, which have
 * such parts each.
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

} // namespace plumb

#endif
