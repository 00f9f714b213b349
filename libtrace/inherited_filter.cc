// A program may have a seccomp filter from the start: a container, or a service manager, installed it before exec(). It may
// end the program for a call that tracing makes, and not for those that ld.so has made by then: open, read, mmap, close.
// So before the first other call the runtime reads how many filters there are. As many as a session's controller has are
// taken for the same ones. Filters that the program installs itself: held.cc.
#include "runtime.h"

namespace plumb {

namespace {

// The number behind "NAME:\t"; `otherwise` where there is none.
uint32_t number_behind(const char* text, long bytes, const char* name, uint32_t otherwise) {
    const auto length = static_cast<long>(__builtin_strlen(name));
    for (long i = 0; i + length < bytes; i++) {
        if ((i != 0 && text[i - 1] != '\n') ||
            __builtin_memcmp(text + i, name, static_cast<size_t>(length)) != 0)
            continue;
        uint32_t number = 0;
        for (i += length; i < bytes && text[i] >= '0' && text[i] <= '9'; i++)
            number = number * 10 + static_cast<uint32_t>(text[i] - '0');
        return number;
    }
    return otherwise;
}

uint32_t filters_now() {
    const int fd = sys::open("/proc/self/status", O_RDONLY);
    if (fd < 0) return 0;
    char text[4096];
    long bytes = 0;
    for (long got = 1; got > 0 && bytes<static_cast<long>(sizeof(text)); bytes += got> 0 ? got : 0)
        got = sys::read(fd, text + bytes, sizeof(text) - static_cast<size_t>(bytes));
    sys::close(fd);
    if (number_behind(text, bytes, "Seccomp:\t", 0) == 0) return 0;
    const uint32_t count = number_behind(text, bytes, "Seccomp_filters:\t", 0);
    return count != 0 ? count : UINT32_MAX; // Linux before 5.9 does not count
}

} // namespace

// Once in a process: it says what was there when the first session was found. A child has what its parent had.
uint32_t inherited_filters() {
    if (runtime.filters_known == 0) {
        runtime.filters = filters_now();
        runtime.filters_known = 1;
    }
    return runtime.filters;
}

bool is_forbidden_by_filters(const plumb_session& session) {
    const uint32_t filters = inherited_filters();
    return filters != 0 && (filters == UINT32_MAX || filters != session.controller_filters) &&
           (session.flags & PLUMB_SESSION_FILTERED_TOO) == 0;
}

} // namespace plumb
