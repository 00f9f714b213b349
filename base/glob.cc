#include "base/glob.h"

#include <fnmatch.h>

namespace plumb {

bool glob_matches(const char* pattern, const char* text) {
    return ::fnmatch(pattern, text, 0) == 0;
}

} // namespace plumb
