/* The pattern language of rules, filters and options. */
#ifndef PLUMB_BASE_GLOB_H
#define PLUMB_BASE_GLOB_H

namespace plumb {

/* `*` any characters, `?` one, `[a-z]` a set, `\` quotes the next. */
bool glob_matches(const char* pattern, const char* text);

} // namespace plumb

#endif
