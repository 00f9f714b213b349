// Whether other processes and threads still live; what cannot be judged lives. What this process is.
#include "bytes.h"
#include "open_file.h"
#include "runtime.h"
#include "text.h"

#include <elf.h>
#include <link.h>

namespace plumb {

namespace {

// In a container without one of its own, /proc may show its host's numbers.
bool proc_has_our_numbers() {
    char own[16];
    char shown[16];
    const auto bytes = static_cast<long>(append_decimal(own, sys::process_id()) - own);
    return sys::read_link("/proc/self", shown, sizeof(shown)) == bytes &&
           are_same(own, shown, static_cast<size_t>(bytes));
}

} // namespace

// The kernel lets signals be sent to a zombie, so kill() does not tell.
bool is_zombie(uint32_t process_id, uint32_t thread_id) {
    char path[64];
    char* end = append_decimal(append(path, "/proc/"), process_id);
    append(append_decimal(append(end, "/task/"), thread_id), "/stat");
    if (!proc_has_our_numbers()) return false;
    const OpenFile file(path, O_RDONLY);
    char line[128];
    const long bytes = sys::read(file.number(), line, sizeof(line));
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

// Through this link the answer is right whatever numbers /proc shows, or there is none.
uint32_t process_namespace() {
    uint32_t inode = load_relaxed(runtime.process_namespace);
    if (inode != 0 || is_held()) return inode;
    struct stat info;
    if (sys::status_of("/proc/thread-self/ns/pid", &info) == 0) inode = static_cast<uint32_t>(info.st_ino);
    if (inode != 0) store_relaxed(runtime.process_namespace, inode);
    return inode;
}

namespace {

struct Told {
    unsigned long type;
    uint64_t value;
};
PLUMB_OF_EVERY_START Told told[] = {
    {AT_SYSINFO_EHDR, 0}, {AT_RANDOM, 0}, {AT_PHDR, 0}, {type_of_signal_frame_bytes, 0}};

} // namespace

void keep_what_was_told() {
    for (Told& each : told)
        each.value = sys::auxiliary(each.type);
}

uint64_t told_at_start(unsigned long type) {
    for (const Told& each : told)
        if (each.type == type && each.value != 0) return each.value;
    return sys::auxiliary(type);
}

// The kernel says where the program's own headers are; of a program that ld.so was called to run, they are ld.so's.
bool is_in_executable(const void* address) {
    const uint64_t headers = told_at_start(AT_PHDR);
    const uint64_t start = headers - sizeof(ElfW(Ehdr));
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(start);
    if (headers == 0 || start % 4096 != 0 || !are_same(header->e_ident, ELFMAG, SELFMAG) ||
        header->e_phoff != sizeof(ElfW(Ehdr)))
        return false;
    const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(headers);
    const ElfW(Phdr)* first = nullptr; // which holds the headers
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        const ElfW(Phdr)& segment = segments[i];
        if (segment.p_type != PT_LOAD) continue;
        if (first == nullptr) first = &segment;
        const uint64_t begin = start - first->p_vaddr + segment.p_vaddr;
        const auto at = reinterpret_cast<uint64_t>(address);
        if (first->p_offset == 0 && at >= begin && at < begin + segment.p_memsz) return true;
    }
    return false;
}

// In a forked child, cheaply: who was put into a new namespace sees its parent, which is outside, as 0.
void forget_process_namespace(uint32_t parent_process_id) {
    if (static_cast<uint32_t>(sys::call(SYS_getppid)) != parent_process_id)
        store_relaxed(runtime.process_namespace, 0u);
}

} // namespace plumb
