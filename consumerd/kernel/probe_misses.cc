#include "consumerd/kernel/probe_misses.h"

#include <sstream>

namespace plumb {

std::uint64_t probe_misses(const std::string& events, const std::string& profile, const std::string& group) {
    std::istringstream event_lines(events), profile_lines(profile);
    std::uint64_t sum = 0;
    for (std::string event, line; std::getline(event_lines, event) && std::getline(profile_lines, line);) {
        const std::size_t colon = event.find(':');
        const std::string begin = group + "/";
        if (colon == std::string::npos || event.compare(colon + 1, begin.size(), begin) != 0) continue;
        const std::size_t at = colon + 1 + begin.size();
        std::istringstream words(line);
        std::string name;
        std::uint64_t hits = 0, misses = 0;
        if (words >> name >> hits >> misses && name == event.substr(at, event.find(' ', at) - at))
            sum += misses;
    }
    return sum;
}

} // namespace plumb
