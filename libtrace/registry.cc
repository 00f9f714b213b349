// Objects come and go: registration by constructors, fork.
//
// What linking costs is decided here: two opens, two maps, a handler, a slot. No thread, no socket, no
// allocation, no output; docs/startup.md lists the system calls.
#include "runtime.h"
#include "signals_held.h"

#include "condition/program.h"
#include "context/callstack.h"
#include "context/context.h"
#include "count/link.h"

#include <plumb/abi/context.h>
#include <plumb/control.h>

#include <cstddef>
#include <cstdlib>
#include <linux/membarrier.h>
#include <pthread.h>

extern "C" {
extern char __libc_single_threaded __attribute__((weak));
extern char** environ;

__attribute__((visibility("default"), tls_model("initial-exec"))) __thread plumb_thread plumb_thread_self;
}

namespace plumb {

PLUMB_OF_EVERY_START constinit Runtime runtime;
constinit Attachment attachments[PLUMB_MAX_SESSIONS];

namespace {

// Restartable sequences need it, to restart them all.
bool kernel_has_membarrier() {
    const long commands = sys::call(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) != 0;
}

// Room for the page of writers, which fork wipes. Aligned here and not by the linker, which would have to give .bss
// pages of its own.
constexpr uintptr_t page_bytes = 4096;
unsigned char writers_room[2 * page_bytes - 1];
// Twice as many writers as sessions: those of the second half have no room for any record, so that the fast path leaves events
// on condition to plumb_emit_slow().
constexpr uint32_t writer_count = 2 * PLUMB_MAX_SESSIONS;
static_assert(sizeof(plumb_writer) * writer_count + sizeof(uint64_t) <= page_bytes);

constexpr uint64_t writers_are_mended = 2; // by a thread that is in after_fork()

// A program may have moved our page to other memory, or told the kernel to keep everything in its children: then a fork shows by the
// process's number, where handlers of pthread_atfork() ran. Whether this thread is the one that mends what follows from that.
bool begin_mending_kept_writers() {
    uint64_t kept = writers_are_live;
    if (runtime.process_id == sys::process_id())
        return false; // somebody has done it, a handler of ours perhaps
    if (!compare_exchange(*runtime.writers_live, kept, writers_are_mended)) return false;
    if (runtime.process_id == sys::process_id()) { // or meanwhile
        store_release(*runtime.writers_live, writers_are_live);
        return false;
    }
    sys::call(SYS_madvise, runtime.writers, page_bytes, MADV_WIPEONFORK);
    return true;
}

// Whether this thread is the one that does it; the others wait until it is done, but not a handler for its own thread.
bool begin_mending_writers() {
    uint64_t wiped = 0;
    if (!runtime.writers_armed || compare_exchange(*runtime.writers_live, wiped, writers_are_mended) ||
        begin_mending_kept_writers())
        return true;
    if (may_have_interrupted_us()) return false;
    constexpr int sleeps = 1000;
    for (int i = 0; i < sleeps && load_acquire(*runtime.writers_live) != writers_are_live; i++)
        sys::sleep_ns(1'000'000);
    return false;
}

void place_writers() {
    const uintptr_t page = (reinterpret_cast<uintptr_t>(writers_room) + page_bytes - 1) & ~(page_bytes - 1);
    runtime.writers = reinterpret_cast<plumb_writer*>(page);
    runtime.writers_live = reinterpret_cast<uint64_t*>(runtime.writers + writer_count);
}

const char* find_variable(const char* name) {
    for (char** variable = environ; variable != nullptr && *variable != nullptr; variable++) {
        const char* at = *variable;
        const char* expected = name;
        while (*expected != '\0' && *at == *expected)
            at++, expected++;
        if (*expected == '\0' && *at == '=') return at + 1;
    }
    return nullptr;
}

// Session cookies from the environment: who launched us wants us in these.
void read_launched() {
    const char* at = find_variable(PLUMB_SESSIONS_VARIABLE);
    if (at == nullptr) return;
    uint64_t cookie = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9') {
            cookie = cookie << 4 | static_cast<uint64_t>(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            cookie = cookie << 4 | static_cast<uint64_t>(*at - 'a' + 10);
        } else {
            if (cookie != 0 && request.launched_count < PLUMB_MAX_SESSIONS)
                request.launched[request.launched_count++] = cookie;
            cookie = 0;
            if (*at == '\0') return;
        }
    }
}

// Keeps updates out while an object comes or leaves.
class UpdatesHeld {
public:
    UpdatesHeld() : held_(hold_updates()) {}
    ~UpdatesHeld() {
        if (held_) release_updates();
    }
    UpdatesHeld(const UpdatesHeld&) = delete;
    UpdatesHeld& operator=(const UpdatesHeld&) = delete;
    bool held() const { return held_; } // false: one was stopped in the middle, and may go on

private:
    const SignalsHeld signals_; // before the other, and longer
    const bool held_;
};

// A fork that ran no handlers (_Fork, a raw clone) shows by the wiped page. Not by the process id: a child of
// vfork has another one, but works in its parent's memory.
void notice_fork() {
    if (runtime.initialised && writers_are_wiped()) after_fork();
}

// A list with an object in it twice would have no end.
bool is_registered(const plumb_object& object) {
    for (const plumb_object* known = load_acquire(runtime.objects); known != nullptr; known = known->next) {
        if (known == &object) return true;
    }
    return false;
}

bool is_on(const plumb_object& object) {
    for (plumb_event** entry = object.events_begin; entry < object.events_end; entry++) {
        if (*entry != nullptr && load_relaxed((*entry)->enabled) != 0) return true;
    }
    return false;
}

// Its destructors run when the process ends, with threads that go on: what they trace is not to be lost. The slot stays
// until the process is gone, so sessions still reach it.
bool goes_on_at_exit(const plumb_object& object) {
    return is_on(object) && (object.flags & PLUMB_OBJECT_STAYS) != 0;
}

// Switches the object's events off, and takes it out of the list. Whether any was on.
bool take_from_list(plumb_object& object) {
    uint32_t were_on = 0;
    for (plumb_event** entry = object.events_begin; entry < object.events_end; entry++) {
        if (*entry == nullptr) continue;
        were_on |= exchange_seq_cst((*entry)->enabled, 0u);
    }
    for (plumb_object** link = &runtime.objects; *link != nullptr; link = &(*link)->next) {
        if (*link != &object) continue;
        store_seq_cst(*link, object.next);
        break;
    }
    return were_on != 0;
}

void remove_object(plumb_object& object) {
    const bool were_on = take_from_list(object);
    for (plumb_event** entry = object.events_begin; entry < object.events_end; entry++)
        if (*entry != nullptr) {
            condition::forget_conditions(**entry);
            count::forget_links(**entry);
        }
    if (!were_on) return;
    // Other threads may be in the middle of these events, which no later update would know of.
    begin_quiescence();
    store_seq_cst(runtime.quiesce_pending, 1u);
}

} // namespace

