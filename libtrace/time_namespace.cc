// A time namespace shifts CLOCK_MONOTONIC and CLOCK_BOOTTIME for the processes in it. What others compare with their own,
// or find beside their own in a ring, is the machine's time: shifted back here.
//
// A process comes into another one by fork() or exec() after unshare(), or by setns(). So it looks when it takes its slot,
// also in a child, and before it attaches to a session with such a clock. Who has seen it once and cannot any more (it has
// changed its root) goes on with what it saw.
//
// The thread that runs is asked, and not the process: what /proc shows of that is its first thread's, and ends with it.
#include "bytes.h"
#include "open_file.h"
#include "runtime.h"
#include "text.h"

namespace plumb {

namespace {

constexpr uint32_t first_time_namespace =
    0xeffffffau; // the inode of the machine's own, of which all others differ

struct Offsets {
    int64_t monotonic_ns;
    int64_t boottime_ns;
};
PLUMB_OF_EVERY_START Offsets offsets;
PLUMB_OF_EVERY_START uint32_t known_namespace; // that they are of; 0: not known

uint32_t inode_of(const char* path, long& error) {
    struct stat info;
    error = sys::status_of(path, &info);
    return error == 0 ? static_cast<uint32_t>(info.st_ino) : 0;
}

bool has_namespaces_in_proc() {
    long error = 0;
    return inode_of("/proc/thread-self/ns/pid", error) != 0;
}

// The next number in the text; `at` is behind it then.
int64_t next_number(const char*& at) {
    while (*at != '\0' && *at != '-' && (*at < '0' || *at > '9'))
        at++;
    const bool is_negative = *at == '-';
    if (is_negative) at++;
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (*at - '0');
    return is_negative ? -value : value;
}

int64_t next_ns(const char*& at) {
    const int64_t seconds = next_number(at);
    return seconds * 1'000'000'000 + next_number(at);
}

const char* last_part_of(const char* path) {
    const char* last = path;
    for (; *path != '\0'; path++)
        if (*path == '/') last = path + 1;
    return last;
}

// "monotonic  SECONDS NANOSECONDS\nboottime  SECONDS NANOSECONDS\n"; nanoseconds are never negative.
// Threads have no such file below their process, but where a process would be called so.
bool read_offsets(Offsets& to) {
    char text[256];
    const long link = sys::read_link("/proc/thread-self", text, sizeof(text) - 1);
    if (link <= 0) return false;
    text[link] = '\0';
    const char* const name = last_part_of(text);
    constexpr size_t name_bytes_max = 16; // a number; a root of the program's own may have any link there
    if (length_of(name) > name_bytes_max) return false;
    char path[64];
    append(append(append(path, "/proc/"), name), "/timens_offsets");
    const OpenFile file(path, O_RDONLY);
    const long bytes = sys::read(file.number(), text, sizeof(text) - 1);
    if (bytes <= 0) return false;
    text[bytes] = '\0';
    const char* at = text;
    to.monotonic_ns = next_ns(at);
    to.boottime_ns = next_ns(at);
    return true;
}

// The file tells those of the namespace that children will be in.
bool find_offsets(uint32_t inode, Offsets& to) {
    if (inode == first_time_namespace) return true;
    long error = 0;
    return inode_of("/proc/thread-self/ns/time_for_children", error) == inode && read_offsets(to);
}

} // namespace

bool know_time_namespace() {
    long error = 0;
    uint32_t inode = inode_of("/proc/thread-self/ns/time", error);
    // A kernel without time namespaces; but not a root without /proc, nor one that has been left since.
    if (error == -ENOENT && load_relaxed(known_namespace) == 0 && has_namespaces_in_proc())
        inode = first_time_namespace;
    if (inode == 0 || inode == load_relaxed(known_namespace)) return load_relaxed(known_namespace) != 0;
    Offsets found = {};
    if (!find_offsets(inode, found)) {
        store_relaxed(known_namespace, 0u);
        return false;
    }
    store_relaxed(offsets.monotonic_ns, found.monotonic_ns);
    store_relaxed(offsets.boottime_ns, found.boottime_ns);
    store_relaxed(known_namespace, inode);
    return true;
}

uint64_t machine_ns(clockid_t clock, uint64_t ns) {
    if (clock == CLOCK_MONOTONIC) ns -= static_cast<uint64_t>(load_relaxed(offsets.monotonic_ns));
    if (clock == CLOCK_BOOTTIME) ns -= static_cast<uint64_t>(load_relaxed(offsets.boottime_ns));
    return ns;
}

} // namespace plumb
