// Who was launched by a session's controller is named by the environment. A login shell, sudo or `env -i` clean that; what
// they start is the controller's descendant all the same, as long as all between them live.
#include "open_file.h"
#include "runtime.h"
#include "text.h"

namespace plumb {

namespace {

// What is known of each session: the cookie, if it is so; else 0. A process becomes nobody's descendant who it was not, and a
// child is of whom its parent is.
uint64_t descends[PLUMB_MAX_SESSIONS];
uint64_t descends_not[PLUMB_MAX_SESSIONS];

// "PID (NAME) STATE PARENT ...", and the name may contain anything.
uint32_t parent_in(const char* text, long bytes) {
    long at = bytes;
    while (at > 0 && text[at - 1] != ')')
        at--;
    at += 3; // " S "
    uint32_t parent = 0;
    for (; at > 3 && at < bytes && text[at] >= '0' && text[at] <= '9'; at++)
        parent = parent * 10 + static_cast<uint32_t>(text[at] - '0');
    return parent;
}

// 0: not known.
uint32_t parent_of(uint32_t process_id) {
    char path[32], text[256];
    append(append_decimal(append(path, "/proc/"), process_id), "/stat");
    const OpenFile file(path, O_RDONLY);
    if (file.number() < 0) return 0;
    const long bytes = sys::read(file.number(), text, sizeof(text));
    return bytes > 0 ? parent_in(text, bytes) : 0;
}

// By the numbers of our /proc, which must be those of our namespace: then it knows our parent as we do.
bool is_ancestor(uint32_t wanted) {
    constexpr int generations_max = 256;
    uint32_t process_id = static_cast<uint32_t>(sys::call(SYS_getppid));
    if (process_id != wanted && parent_of(runtime.process_id) != process_id) return false;
    for (int i = 0; i < generations_max && process_id > 1; i++) {
        if (process_id == wanted) return true;
        process_id = parent_of(process_id);
    }
    return process_id == wanted;
}

} // namespace

bool descends_from_controller(const plumb_session& session, uint32_t index) {
    const uint64_t cookie = session.cookie;
    if (load_relaxed(descends[index]) == cookie) return true;
    if (load_relaxed(descends_not[index]) == cookie) return false;
    // The controller of a session that is kept may be gone, and its number be somebody else's.
    const bool is_so = (session.flags & PLUMB_SESSION_KEPT) == 0 && session.controller_namespace != 0 &&
                       session.controller_namespace == process_namespace() &&
                       session.controller_process_id != 0 && is_ancestor(session.controller_process_id);
    store_relaxed((is_so ? descends : descends_not)[index], cookie);
    return is_so;
}

} // namespace plumb