// From the start, although most programs that link tracepoints run and end without a session: the child of _Fork() or
// of a raw clone() has its parent's slot before it and a list of its parent's objects, and must know that it is
// another process when it next comes by. This is the only thing that such a fork changes.
void arm_writers() {
    if (sys::call(SYS_madvise, runtime.writers, page_bytes, MADV_WIPEONFORK) != 0) return;
    store_relaxed(*runtime.writers_live, writers_are_live);
    store_release(runtime.writers_armed, true); // who sees it sees `writers_live`
}

// The first object that registers. glibc runs constructors one at a time; musl lets two threads run those of two plug-ins at
// once, and who comes second waits. Where the first was stopped in the middle, or was another thread in a process that has forked
// since, he is not waited for for ever: his object stays off.
class FirstRegistration {
public:
    FirstRegistration() {
        uint32_t nobody = 0;
        is_ours_ = load_acquire(runtime.first_registration) == 0 &&
                   compare_exchange(runtime.first_registration, nobody, begun);
        for (int tries = 0;
             tries < tries_max && !is_ours_ && load_acquire(runtime.first_registration) != done; tries++) {
            const timespec millisecond = {0, 1'000'000};
            sys::call(SYS_nanosleep, &millisecond, nullptr);
        }
    }
    ~FirstRegistration() {
        if (is_ours_) store_release(runtime.first_registration, done);
    }
    FirstRegistration(const FirstRegistration&) = delete;
    FirstRegistration& operator=(const FirstRegistration&) = delete;

    bool may_go_on() const { return is_ours_ || load_acquire(runtime.first_registration) == done; }

private:
    static constexpr uint32_t begun = 1, done = 2;
    static constexpr int tries_max = 1000;
    bool is_ours_ = false;
};

// What the process needs once.
int initialise() {
    if (runtime.initialised) return 0;
    stay_loaded();
    find_next_functions();
    join_vfork();
    keep_what_was_told();
    runtime.process_id = sys::process_id();
    place_writers();
    arm_writers();
    runtime.rseq_offset = find_rseq(find_variable(PLUMB_RSEQ_VARIABLE));
    // Cheap while there is one thread; later it may take milliseconds, and waits until an event is switched
    // on.
    if (&__libc_single_threaded != nullptr && __libc_single_threaded != 0)
        register_membarrier();
    else if (!kernel_has_membarrier())
        runtime.rseq_offset = 0;
    read_launched();
    run_in_forked_children(after_fork);
    runtime.initialised = true;
    return open_state();
}

