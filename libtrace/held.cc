// Processes that are held: they may not make system calls of ours any more, or not read the cycle counter, or might not.
// What that means is in <plumb/abi/state.h>. A controller says so in the slot when it sees a filter in /proc; what the
// program does by prctl() or syscall() it is known before it is in force (filter.cc).
//
// Whoever makes system calls here has a Permit, from before the look whether the process is held until behind the
// last call. So a thread that is about to forbid them (for all threads, perhaps) says that the process is held, waits
// until all permits are back, and only then goes to the kernel.
#include "every_start.h"
#include "runtime.h"
#include "sanitizers.h"
#include "signals_held.h"

#include "ring/memory.h"

#include <linux/prctl.h>

namespace plumb {

namespace {

// Each on a cache line of its own, which its threads share only if there are more than so many.
constexpr uint32_t permit_counts = 64;
struct alignas(64) PermitCount {
    uint32_t given;
};
PermitCount permits[permit_counts];

PLUMB_OF_EVERY_START uint32_t forks; // that were noticed; permits of before are nobody's

bool permits_are_back() {
    for (const PermitCount& count : permits) {
        if (load_seq_cst(count.given) != 0) return false;
    }
    return true;
}

// Those who wait in the kernel hold theirs, so that they come out and see.
void wake_who_waits() {
    for (Attachment& attachment : attachments) {
        if (load_seq_cst(attachment.usable) == 0 || attachment.mode != PLUMB_MODE_BLOCK) continue;
        add_seq_cst(attachment.header->space_futex, 1u);
        sys::futex_wake_all(attachment.header->space_futex);
    }
}

// It ends: a thread may have left by a jump and taken its permit along, and one that does not run just now goes on
// later than this at its own risk. `may_sleep`: nothing forbids it yet.
void wait_for_permits(bool may_sleep) {
    constexpr int sleeps = 300;
    for (int i = 0; i < sleeps && !permits_are_back(); i++) {
        if (!may_sleep) continue;
        if (i % 4 == 1) wake_who_waits();
        sys::sleep_ns(1'000'000);
    }
}

uint32_t flag_of(Restriction restriction) {
    return restriction == Restriction::no_clock ? PLUMB_PROCESS_NO_CLOCK : PLUMB_PROCESS_FILTERED;
}

// nullptr too when a controller has freed it, in error or because it found damage: then it speaks for somebody else.
plumb_process* own_slot() {
    plumb_process* slot = load_relaxed(runtime.slot);
    return slot != nullptr && load_relaxed(slot->claim) == runtime.claim ? slot : nullptr;
}

void say_in_slot(Restriction restriction) {
    plumb_process* slot = own_slot();
    if (slot == nullptr) return;
    __atomic_fetch_or(&slot->held, PLUMB_HELD_BY_ITSELF, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&slot->flags, flag_of(restriction), __ATOMIC_SEQ_CST);
}

// Events go off for good: what is traced from then on is in no count of losses, so the channel says that it is missing.
// Once in a process: PR_SET_TSC may be called again and again.
void count_without_clock() {
    if (exchange_seq_cst(runtime.clock_forbidden, true)) return;
    for (Attachment& attachment : attachments) {
        if (load_seq_cst(attachment.usable) != 0)
            add_seq_cst(attachment.header->refused[PLUMB_REFUSED_CLOCK], uint64_t{1});
    }
}

} // namespace

// Without the slot, a controller can not insist. That the parent's may be somebody else's by now holds for a forked child,
// too, that has not noticed yet.
bool is_held() {
    if (runtime.held_for_good || runtime.clock_forbidden) return true;
    const plumb_process* slot = own_slot();
    return slot != nullptr ? load_seq_cst(slot->held) != 0 : load_relaxed(runtime.restrictions) != 0;
}

bool has_flag_in_slot(uint32_t flag) {
    const plumb_process* slot = own_slot();
    return slot != nullptr && (load_relaxed(slot->flags) & flag) != 0;
}

void set_flag_of_slot(uint32_t flag) {
    plumb_process* slot = own_slot();
    if (slot != nullptr && (load_relaxed(slot->flags) & flag) == 0)
        __atomic_fetch_or(&slot->flags, flag, __ATOMIC_SEQ_CST);
}

void say_without_clock() {
    set_flag_of_slot(PLUMB_PROCESS_CLOCK_CALLS);
}

void say_without_times() {
    set_flag_of_slot(PLUMB_PROCESS_NO_TIMES);
}

Permit::Permit(WithoutThreadData) : Permit(permits[0].given) {}

Permit::Permit() : Permit(permits[plumb_thread_self.id % permit_counts].given) {}

Permit::Permit(uint32_t& count) : count_(count), forks_(load_relaxed(forks)) {
    add_seq_cst(count_, 1u);
    given_ = !is_held();
    if (!given_)
        give_back(); // not at the end of the event: threads that trace all the time would be waited for in vain
}

Permit::~Permit() {
    if (given_) give_back();
}

void Permit::give_back() {
    if (load_relaxed(forks) == forks_) add_seq_cst(count_, UINT32_MAX);
}

uint32_t fork_count() {
    return load_relaxed(forks);
}

void reset_permits() {
    store_relaxed(forks, load_relaxed(forks) + 1);
    for (PermitCount& count : permits)
        count.given = 0;
}

bool announce(Restriction restriction) {
    if (!runtime.initialised) {
        add_seq_cst(runtime.restrictions, 1u);
        return true;
    }
    if (writers_are_wiped()) after_fork();
    if (is_held()) {
        // By a filter that may forbid what follows, or by one that is just being installed.
        add_seq_cst(runtime.restrictions, 1u);
        if (restriction == Restriction::no_clock) {
            count_without_clock();
            switch_off_all();
        }
        say_in_slot(restriction);
        wait_for_permits(false);
        return true;
    }
    if (runtime.process_id != sys::process_id())
        return false; // a child of vfork: all of this is its parent's
    {
        const SignalsHeld signals;
        const bool is_alone = hold_updates(); // an update that was stopped goes on at its own risk
        take_scratch_ahead();
        add_seq_cst(runtime.restrictions, 1u);
        say_in_slot(restriction);
        if (restriction == Restriction::no_clock) {
            count_without_clock();
            switch_off_all();
        }
        take_memory_ahead();
        if (is_alone) release_updates();
    }
    wait_for_permits(true);
    return true;
}

// PR_TSC_SIGSEGV outlives exec(): who forbade it may have been another program. Asked once in a process, and not where there
// is a filter from the start, that may end the program for it.
bool may_read_clock() {
    if (runtime.held_for_good || runtime.clock_forbidden) return false;
    if (runtime.clock_known || inherited_filters() != 0) return true;
    runtime.clock_known = true;
    int mode = PR_TSC_ENABLE;
    if (sys::call(SYS_prctl, PR_GET_TSC, &mode, 0, 0, 0) != 0 || mode != PR_TSC_SIGSEGV) return true;
    add_seq_cst(runtime.restrictions, 1u);
    runtime.clock_forbidden = true;
    say_in_slot(Restriction::no_clock);
    return false;
}

// The kernel refused. What was traced meanwhile is missing all the same, so that count stays. A controller may hold the
// process for a filter that nobody heard of, and goes on to do so.
void revoke(Restriction restriction) {
    if (add_seq_cst(runtime.restrictions, UINT32_MAX) != 1) return;
    if (restriction == Restriction::no_clock) runtime.clock_forbidden = false;
    plumb_process* slot = own_slot();
    if (!runtime.initialised || slot == nullptr) return;
    __atomic_fetch_and(&slot->flags, ~flag_of(restriction), __ATOMIC_SEQ_CST);
    __atomic_fetch_and(&slot->held, ~PLUMB_HELD_BY_ITSELF, __ATOMIC_SEQ_CST);
    request_update();
}

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)
// Where all of this is linked statically, filter.cc and vfork.cc have to come along.
__asm__(".pushsection .text\n"
        ".reloc ., R_X86_64_NONE, plumb_fail_call\n"
        ".reloc ., R_X86_64_NONE, vfork\n"
        ".popsection\n");
#endif

} // namespace plumb

extern "C" __attribute__((visibility("default"))) int plumb_with_permit(void (*function)(void* argument),
                                                                        void* argument) {
    const plumb::Permit permit;
    if (!permit.given()) return -EPERM;
    function(argument);
    return 0;
}
