// Runs from .preinit_array, before the constructors of tp-async.o: system calls only.
#include "tests/support/private_shm.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#define PLUMB_TEST_PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))

namespace plumb::test {

namespace {

bool is_private;

PLUMB_TEST_PLAIN bool write_file(const char* path, const char* text, size_t bytes) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool done = write(fd, text, bytes) == static_cast<ssize_t>(bytes);
    close(fd);
    return done;
}

// Without privileges a user namespace gives us those we need; ids stay what they are.
PLUMB_TEST_PLAIN bool enter_namespace() {
    if (unshare(CLONE_NEWNS) == 0) return true;
    const unsigned uid = getuid();
    const unsigned gid = getgid();
    if (unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
    char map[64];
    const auto write_map = [&](const char* path, unsigned id) {
        const int bytes = snprintf(map, sizeof(map), "%u %u 1", id, id);
        return write_file(path, map, static_cast<size_t>(bytes));
    };
    write_file("/proc/self/setgroups", "deny", 4);
    return write_map("/proc/self/uid_map", uid) && write_map("/proc/self/gid_map", gid);
}

PLUMB_TEST_PLAIN void make_private(int, char**, char**) {
    if (!enter_namespace()) return;
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    is_private = mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
}

__attribute__((section(".preinit_array"), used)) void (*before_constructors)(int, char**,
                                                                             char**) = make_private;

} // namespace

bool has_private_shm() {
    return is_private;
}

} // namespace plumb::test
