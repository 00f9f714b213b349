/* The pattern language of rules, filters and options. */
#ifndef PLUMB_BASE_GLOB_H
#define PLUMB_BASE_GLOB_H

#include <string>
#include <string_view>

namespace plumb {

/* `*` any characters, `?` one, `[a-z]` a set, `\` quotes the next outside of sets. Characters are those of UTF-8; a byte that is
 * in none is one by itself. The runtime's pattern_matches() reads them alike. */
bool glob_matches(std::string_view pattern, std::string_view text);

/* Why it is a mistake, which would match nothing without a word: it is empty, a set has no end, nothing is quoted; or
 * others would read it otherwise: `[[:alpha:]]`, `[\]]`. Null if it is none. */
const char* glob_mistake(const std::string& pattern);

} // namespace plumb

#endif
