/* The pattern language of rules, filters and options. */
#ifndef PLUMB_BASE_GLOB_H
#define PLUMB_BASE_GLOB_H

#include <string>

namespace plumb {

/* `*` any characters, `?` one, `[a-z]` a set, `\` quotes the next. */
bool glob_matches(const char* pattern, const char* text);

/* Why it is a mistake, which would match nothing without a word: it is empty, a set has no end, nothing is quoted. Null
 * if it is none. */
const char* glob_mistake(const std::string& pattern);

} // namespace plumb

#endif
