// The update signal: which one, what of it is ours, and what goes to the handler that was there before.
//
// It is a signal whose default is to be ignored (why: <plumb/abi/state.h>), and programs may use it themselves: for
// urgent data of a socket, for the size of a terminal. So one is taken that this program does not handle, if there is
// one; else the program's handler is called for every signal that is not ours, as the kernel would have called it.
// A handler that the program installs later takes the place of ours: then it hears no more than
// PLUMB_UNANSWERED_MAX signals of ours, and the rules reach this process when a writer next comes to the slow path.
#include "runtime.h"
#include "signals_held.h"

#include "ring/inject.h"

#include <cerrno>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <csignal>
#include <ucontext.h>

namespace plumb {

namespace {

constexpr int candidates[] = {SIGURG, SIGWINCH};

// The program's own handler, if ours stands in front of one; written before ours is installed.
PLUMB_OF_EVERY_START struct sigaction before_us = {};
uint32_t before_us_called = 0; // for SA_RESETHAND

// Whatever its flags say: both kinds of handler have the same place, and the kernel looks at that alone.
bool is_handled(const struct sigaction& action) {
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

uint64_t kernel_mask(const sigset_t& set) {
    uint64_t mask;
    __builtin_memcpy(&mask, &set, sizeof(mask));
    return mask;
}

// In the mask that the kernel would have made, and with all three arguments, which it passes to every handler.
// Nothing of ours is held here: the handler may jump away. Nothing of the thread's is looked at.
__attribute__((no_sanitize("undefined"))) // a handler with one argument is called with three
void pass_on(int number, siginfo_t* info, void* context) {
    if (!is_handled(before_us)) return;
    if ((before_us.sa_flags & SA_RESETHAND) != 0 && exchange_seq_cst(before_us_called, 1u) != 0) return;
    uint64_t mask =
        kernel_mask(static_cast<const ucontext_t*>(context)->uc_sigmask) | kernel_mask(before_us.sa_mask);
    if ((before_us.sa_flags & SA_NODEFER) == 0) mask |= uint64_t{1} << (number - 1);
    {
        const Permit permit(Permit::WithoutThreadData{}); // not given: all signals stay blocked in it
        if (permit.given()) sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, kernel_mask_bytes);
    }
    before_us.sa_sigaction(number, info, context);
}

// A value that is made for no program's own use; the kernel lets nobody but this user's processes send it.
bool is_from_controller(const siginfo_t& info, uint64_t& value) {
    value = reinterpret_cast<uint64_t>(info.si_value.sival_ptr);
    return info.si_code == SI_QUEUE && PLUMB_IS_SIGNAL_VALUE(value);
}

// As many signals wait for this user's processes as may (RLIMIT_SIGPENDING), and the kernel had no room for what this one
// says. It may be anybody's.
bool lost_its_value(const siginfo_t& info) {
    return info.si_code == SI_USER && info.si_pid == 0 && info.si_uid == 0;
}

#if defined(__x86_64__)
// Whether a signal that is let through when ours returns would end pause(). Those that are ignored, or stop the process for a
// while, do not; and those that end it do it there, too. Of the C library's own ones it says nothing.
bool waits_for_a_handler(uint64_t blocked) {
    uint64_t waiting = 0;
    if (sys::call(SYS_rt_sigpending, &waiting, kernel_mask_bytes) != 0) return true;
    for (waiting &= ~blocked; waiting != 0; waiting &= waiting - 1) {
        struct sigaction action;
        if (sigaction(__builtin_ctzll(waiting) + 1, nullptr, &action) != 0 || is_handled(action)) return true;
    }
    return false;
}

// The handler may not be allowed to read what the program runs: pages that may only be run, or with a protection key. The kernel refuses to
// read the first, too, which a plain look can where the processor knows no keys.
bool read_code(uint64_t address, unsigned char* to, size_t bytes) {
    constexpr uint32_t features = 7, has_keys_on = 1u << 4;
    if (copy_own_memory(address, to, bytes)) return true;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(features, 0, &a, &b, &c, &d) == 0 || (c & has_keys_on) != 0) return false;
    __builtin_memcpy(to, reinterpret_cast<const void*>(address), bytes);
    return true;
}

// Whether the signal has ended a system call of the thread: one that the kernel restarts stands in front of its call again.
bool has_ended_a_call(const ucontext_t& context) {
    constexpr uint64_t call_bytes = 2, page_bytes = 4096;
    const greg_t* const registers = context.uc_mcontext.gregs;
    const auto behind = static_cast<uint64_t>(registers[REG_RIP]);
    if (registers[REG_RAX] != -EINTR || behind % page_bytes < call_bytes) return false;
    unsigned char code[call_bytes];
    return read_code(behind - call_bytes, code, call_bytes) && code[0] == 0x0f && code[1] == 0x05;
}

// By the C library's own sequence, `mov $number, %eax; syscall`.
constexpr uint64_t sequence_bytes = 7;
bool has_ended_pause(const ucontext_t& context) {
    constexpr uint64_t page_bytes = 4096;
    const auto behind = static_cast<uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
    if (!has_ended_a_call(context) || behind % page_bytes < sequence_bytes) return false;
    unsigned char code[sequence_bytes];
    if (!read_code(behind - sequence_bytes, code, sequence_bytes)) return false;
    uint32_t number;
    __builtin_memcpy(&number, code + 1, sizeof(number));
    return code[0] == 0xb8 && number == SYS_pause;
}

// pause() says one thing only: that a signal came. Programs end when it returns, and the kernel does not restart it. So a
// thread that ours has fetched out of it goes back, if no signal of the program's own waits: by then it would return for
// that one. All other registers are as they were. A signal that comes between this look and the call, or whose handler
// blocked ours until it returned, is as late for pause() as one that comes in front of it. For sigsuspend() none is ever
// late, so that one returns: who uses it looks whether it was his signal that came.
void go_on_waiting(ucontext_t& context) {
    if (!has_ended_pause(context)) return;
    const Permit permit;
    if (!permit.given() || waits_for_a_handler(kernel_mask(context.uc_sigmask))) return;
    context.uc_mcontext.gregs[REG_RIP] -= sequence_bytes;
}

// Before the update is acknowledged: who sent the signal looks then.
void tell_what_it_ended(const ucontext_t& context) {
    if (has_ended_a_call(context) && !has_ended_pause(context)) set_flag_of_slot(PLUMB_PROCESS_INTERRUPTED);
}
uintptr_t stack_of(const ucontext_t& context) {
    return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
}
#else
uintptr_t stack_of(const ucontext_t&) {
    return 0;
}
void tell_what_it_ended(const ucontext_t&) {}
void go_on_waiting(ucontext_t&) {}
#endif

// A signal of ours that came to a thread which is none of the C library's (thread_data.cc): the first thread hears it, with the same value.
void hand_on(int number, siginfo_t* info) {
    const uint32_t process_id = sys::process_id();
    if (sys::thread_id() != process_id)
        sys::call(SYS_rt_tgsigqueueinfo, process_id, process_id, number, info);
}

// For a signal that may be ours. A look at where a thread's data would be takes a call, which a filter may forbid: before it is known that
// there is none, and behind one, what is not the C library's is not told from what is by anything but a plain look.
bool is_for_this_thread(int number, siginfo_t* info) {
    const Permit permit(Permit::WithoutThreadData{});
    if (has_thread_data(permit.given() && has_certainly_no_filter())) return true;
    if (permit.given()) hand_on(number, info);
    return false;
}

void handle_update_signal(int number, siginfo_t* info, void* context) {
    uint64_t value = 0;
    if (!is_from_controller(*info, value) && !lost_its_value(*info)) return pass_on(number, info, context);
    if (!is_for_this_thread(number, info)) return;
    inject(InjectionPoint::handler_entered);
    if (writers_are_wiped()) after_fork(); // before a look at the slot, which was the parent's
    auto& interrupted = *static_cast<ucontext_t*>(context);
    if (lost_its_value(*info) && answer_any_signal()) {
        tell_what_it_ended(interrupted);
        request_update(stack_of(interrupted));
    }
    if (!is_from_controller(*info, value)) return pass_on(number, info, context);
    if (answer_signal(PLUMB_SIGNAL_SLOT(value))) {
        tell_what_it_ended(interrupted);
        request_update(stack_of(interrupted));
        return go_on_waiting(interrupted);
    }
    // Another runtime's in this process, whose handler ours has replaced; or one for a slot that was ours and has
    // been given back, which the program's handler must not see.
    if (is_slot_of_handler(PLUMB_SIGNAL_SLOT(value), reinterpret_cast<uint64_t>(before_us.sa_sigaction)))
        pass_on(number, info, context);
}

// What a call of ours in the handler may be answered by has to get through: signals_held.h.
void fill_mask(sigset_t& mask) {
    sigfillset(&mask);
    for (int number = 1; number < NSIG; number++) {
        if (number <= 64 && (answering_signals & mask_of(number)) != 0) sigdelset(&mask, number);
    }
}

// What the program would notice of its own signal, its handler has decided: whether calls are restarted, and which
// stack it runs on. Ours needs little of either.
bool install(int number, const struct sigaction& old) {
    struct sigaction action = {};
    action.sa_sigaction = handle_update_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    if (are_alternate_stacks_left()) action.sa_flags &= ~SA_ONSTACK;
    if (is_handled(old)) action.sa_flags = SA_SIGINFO | (old.sa_flags & (SA_RESTART | SA_ONSTACK));
    fill_mask(action.sa_mask);
    before_us = old;
    if (sigaction(number, &action, nullptr) != 0) return false;
    runtime.signal_number = number;
    return true;
}

} // namespace

void install_handler() {
    if (runtime.signal_number != 0) return;
    know_how_to_find_thread_data();
    struct sigaction old[2] = {};
    for (int i = 0; i < 2; i++) {
        if (sigaction(candidates[i], nullptr, &old[i]) != 0 || is_handled(old[i])) continue;
        if (install(candidates[i], old[i])) return;
    }
    install(candidates[0], old[0]);
}

// One that stands in front of the program's goes where that one asked to be: it would run there anyway. Another thread may
// put the program's own in the place of ours between the two calls, and lose it.
void leave_alternate_stacks() {
    if (runtime.signal_number == 0 || is_handled(before_us)) return;
    struct sigaction action = {};
    if (sigaction(runtime.signal_number, nullptr, &action) != 0 ||
        action.sa_sigaction != handle_update_signal)
        return;
    action.sa_flags &= ~SA_ONSTACK;
    sigaction(runtime.signal_number, &action, nullptr);
}

uint64_t handler_address() {
    return runtime.signal_number != 0 ? reinterpret_cast<uint64_t>(handle_update_signal) : 0;
}

} // namespace plumb
