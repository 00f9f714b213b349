#include "base/glob.h"

#include <cstddef>
#include <fnmatch.h>

namespace plumb {

bool glob_matches(const char* pattern, const char* text) {
    return ::fnmatch(pattern, text, 0) == 0;
}

const char* glob_mistake(const std::string& pattern) {
    if (pattern.empty()) return "it is empty";
    for (std::size_t at = 0; at < pattern.size(); at++) {
        if (pattern[at] == '\\') {
            if (++at == pattern.size()) return "nothing follows its last backslash";
            continue;
        }
        if (pattern[at] != '[') continue;
        const bool negated = at + 1 < pattern.size() && (pattern[at + 1] == '!' || pattern[at + 1] == '^');
        const std::size_t begin = at + (negated ? 2 : 1);
        at = pattern.find(']', begin + 1); /* the first is one of the set in any case */
        if (at == std::string::npos) return "the set that [ begins has no end";
        /* Matchers differ about these. */
        const std::string set = pattern.substr(begin, at - begin);
        if (set.find('\\') != std::string::npos) return "in a set, a backslash quotes nothing";
        for (const char* const named : {"[:", "[.", "[="})
            if (set.find(named) != std::string::npos)
                return "a set has no named classes; write its letters, as in [a-z0-9]";
        for (std::size_t dash = 1; dash + 1 < set.size(); dash++)
            if (set[dash] == '-' &&
                static_cast<unsigned char>(set[dash - 1]) > static_cast<unsigned char>(set[dash + 1]))
                return "a range in a set runs backwards";
    }
    return nullptr;
}

} // namespace plumb
