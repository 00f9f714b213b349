// Where the kernel's struct rseq of a thread is, and its registration where the C library does not do it.
//
// glibc registers each thread from 2.35 on, unless a tunable says no; musl does not, nor do older ones. Without it an event
// costs two system calls and a ring of its own (ring/owner.h). So there each thread has an area of ours, which is
// registered at its first record, on the slow path with signals blocked. Until then its CPU number is -1, which is
// above every ring: the fast path finds no ring of its CPU and goes the slow way.
//
// A thread has one registration. Where somebody else in the program has his own (an allocator with per-CPU caches), the
// kernel refuses ours, and the runtime asks for no further one.
//
// It must be taken back before the thread's memory is: the kernel writes the area whenever the thread was preempted, and
// some C libraries unmap a detached thread's stack, and its thread-local storage with it, while the thread still
// runs. The destructor of a key does it, the first time that it is called: where a thread writes its first event in a
// destructor of the program's, nobody knows how many of the rounds that destructors have are over, and a later time may not
// come. What a thread writes after that goes the way without sequences. (A thread whose first event of all comes from the
// last round, behind our turn, keeps its area.)
//
// A thread that the program has made by clone(), with thread-local storage of its own, has an area there that nobody has
// registered, whatever its CPU number says (0). So the kernel is asked once for each thread, before its first record.
//
// fork() hands a registration on, vfork() and clone() with CLONE_VM do not; so what their child forks has none either. The
// area does not tell: it has the CPU of long ago. So a process that was forked asks the kernel, which refuses a second one.
#include "bytes.h"
#include "runtime.h"

#include "ring/sequence.h"

#include <cerrno>
#include <cstddef>
#include <pthread.h>

#if defined(__x86_64__)

extern "C" {
// glibc >= 2.35.
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace plumb {

namespace {

// The kernel's struct rseq as it was first, which every kernel takes.
struct alignas(32) Area {
    uint32_t cpu_id_start;
    uint32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags;
    uint32_t unused[3];
};
static_assert(sizeof(Area) == 32);

constexpr uint32_t not_registered = UINT32_MAX;
constexpr uint32_t never_registered = UINT32_MAX - 1;
constexpr uint32_t signature = 0x53053053; // that of PLUMB_RSEQ_ABORT
constexpr int unregister = 1;              // RSEQ_FLAG_UNREGISTER

__attribute__((tls_model("initial-exec"))) __thread Area area = {0, not_registered, 0, 0, {}};

__attribute__((tls_model("initial-exec"))) __thread bool was_asked = false;

pthread_key_t key;
bool ours = false;            // areas of ours are in use
uint32_t others_register = 0; // somebody else does, with areas of his own

// C libraries keep the first keys' values in the thread itself, so that setting one allocates nothing: a thread's
// first record may be written by a signal handler.
constexpr pthread_key_t keys_in_thread = 32;

unsigned char* thread_pointer() {
    unsigned char* pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

int64_t offset_of_area() {
    return reinterpret_cast<unsigned char*>(&area) - thread_pointer();
}

long register_area(int flags, Area* area_of_thread = &area) {
    return sys::call(SYS_rseq, area_of_thread, static_cast<unsigned>(sizeof(Area)), flags, signature);
}

void at_thread_end(void*) {
    // No sequence of this thread can be in flight here, and a handler that comes now finds no ring of its CPU.
    store_relaxed(area.cpu_id, never_registered);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    // In a held process it stays. glibc keeps the thread's memory until the thread is gone; musl does not.
    const Permit permit;
    if (permit.given()) register_area(unregister);
    store_relaxed(area.cpu_id, never_registered); // the kernel has set it to "not registered"
}

bool kernel_has_rseq() {
    return sys::call(SYS_rseq, nullptr, 0u, 0, 0) != -ENOSYS;
}

bool is_equal(const char* text, const char* other) {
    return text != nullptr && is_text(text, other);
}

} // namespace

int64_t find_rseq(const char* wish) {
    if (is_equal(wish, "none")) return 0;
    const bool by_library = &__rseq_size != nullptr && &__rseq_offset != nullptr && __rseq_size != 0;
    if (by_library && static_cast<int32_t>(current_cpu(__rseq_offset)) >= 0) return __rseq_offset;
    if (is_equal(wish, "libc") || !kernel_has_rseq()) return 0;
    if (pthread_key_create(&key, at_thread_end) != 0) return 0;
    if (key >= keys_in_thread) {
        pthread_key_delete(key);
        return 0;
    }
    ours = true;
    return offset_of_area();
}

void ask_whether_registered() {
    if (was_asked) return;
    was_asked = true;
    if (static_cast<int32_t>(current_cpu(runtime.rseq_offset)) < 0) return;
    auto* const area_of_thread = reinterpret_cast<Area*>(thread_pointer() + runtime.rseq_offset);
    const bool can_be = reinterpret_cast<uintptr_t>(area_of_thread) % alignof(Area) == 0;
    if (can_be && register_area(0, area_of_thread) != 0) return;
    if (can_be) register_area(unregister, area_of_thread);
    store_relaxed(area_of_thread->cpu_id, never_registered);
}

void register_thread() {
    if (runtime.rseq_offset == 0) return;
    ask_whether_registered();
    if (!ours || area.cpu_id != not_registered || load_relaxed(others_register) != 0) return;
    // First the value: a thread that ends with an area registered must not end without its destructor.
    if (pthread_setspecific(key, &area) != 0) return;
    if (register_area(0) == 0) return;
    if (load_relaxed(area.cpu_id) != not_registered) return; // a handler did, in the middle of this
    area.cpu_id = never_registered;
    pthread_setspecific(key, nullptr);
    store_relaxed(others_register, 1u);
}

void renew_registration(bool by_child_of_vfork) {
    if (runtime.rseq_offset == 0 || static_cast<int32_t>(current_cpu(runtime.rseq_offset)) < 0) return;
    auto* const area_of_thread = reinterpret_cast<Area*>(thread_pointer() + runtime.rseq_offset);
    const long error = register_area(0, area_of_thread);
    if (error == 0 || error == -EBUSY || error == -EINVAL) return; // -EINVAL: of another length
    if (by_child_of_vfork) store_relaxed(area_of_thread->cpu_id, not_registered); // a filter refuses
}

} // namespace plumb

#else

namespace plumb {

int64_t find_rseq(const char*) {
    return 0;
}

void register_thread() {}
void renew_registration(bool) {}

} // namespace plumb

#endif