// Without a system call. If an update is under way, it can not be waited for: then there is no other ever.
void remove_from_held(plumb_object& object) {
    uint32_t nobody = 0;
    if (!compare_exchange(runtime.updating, nobody, runtime.process_id)) {
        runtime.held_for_good = true;
        take_from_list(object);
        return;
    }
    remove_object(object);
    if (runtime.objects == nullptr) release_slot();
    store_seq_cst(runtime.updating, 0u);
}

// One that has none may have places that trace, and hears of updates.
bool has_events(const plumb_object& object) {
    return object.events_begin < object.events_end;
}

// With no other update under way, but for one that was stopped in the middle: that may look at the object yet.
void unregister(plumb_object& object) {
    const UpdatesHeld updates;
    if (!updates.held()) {
        if (!goes_on_at_exit(object)) take_from_list(object);
        return;
    }
    if (has_events(object)) introduce_new_objects(); // at exit: nobody else may come to it
    if (goes_on_at_exit(object)) return;
    remove_object(object);
    // If somebody is still writing, the slot stays until the process is gone.
    const bool quiescent = load_relaxed(runtime.quiesce_pending) == 0 || is_quiescent();
    if (runtime.objects == nullptr && quiescent) release_slot();
}

// Which have an event of ours on.
uint32_t sessions_of_events() {
    uint32_t sessions = 0;
    for (plumb_object* object = runtime.objects; object != nullptr; object = object->next) {
        for (plumb_event** entry = object->events_begin; entry < object->events_end; entry++) {
            if (*entry != nullptr) sessions |= load_relaxed((*entry)->enabled);
        }
    }
    return (sessions | sessions >> PLUMB_MAX_SESSIONS) & ((1u << PLUMB_MAX_SESSIONS) - 1);
}

// A process or an object that would be traced, if it were not held; told in the channels, which takes no system call.
void count_left_off(uint32_t sessions) {
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        Attachment& attachment = attachments[s];
        if ((sessions >> s & 1) != 0 && load_acquire(attachment.usable) != 0)
            add_seq_cst(attachment.header->left_off, uint64_t{1});
    }
}

// A child of a process with a seccomp filter, which it has inherited.
void stay_untraced() {
    count_left_off(sessions_of_events());
    runtime.held_for_good = true;
    runtime.slot = nullptr;
    if (runtime.writers_armed) store_release(*runtime.writers_live, writers_are_live);
    for (plumb_object* object = runtime.objects; object != nullptr; object = object->next) {
        for (plumb_event** entry = object->events_begin; entry < object->events_end; entry++) {
            if (*entry != nullptr) store_relaxed((*entry)->enabled, 0u);
        }
    }
}

// All channels are newer than what any thread knows of itself: one that has forked, and is not the one that mends this,
// still takes itself for its parent's. Newer than the newest, too: the parent's other threads ran while the kernel copied
// its memory, which it does page by page, so a channel may be there as one that may be used, and its epoch not be known.
void begin_new_epoch() {
    uint32_t newest = runtime.epoch;
    for (const Attachment& attachment : attachments) {
        if (attachment.usable != 0 && attachment.epoch > newest) newest = attachment.epoch;
    }
    if (newest == 0) return;
    newest++;
    for (Attachment& attachment : attachments) {
        if (attachment.usable != 0) store_relaxed(attachment.epoch, newest);
    }
    store_release(runtime.epoch, newest);
}

// What a process has once may be another's in a child: unshare() before fork() puts that into other namespaces.
void know_context_of_child() {
    uint32_t wanted = 0;
    for (const Attachment& attachment : attachments)
        if (attachment.usable != 0) wanted |= attachment.context;
    context::know_process(wanted & (PLUMB_CONTEXT_NAMESPACES | PLUMB_CONTEXT_CGROUP));
}

// What the parent's other threads were in the middle of will never be finished.
static void mend_after_fork() {
    store_relaxed(runtime.unguarded_losses, uint64_t{0}); // the parent's; first: what comes now is not
    runtime.quiesce_pending = 0;
    runtime.slot = nullptr;
    reset_guards();
    reset_permits();
    unpin_scratch();
    const uint64_t in_vfork = plumb_thread_self.in_vfork; // forked by a handler in the middle of it
    plumb_thread_self = {};
    plumb_thread_self.forks = fork_count();
    plumb_thread_self.in_vfork = in_vfork;
    renew_registration(in_vfork != 0);
    quiesced();
    begin_new_epoch();
    claim_slot();
    if (runtime.slot == nullptr) know_time_namespace(); // who has a place has looked
    register_membarrier();
    know_context_of_child();
    for (uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
        Attachment& attachment = attachments[session];
        if (attachment.usable == 0) continue;
        attachment.thread_tag = thread_tag_in(*attachment.header);
        introduce_process(attachment, false); // its objects are its parent's
        publish_writer(session);
    }
}

