// A program may have a seccomp filter from the start: a container, or a service manager, installed it before exec(). It may
// end the program for a call that tracing makes, and not for those that ld.so has made by then: open, read, mmap, close.
// So before it makes calls for a session, others than those of its start (docs/startup.md), the runtime reads how many filters
// there are. As many as a session's controller has are
// taken for the same ones. Filters that the program installs itself: held.cc.
#include "bytes.h"
#include "open_file.h"
#include "runtime.h"

#include <plumb/detail/state_layout.h>

namespace plumb {

namespace {

// Why they are not known, although there is a /proc: an errno, or 0. Of the owner of `updating`.
int filters_error = 0;

// What /proc says of the calling thread; the first one may have ended, and then nothing of it is known any more.
struct Status {
    uint32_t descriptor_slots = 0;
    uint32_t seccomp_mode = UINT32_MAX; // not known
    uint32_t filters = 0;
    bool has_last_line = false;
};

// If the line begins with "NAME:\t", the number behind it.
void take_number(const char* line, long bytes, const char* name, uint32_t& to) {
    const auto length = static_cast<long>(length_of(name));
    if (bytes <= length || !are_same(line, name, static_cast<size_t>(length))) return;
    uint32_t number = 0;
    for (long i = length; i < bytes && line[i] >= '0' && line[i] <= '9'; i++)
        number = number * 10 + static_cast<uint32_t>(line[i] - '0');
    to = number;
}

void take_line(const char* line, long bytes, Status& status) {
    uint32_t switches = UINT32_MAX;
    take_number(line, bytes, "FDSize:\t", status.descriptor_slots);
    take_number(line, bytes, "Seccomp:\t", status.seccomp_mode);
    take_number(line, bytes, "Seccomp_filters:\t", status.filters);
    take_number(line, bytes, "nonvoluntary_ctxt_switches:\t", switches);
    if (switches != UINT32_MAX) status.has_last_line = true;
}

// Line by line: one of them names all groups of the user, up to 65,536. What of a line does not fit is not looked at.
void read_lines(int file, Status& status) {
    char text[1024];
    long used = 0;
    bool is_rest = false; // of a line that did not fit
    for (;;) {
        const long got = sys::read(file, text + used, sizeof(text) - static_cast<size_t>(used));
        if (got == -EINTR) continue;
        if (got <= 0) return;
        used += got;
        long line = 0;
        for (long i = 0; i < used; i++) {
            if (text[i] != '\n') continue;
            if (!is_rest) take_line(text + line, i - line, status);
            is_rest = false;
            line = i + 1;
        }
        if (line == 0 && used == static_cast<long>(sizeof(text))) {
            is_rest = true;
            line = used;
        }
        used -= line;
        __builtin_memmove(text, text + line, static_cast<size_t>(used));
    }
}

// 0, or -errno: -ENOENT where there is no /proc.
int read_status(Status& status) {
    const OpenFile file("/proc/thread-self/status", O_RDONLY);
    if (file.number() < 0) return file.number();
    read_lines(file.number(), status);
    return 0;
}

// A kernel without filters has no line about them. Where that line was not come by, there may be any.
uint32_t filters_in(const Status& status) {
    if (status.seccomp_mode == UINT32_MAX) return status.has_last_line ? 0 : UINT32_MAX;
    if (status.seccomp_mode == 0) return 0;
    return status.filters != 0 ? status.filters : UINT32_MAX; // Linux before 5.9 does not count
}

} // namespace

// Without /proc nothing here knows whether there is a filter but the one way that a filter may forbid, too. A controller
// looks from outside.
static bool is_seen_unfiltered() {
    const plumb_process* slot = load_relaxed(runtime.slot);
    if (slot == nullptr || load_seq_cst(slot->claim) != runtime.claim) return false;
    const uint32_t flags = load_seq_cst(slot->flags);
    return PLUMB_IS_READY(runtime.claim, flags) && (flags & PLUMB_PROCESS_UNFILTERED) != 0;
}

// Nor has it put one on since, as far as it was heard of.
bool has_certainly_no_filter() {
    const bool had_none = runtime.filters_known != 0 ? runtime.filters == 0 : is_seen_unfiltered();
    return had_none && load_seq_cst(runtime.restrictions) == 0 && !has_flag_in_slot(PLUMB_PROCESS_FILTERED);
}

// Once in a process: it says what was there when the first session was found. A child has what its parent had. A filter
// from the start may not know the calls that OpenFile makes.
uint32_t inherited_filters() {
    if (runtime.filters_known != 0) return runtime.filters;
    Status status;
    const int error = read_status(status);
    filters_error = error != -ENOENT || !is_seen_unfiltered() ? -error : 0;
    if (filters_error != 0) return UINT32_MAX; // asked again when it can be
    if (error == 0) runtime.filters = filters_in(status);
    if (error == 0 && runtime.filters == 0) know_descriptor_table(status.descriptor_slots);
    runtime.filters_known = 1;
    return runtime.filters;
}

bool may_be_told_of_filters() {
    return runtime.filters_known == 0 && filters_error == ENOENT;
}

// It grows with the program's files.
void look_at_descriptor_table() {
    Status status;
    if (is_descriptor_table_outgrown() && read_status(status) == 0)
        know_descriptor_table(status.descriptor_slots);
}

int why_forbidden_by_filters(const plumb_session& session) {
    const uint32_t filters = inherited_filters();
    if (filters == 0 || (filters != UINT32_MAX && filters == session.controller_filters) ||
        (session.flags & PLUMB_SESSION_FILTERED_TOO) != 0)
        return 0;
    return filters_error != 0 ? PLUMB_ERROR_FILTERS_UNKNOWN(filters_error) : PLUMB_ERROR_FILTERED;
}

bool are_all_forbidden(NotAttached (&forbidden)[PLUMB_MAX_SESSIONS]) {
    const plumb_rule_set& set = *plumb_state_rule_set(runtime.state, plumb_state_generation(runtime.state));
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        const uint64_t cookie = load_relaxed(set.sessions[s].cookie);
        if (cookie == 0) continue;
        forbidden[s] = {cookie, why_forbidden_by_filters(set.sessions[s]), false};
        if (forbidden[s].error == 0) return false;
    }
    return true;
}

} // namespace plumb
