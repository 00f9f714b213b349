#include "consumerd/kernel/probe_misses.h"

#include <functional>
#include <optional>
#include <sstream>

namespace plumb {
namespace {

/* "p:group/name place" -> "name" */
std::optional<std::string> name_in_group(const std::string& event, const std::string& group) {
    const std::size_t colon = event.find(':');
    const std::string begin = group + "/";
    if (colon == std::string::npos || event.compare(colon + 1, begin.size(), begin) != 0) return {};
    const std::size_t at = colon + 1 + begin.size();
    return event.substr(at, event.find(' ', at) - at);
}

using EachProbe = std::function<void(const std::string& name, std::istringstream& counted)>;

/* Of the group, with the line that counts it. */
void for_each_probe(const std::string& events, const std::string& profile, const std::string& group,
                    const EachProbe& each) {
    std::istringstream event_lines(events), profile_lines(profile);
    for (std::string event, line; std::getline(event_lines, event) && std::getline(profile_lines, line);) {
        const auto name = name_in_group(event, group);
        std::istringstream counted(line);
        if (name) each(*name, counted);
    }
}

} // namespace

std::uint64_t probe_misses(const std::string& events, const std::string& profile, const std::string& group) {
    std::uint64_t sum = 0;
    for_each_probe(events, profile, group, [&](const std::string& name, std::istringstream& counted) {
        std::string counted_name;
        std::uint64_t hits = 0, misses = 0;
        if (counted >> counted_name >> hits >> misses && counted_name == name) sum += misses;
    });
    return sum;
}

std::map<std::string, std::uint64_t> user_probe_hits(const std::string& events, const std::string& profile,
                                                     const std::string& group) {
    std::map<std::string, std::uint64_t> found;
    for_each_probe(events, profile, group, [&](const std::string& name, std::istringstream& counted) {
        std::string file, counted_name;
        std::uint64_t hits = 0;
        if (counted >> file >> counted_name >> hits && counted_name == name) found[name] = hits;
    });
    return found;
}

} // namespace plumb
