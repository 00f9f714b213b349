// Whether other processes and threads still live. What cannot be judged lives.
#include "runtime.h"
#include "text.h"

namespace plumb {

namespace {

uint32_t known_namespace; // 0: not asked yet

} // namespace

// The kernel lets signals be sent to a zombie, so kill() does not tell.
bool is_zombie(uint32_t process_id, uint32_t thread_id) {
    char path[64];
    char* end = append_decimal(append(path, "/proc/"), process_id);
    append(append_decimal(append(end, "/task/"), thread_id), "/stat");
    const int fd = sys::open(path, O_RDONLY);
    if (fd < 0) return false;
    char line[128];
    const long bytes = sys::read(fd, line, sizeof(line));
    sys::close(fd);
    // "pid (name) state ...": the name may hold anything, but is at most 64 bytes long.
    for (long i = bytes - 3; i > 0; i--) {
        if (line[i] == ')') return line[i + 2] == 'Z' || line[i + 2] == 'X';
    }
    return false;
}

// One of this process, or of another one that shares our memory.
bool is_thread_gone(uint32_t thread_id) {
    if (sys::call(SYS_tgkill, runtime.process_id, thread_id, 0) == 0) return false;
    return sys::call(SYS_tkill, thread_id, 0) == -ESRCH || is_zombie(thread_id, thread_id);
}

uint32_t process_namespace() {
    uint32_t inode = load_relaxed(known_namespace);
    if (inode != 0) return inode;
    struct stat info;
    if (sys::status_of("/proc/self/ns/pid", &info) == 0) inode = static_cast<uint32_t>(info.st_ino);
    if (inode != 0) store_relaxed(known_namespace, inode);
    return inode;
}

void forget_process_namespace() {
    store_relaxed(known_namespace, 0u);
}

} // namespace plumb