// In the child, which has one thread. A child in another process namespace may have its parent's number. On the stack of
// updates: the update signal may find it on an alternate one that has room for the handler, but not for this.
void after_fork() {
    if (!runtime.initialised) return;
    if (is_held()) return stay_untraced();
    if (!writers_are_wiped() && runtime.process_id == sys::process_id()) return;
    {
        const SignalsHeld signals; // handlers that trace, but for a few, do not see half of this
        if (!begin_mending_writers()) return;
        forget_process_namespace(runtime.process_id);
        runtime.forked_from = runtime.process_id;
        runtime.process_id = sys::process_id();
        runtime.updating = sys::thread_id(); // ours
        call_on_own_stack(mend_after_fork);
        if (runtime.writers_armed) store_release(*runtime.writers_live, writers_are_live);
        release_updates();
    }
    // Also where there was no place: its parent's rules may not be its own.
    if (runtime.state != nullptr) request_update();
}

} // namespace plumb

using namespace plumb;

extern "C" __attribute__((visibility("hidden"))) void plumb_notice_fork(); // for vfork.cc
void plumb_notice_fork() {
    notice_fork();
    add_seq_cst(runtime.vforks, 1u);
}

extern "C" __attribute__((visibility("default"))) int plumb_register_object(plumb_object* object) {
    if (object->version != PLUMB_RUNTIME_VERSION) return -EPROTO;
    if (!runtime.initialised && load_relaxed(runtime.restrictions) != 0) return 0; // it stays off
    notice_fork();
    const FirstRegistration registration;
    if (!registration.may_go_on()) return -EAGAIN;
    const Permit permit;
    const bool first = !runtime.initialised;
    const int error = initialise();
    if (runtime.writers == nullptr) return error;
    if (is_in_executable(object)) object->flags |= PLUMB_OBJECT_STAYS; // its headers may be gone at its end
    object->setup->writers = runtime.writers;
    object->setup->rseq_offset = runtime.rseq_offset;
    if (runtime.state == nullptr) return error;
    context::forget_frames();
    if (!permit.given()) { // it can not be introduced, and stays off
        if (has_events(*object)) count_left_off(~0u);
        return 0;
    }

    if (is_registered(*object)) return error;
    object->next = load_relaxed(runtime.objects);
    while (!compare_exchange(runtime.objects, object->next, object)) {
    }
    if ((object->flags & PLUMB_OBJECT_ASYNC) != 0) {
        install_handler();
        announce_handler(); // the slot may be there already, from an object that has none
    }
    if (runtime.slot == nullptr) claim_slot();
    request_update();
    if (!first) {
        {
            const UpdatesHeld updates;
            if (updates.held())
                introduce_new_objects();
            else if (has_events(*object))
                count_left_off(~0u); // until that update goes on
        }
        request_update(); // one that was asked for meanwhile
    }
    return 0;
}

extern "C" __attribute__((visibility("default"))) void plumb_unregister_object(plumb_object* object) {
    if (!runtime.initialised) return;
    notice_fork();
    const Permit permit;
    if (!permit.given()) {
        if (!goes_on_at_exit(*object)) remove_from_held(*object);
        return;
    }
    if (runtime.process_id != sys::process_id()) return; // a child of vfork: all of this is its parent's
    context::forget_frames();
    unregister(*object);
    // Another thread may be in the middle of an update, which does all of this by itself.
    const bool was_never_traced =
        load_relaxed(runtime.epoch) == 0 && runtime.objects == nullptr && runtime.slot == nullptr;
    if (!was_never_traced) request_update();
}

extern "C" __attribute__((visibility("default"))) int plumb_refresh(void) {
    if (runtime.state == nullptr) return -ENOENT;
    request_update();
    return 0;
}

extern "C" __attribute__((visibility("default"))) void plumb_get_status(plumb_status* status) {
    *status = {};
    status->signal_number = runtime.signal_number;
    status->uses_rseq = runtime.rseq_offset != 0;
    status->listens = runtime.slot != nullptr && runtime.signal_number != 0;
    if (runtime.slot != nullptr) status->generation = load_acquire(runtime.slot->acknowledged);
    for (const Attachment& attachment : attachments)
        status->session_count += load_acquire(attachment.usable);
}
