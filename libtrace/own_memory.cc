// Looks at memory of our own that may not be there, or that may not be read here: by the kernel, so that nothing faults. A look is a
// system call, which a filter may forbid: each says what it does where none may be made.
#include "runtime.h"

#include <sys/uio.h>

namespace plumb {

namespace {

// A copy of our own memory, by the number of this thread, since the first one may have ended and have none left: the bytes
// copied, or -errno, -EFAULT where there is none.
long try_to_copy_memory(uint32_t thread_id, uint64_t from, void* to, size_t bytes) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(from), bytes};
    return sys::call(SYS_process_vm_readv, thread_id, &local, 1L, &remote, 1L, 0L);
}

} // namespace

// Between a look at /proc/self/maps and this, another thread may have unloaded the object.
bool copy_memory(uint32_t thread_id, uint64_t from, void* to, size_t bytes) {
    return try_to_copy_memory(thread_id, from, to, bytes) == static_cast<long>(bytes);
}

bool is_word_there(uint64_t address, uint64_t word) {
    uint64_t there = 0;
    const long got = try_to_copy_memory(sys::thread_id(), address, &there, sizeof(there));
    return there == word || (got < 0 && got != -EFAULT);
}

bool copy_own_memory(uint64_t from, void* to, size_t bytes) {
    const Permit permit;
    const long got = permit.given() && has_certainly_no_filter()
                         ? try_to_copy_memory(sys::thread_id(), from, to, bytes)
                         : -EPERM;
    if (got == static_cast<long>(bytes)) return true;
    if (got >= 0 || got == -EFAULT) return false;
    __builtin_memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
}

} // namespace plumb

extern "C" __attribute__((visibility("default"))) int plumb_is_other_word_there(const void* address,
                                                                                uint64_t word) {
    constexpr uint64_t page_bytes = 4096;
    const auto at = reinterpret_cast<uint64_t>(address);
    unsigned char is_in_core = 0;
    uint64_t there = word;
    const plumb::Permit permit;
    if (!permit.given()) return 0;
    const long got = plumb::try_to_copy_memory(plumb::sys::thread_id(), at, &there, sizeof(there));
    if (got == sizeof(there)) return there != word;
    return got == -EFAULT && plumb::has_certainly_no_filter() &&
           plumb::sys::call(SYS_mincore, at & ~(page_bytes - 1), 1L, &is_in_core) == -ENOMEM;
}
