// A program may have a seccomp filter from the start: a container, or a service manager, installed it before exec(). It may
// end the program for a call that tracing makes, and not for those that ld.so has made by then: open, read, mmap, close.
// So before the first other call the runtime reads how many filters there are. As many as a session's controller has are
// taken for the same ones. Filters that the program installs itself: held.cc.
#include "open_file.h"
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

struct Status {
    char text[4096];
    long bytes = 0;

    uint32_t number(const char* name) const { return number_behind(text, bytes, name, 0); }
};

// False: there is no /proc.
bool read_status(Status& status) {
    const OpenFile file("/proc/self/status", O_RDONLY);
    if (file.number() < 0) return false;
    long& bytes = status.bytes;
    for (long got = 1; got > 0 && bytes<static_cast<long>(sizeof(status.text)); bytes += got> 0 ? got : 0)
        got = sys::read(file.number(), status.text + bytes, sizeof(status.text) - static_cast<size_t>(bytes));
    return true;
}

uint32_t filters_in(const Status& status) {
    if (status.number("Seccomp:\t") == 0) return 0;
    const uint32_t count = status.number("Seccomp_filters:\t");
    return count != 0 ? count : UINT32_MAX; // Linux before 5.9 does not count
}

} // namespace

// Once in a process: it says what was there when the first session was found. A child has what its parent had. A filter
// from the start may not know the calls that OpenFile makes.
uint32_t inherited_filters() {
    if (runtime.filters_known == 0) {
        Status status;
        if (read_status(status)) {
            runtime.filters = filters_in(status);
            if (runtime.filters == 0) know_descriptor_table(status.number("FDSize:\t"));
        }
        runtime.filters_known = 1;
    }
    return runtime.filters;
}

// It grows with the program's files.
void look_at_descriptor_table() {
    Status status;
    if (is_descriptor_table_outgrown() && read_status(status))
        know_descriptor_table(status.number("FDSize:\t"));
}

bool is_forbidden_by_filters(const plumb_session& session) {
    const uint32_t filters = inherited_filters();
    return filters != 0 && (filters == UINT32_MAX || filters != session.controller_filters) &&
           (session.flags & PLUMB_SESSION_FILTERED_TOO) == 0;
}

} // namespace plumb
