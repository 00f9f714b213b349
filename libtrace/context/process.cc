// What of context a process has once: inodes of its namespaces, and of its control group. Read when a channel that wants them is
// attached, and again in a forked child; a process that moves later (setns(), another cgroup) still is where it was, as far as its
// records say.
#include "process.h"
#include "../bytes.h"
#include "callstack.h"
#include "context.h"

#include "../open_file.h"
#include "../runtime.h"

#include <plumb/abi/context.h>

namespace plumb::context {

constinit Process process = {};

namespace {

constexpr const char* namespace_paths[namespace_count] = {
    "/proc/thread-self/ns/pid",    "/proc/thread-self/ns/user", "/proc/thread-self/ns/mnt",
    "/proc/thread-self/ns/net",    "/proc/thread-self/ns/ipc",  "/proc/thread-self/ns/uts",
    "/proc/thread-self/ns/cgroup", "/proc/thread-self/ns/time"};

void know_namespaces(uint32_t context) {
    for (uint32_t i = 0; i < namespace_count; i++) {
        if ((context & PLUMB_CONTEXT_PID_NS << i) == 0) continue;
        struct stat info;
        const bool is_known = sys::status_of(namespace_paths[i], &info) == 0;
        store_relaxed(process.namespaces[i], is_known ? static_cast<uint32_t>(info.st_ino) : 0u);
    }
}

// The line of the hierarchy of version 2 is "0::/path". Behind a mount of a part of it, or where there is none, it is not known.
void know_cgroup() {
    static char text[4096 + 64]; // of the owner of `updating`
    static constexpr char mount[] = "/sys/fs/cgroup";
    constexpr size_t mount_bytes = sizeof(mount) - 1;
    const OpenFile file("/proc/thread-self/cgroup", O_RDONLY);
    const long bytes = file.number() < 0 ? -1 : sys::read(file.number(), text + mount_bytes, 4096);
    store_relaxed(process.cgroup, uint64_t{0});
    for (long line = 0; line < bytes;) {
        char* const start = text + mount_bytes + line;
        long length = 0;
        while (line + length < bytes && start[length] != '\n')
            length++;
        if (line + length == bytes) return; // it does not end
        if (length > 3 && are_same(start, "0::", 3)) {
            char* const path = start + 3 - mount_bytes; // in front of which there is room for it
            __builtin_memcpy(path, mount, mount_bytes);
            start[length] = '\0';
            struct stat info;
            if (sys::status_of(path, &info) == 0)
                store_relaxed(process.cgroup, static_cast<uint64_t>(info.st_ino));
            return;
        }
        line += length + 1;
    }
}

} // namespace

void know_process(uint32_t context) {
    if ((context & PLUMB_CONTEXT_NAMESPACES) != 0) know_namespaces(context);
    if ((context & PLUMB_CONTEXT_CGROUP) != 0) know_cgroup();
    if ((context & PLUMB_CONTEXT_CALLSTACK) != 0) prepare_callstacks();
}

} // namespace plumb::context
