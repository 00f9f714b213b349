/*
 * How the folders of a recording are named: those of its parts, and those of a flight recorder's snapshots and of a
 * recording's chunks, which have such parts each; and what stands beside them in a trace's directory.
 */
#ifndef PLUMB_BASE_TRACE_FOLDERS_H
#define PLUMB_BASE_TRACE_FOLDERS_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

inline bool is_numbered(std::string_view name, std::string_view start) {
    return name.starts_with(start) && name.size() > start.size() &&
           name.find_first_not_of("0123456789", start.size()) == std::string_view::npos;
}

/* ust, kernel, ust-65534; where a user's programs looked in two places, ust-65534-shm; in a container, ust-65534-in-4026532191.
 * Each may be there once more, as behind a channel that was shortened, or in a later container of the same number: ust-65534-2,
 * ust-65534-shm-2, ust-65534-in-4026532191-2 */
inline bool is_domain_folder(std::string_view name) {
    constexpr std::string_view start = "ust-";
    if (name == "ust" || name == "kernel") return true;
    const std::size_t place = name.find('-', start.size());
    if (!is_numbered(name.substr(0, place), start)) return false;
    if (place == std::string_view::npos) return true;
    const std::string_view where = name.substr(place + 1);
    constexpr std::string_view in = "in-";
    if (where.starts_with(in)) {
        const std::size_t later = where.find('-', in.size());
        return is_numbered(where.substr(0, later), in) &&
               (later == std::string_view::npos || is_numbered(where.substr(later), "-"));
    }
    if (is_numbered(where, "")) return true;
    const std::size_t later = where.find('-');
    const std::string_view kind = where.substr(0, later);
    return !kind.empty() && kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos &&
           (later == std::string_view::npos || is_numbered(where.substr(later), "-"));
}

/* snapshot-1 */
inline bool is_snapshot_folder(std::string_view name) {
    return is_numbered(name, "snapshot-");
}

inline constexpr std::string_view unfinished_end = ".part";

/* snapshot-1.part: one that is being taken by a session, and is no trace yet */
inline bool is_unfinished_snapshot(std::string_view name) {
    return name.ends_with(unfinished_end) &&
           is_snapshot_folder(name.substr(0, name.size() - unfinished_end.size()));
}

/* chunk-00000012-20240131T235959+0100: the number sorts them, whatever becomes of the clock, and the time is when it began. Until
 * it is finished, chunk-00000012-20240131T235959+0100.part */
inline bool is_chunk_folder(std::string_view name) {
    if (name.ends_with(unfinished_end)) name.remove_suffix(unfinished_end.size());
    constexpr std::string_view start = "chunk-";
    const std::size_t time = name.find_last_of('-', name.find('T'));
    return time != std::string_view::npos && is_numbered(name.substr(0, time), start) &&
           name.find_first_not_of("0123456789T+-", time) == std::string_view::npos;
}

/* Of one recording, each a trace of its own. */
inline bool is_one_of_several(std::string_view name) {
    return is_snapshot_folder(name) || is_chunk_folder(name);
}

/* .replaced-1: the trace that was there before, put aside until there is another one. Who was killed meanwhile leaves it so. */
inline constexpr std::string_view aside_start = ".replaced-";
inline bool is_aside_folder(std::string_view name) {
    return is_numbered(name, aside_start);
}

/* Beside the chunks of a session that is kept: how far they are whole, while they are written. */
inline constexpr const char* journal_name = ".plumb-journal";

/* Those that are there a moment later, too: a recorder that keeps so many chunks may be removing them just now. */
std::vector<std::string> folders_that_stay(std::vector<std::string> folders);

} // namespace plumb

#endif
