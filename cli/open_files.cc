#include "cli/open_files.h"

#include <optional>
#include <sys/resource.h>

namespace plumb {

namespace {
std::optional<rlimit> before; /* if it was changed */
}

void raise_open_files_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) before = limit;
}

void restore_open_files_limit() {
    if (before) ::setrlimit(RLIMIT_NOFILE, &*before);
}

} // namespace plumb
