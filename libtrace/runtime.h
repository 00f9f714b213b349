// The state of the runtime in one process, and the parts that keep it.
//
//   registry.cc   objects come and go; fork
//   update_signal.cc  the signal that asks for an update; own_stack.cc what an update runs on; alternate_stack.cc where
//                 its handler can not run
//   update.cc     asks for the rules and makes them true: attach, switch, detach, acknowledge
//   guard.cc      who is on the slow path, so that an update knows when nobody can see the old state any more
//   attach.cc     maps a session's channel and introduces the process to it
//   entries.cc    who wrote: slots and blocks, which are used again
//   describe.cc   an event as the channel's table holds it
//   descent.cc    whether it descends from who launched it
//   directory.cc  where state file and channels live: plumb.ko's, or /dev/shm
//   state_file.cc the backend of plumb_query() on a stock kernel, and this process's slot
//   unattached.cc says which sessions can not have this process
//   rseq.cc       struct rseq of a thread, registered where the C library does not
//   stay.cc       the library that holds the runtime is not unloaded
//   open_file.h   files that are open for a moment
//   process.cc    whether other processes and threads still live; what this process is
//   time_namespace.cc  what a time namespace shifts, and by how much
//   held.cc       processes that may make no system calls of ours
//   filter.cc     hears of it when a program forbids them; next.cc the C library's functions behind those of ours
//   signals_held.h  signals wait
//   scratch.cc    buffers for records that do not fit the caller's stack
//   clock.cc      reading a channel's clock; vdso.cc without the kernel
//   condition/    which records are written; ring/ writing them; count/ counting events in their place
//
// What always holds:
//  - One thread at a time runs update(), the owner of `updating`; nobody waits for it: who finds it running
//    leaves a request, and the owner goes round again. So an update can be asked for from a signal handler.
//  - A session's channel stays mapped until no restartable sequence and no guard can see it.
//  - Nothing here allocates, takes a lock, or changes errno.
#pragma once

#include "atomic.h"
#include "every_start.h"
#include "system.h"
#include "text.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/state.h>
#include <plumb/abi/syscall.h>
#include <plumb/detail/writer.h>
#include <plumb/runtime.h>

#include <csignal>

namespace plumb {

class OpenFile;
enum class DirectoryKeeper : uint32_t; // directory.h

// One session's channel, mapped into this process.
struct Attachment {
    uint64_t cookie = 0; // 0: none
    plumb_channel_header* header = nullptr;
    uint64_t mapped_bytes = 0;
    uint32_t epoch = 0;
    uint32_t usable = 0; // not 0: the slow path may use it; 0 for good before it is unmapped
    // Checked copies: what stands in shared memory may change under us.
    unsigned char* base = nullptr;
    plumb_ring_control* controls = nullptr;
    unsigned char* data = nullptr;
    uint64_t* event_slots = nullptr;
    uint64_t* entry_slots = nullptr;
    uint64_t heap_offset = 0;
    uint64_t heap_bytes = 0;
    uint64_t ring_bytes = 0;
    uint64_t block_timeout_ns = 0;
    uint32_t event_slot_count = 0;
    uint32_t entry_slot_count = 0;
    uint32_t subbuf_bytes = 0;
    uint32_t ring_count = 0;
    uint32_t extra_ring_count = 0;
    uint32_t record_limit = 0;
    uint32_t mode = 0;
    uint32_t clock_mode = 0;
    uint32_t context = 0;           // of each record, in front: <plumb/abi/context.h>
    uint32_t callstack_depth = 0;   // addresses in a call stack, at most
    uint32_t thread_tag = 0;        // of our namespace in this channel, where numbers have it
    uint64_t memory_refused_at = 0; // by the channel's clock; 0: not yet
    uint32_t count_slots = 0;       // of a channel that counts: of each table
    uint32_t count_buckets = 0;     // of each slot

    bool counts() const { return mode == PLUMB_MODE_COUNT; }
    // By a key, or a value: then there is more to do than to add one.
    bool counts_by_fields() const { return count_buckets != 0; }
};

// Who writes a record.
struct Writer {
    uint32_t process_id;
    uint32_t thread_id;
    bool
        borrowed; // a child of vfork (or of a clone like it): its memory, so also this thread's own, is its parent's
};

constexpr uint32_t guard_count = 64;

// What only a traced process needs is kept elsewhere: every_start.h.
struct Runtime {
    bool initialised = false;
    uint32_t first_registration = 0; // how far it is: registry.cc
    int64_t rseq_offset = 0;         // 0: the fallback without rseq
    bool membarrier_registered = false;
    uint32_t sequences_lost = 0; // membarrier failed: no sequence may begin, nothing may be unmapped
    uint32_t sequences_go_on =
        0; // when events were last switched off while held: those in flight keep what they see
    uint32_t process_id = 0;
    uint32_t forked_from = 0; // in a forked child: its parent, whether it lives or not
    uint32_t vforks = 0;      // how often vfork() was called, if this runtime's is in front
    uint32_t epoch = 0;       // of the newest attachment that is usable; all before it are or were
    int signal_number = 0;

    plumb_writer* writers =
        nullptr; // page that fork wipes; the word behind the last writer is `writers_live`
    uint64_t* writers_live = nullptr;
    bool writers_armed = false; // the page is wiped by fork
    plumb_object* objects = nullptr;

    uint32_t updating = 0; // id of the thread that is in an update, and whether somebody waits for it
    uint32_t update_requests = 0;
    uint32_t updates_begun = 0;   // by different owners
    uint32_t update_was_left = 0; // one of them did not end it
    uint32_t others_given_up = 0; // waiting for guards and extra rings helped nothing: see ring/waiting.h

    uint32_t quiesce_pending = 0; // quiescence has begun and was not yet found; see guard.cc

    DirectoryKeeper directory_keeper{}; // of `state`
    plumb_state_header* state = nullptr;
    plumb_process* slot = nullptr;
    uint64_t claim = 0;             // of the slot
    uint32_t process_namespace = 0; // 0: not asked yet, or not known
    uint64_t generation = 0;        // that was last asked for
    uint32_t filters_known = 0;     // 1: `filters` is
    uint32_t filters = 0;           // seccomp filters that were there from the start; UINT32_MAX: some
    bool held_for_good = false;     // whatever its slot says: a child, at the end
    bool clock_forbidden = false;   // likewise, unless the kernel refuses
    uint32_t restrictions = 0;      // that the program has put on itself, or is about to
    bool executable_known = false;
    bool clock_known = false;      // whether it may be read
    uint64_t unguarded_losses = 0; // events dropped for want of a guard, not yet counted in a channel
};

extern Runtime runtime;

inline bool uses_sequences() {
    return runtime.rseq_offset != 0 && load_relaxed(runtime.sequences_lost) == 0;
}

extern Attachment attachments[PLUMB_MAX_SESSIONS];
// What was last asked and answered; of the owner of `updating`.
extern plumb_query_request request;
extern plumb_query_result answer;

// rseq.cc
int64_t
find_rseq(const char* wish); // of struct rseq from the thread pointer, or 0; wish: PLUMB_RSEQ, or nullptr
void register_thread();      // where the C library does not; with SignalsHeld, not in a child of vfork
void renew_registration(bool by_child_of_vfork); // in a process that was just forked, by whom

// at_fork.cc
void run_in_forked_children(void (*function)());

// registry.cc
int initialise();
void after_fork(); // in the child

// What the word behind the writers says; 0: wiped.
constexpr uint64_t writers_are_live = 1;
inline bool writers_are_wiped() { // a fork that ran no handlers
    return load_acquire(runtime.writers_armed) && load_acquire(*runtime.writers_live) != writers_are_live;
}

// update_signal.cc
void install_handler();
// thread_data.cc: else nothing of the runtime's may be looked at in this thread. `may_ask`: by system calls, for which there is a Permit.
bool has_thread_data(bool may_ask);
void know_how_to_find_thread_data();
uint64_t handler_address();    // 0: none
void leave_alternate_stacks(); // from now on it runs where the signal finds the thread

// alternate_stack.cc
void look_at_alternate_stack(const stack_t& stack); // of this thread, now or soon
bool are_alternate_stacks_left();
bool has_stack_left(uint64_t bytes); // below the caller; true, too, where that can not be known

// vfork.cc
void join_vfork(); // of the runtime that is in front, if that is another one; by a constructor

// next.cc
void find_next_functions(); // by a constructor

// stay.cc
void stay_loaded(); // the library that holds the runtime; by a constructor

// own_stack.cc
void call_on_own_stack(void (*function)()); // as the owner of `updating`, with SignalsHeld

// update.cc
void request_update(uintptr_t interrupted_stack = 0); // by the handler: see SignalsHeld
void request_update_within();    // the same, with SignalsHeld, which that one would take for interrupted
void switch_off_all();           // at once, for the fast path too; as the owner of `updating`
inline bool rules_have_moved() { // since they were last asked for
    return runtime.state != nullptr &&
           load_relaxed(runtime.state->generation) != load_relaxed(runtime.generation);
}
void tell_watches();        // that an update is through
void follow_if_moved();     // updates if the rules have changed since; for who comes by anyway
void quiesced();            // as the owner of `updating`
void register_membarrier(); // in ordinary context, or before the first event is switched on

// With SignalsHeld, in ordinary context: waits, in the kernel, until this thread is the one that updates. False: another one
// has not ended for ten seconds, or is this thread's own, which a handler has interrupted; then nothing is to be released.
bool hold_updates();
void release_updates();

// guard.cc
class Guard { // with SignalsHeld
public:
    // One look at each guard. Thorough: also whether those that hold them live, which takes system calls.
    Guard(uint32_t thread_id, bool thorough);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    // False if all guards were taken: then nothing of a channel may be touched.
    bool held() const { return index_ < guard_count; }

private:
    bool take(uint32_t thread_id);
    uint32_t index_;
    uint64_t word_;
};
// Behind the use of a guard: whether an update waited for it alone. Then it is for us to end.
bool is_last_of_update();
// All sequences in flight have restarted, all guards that are busy now are remembered.
void begin_quiescence();
// Whether none of the remembered guards is held by the same user any more.
bool is_quiescent();
bool is_quiescent_without_the_dead(); // the same; takes back the guards of threads that are gone
void take_back_own_guards();          // of this thread, which has jumped away from them
void reset_guards();                  // in a forked child

// attach.cc
int attach(uint32_t session, uint64_t cookie);
void detach(uint32_t session); // unmaps; only once quiescent
void publish_writer(uint32_t session);
uint32_t thread_tag_in(plumb_channel_header& header);

// held.cc
enum class Restriction {
    none,
    filter,  // seccomp
    no_clock // PR_TSC_SIGSEGV; seccomp's strict mode, which is that too
};
// The program is about to put it on itself. False: it is not this process that does.
bool announce(Restriction restriction);
void revoke(Restriction restriction); // the kernel refused
bool may_read_clock();                // as the owner of `updating`
bool is_held();                       // no system call may be made: <plumb/abi/state.h>
bool has_flag_in_slot(uint32_t flag);
void set_flag_of_slot(uint32_t flag); // PLUMB_PROCESS_*, while the slot is this process's
void say_without_clock();             // in its slot: events are lost, for that reason
void say_without_times();             // likewise: plumb_monotonic_ns() had no answer
uint32_t fork_count();                // differs in a forked child, once it is noticed
void reset_permits();                 // in a forked child
// To make system calls of ours, from before the first to behind the last.
class Permit {
public:
    struct WithoutThreadData {};
    Permit();
    explicit Permit(WithoutThreadData);
    ~Permit();
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    bool given() const { return given_; }

private:
    explicit Permit(uint32_t& count);
    void give_back();
    uint32_t& count_;
    uint32_t forks_;
    bool given_;
};

// entries.cc
uint64_t reserve_heap(Attachment& attachment, uint64_t bytes);
void add_entry(Attachment& attachment, plumb_entry& entry, uint32_t bytes);

// own_memory.cc
// On a stack that may be gone, so not by a plain look. Where the kernel refuses one (some containers), it is taken to be there.
bool is_word_there(uint64_t address, uint64_t word);
// Of memory that a signal handler may not be allowed to read (protection keys, pages that may only be run). False: there is none that can
// be read. Where that takes a call that may be forbidden, it is a plain look.
bool copy_own_memory(uint64_t from, void* to, size_t bytes);
// The same by the number of this thread, where calls may be made. False: not all of it is there.
bool copy_memory(uint32_t thread_id, uint64_t from, void* to, size_t bytes);

// introduce.cc
void know_executable();
void introduce_process(Attachment& attachment, bool with_objects);
void introduce_new_objects();
Writer this_writer();
// To every channel that does not know it; with a guard held.
void introduce_writer(const Writer& writer, const Attachment& attachment);

// describe.cc
// The event's id in the channel, or 0 if it could not be described; counted there.
uint16_t event_id_in(Attachment& attachment, const plumb_event_info& info);

// state_file.cc
int open_state();
void claim_slot();
void announce_handler();
void release_slot();
bool has_no_rules(uint64_t& generation); // and which generation that is; false if in doubt
void acknowledge(uint64_t generation);
bool answer_signal(uint32_t slot_index); // whether it is for us
bool answer_any_signal();                // one that does not say whom it is for: whether one was sent to us
bool is_slot_of_handler(uint32_t slot_index, uint64_t address); // another runtime in this process
OpenFile open_channel(uint64_t cookie);

// unattached.cc
struct NotAttached {
    uint64_t cookie;
    int error;     // errno, PLUMB_ERROR_*; 0: it is attached, or not wanted
    bool is_meant; // the session's rules are known to want this process
};
void report_not_attached(const NotAttached (&failed)[PLUMB_MAX_SESSIONS]); // as the owner of `updating`
void leave_word_of_unattached();                                           // before the slot is given back

// process.cc
bool is_zombie(uint32_t process_id, uint32_t thread_id);
bool is_thread_gone(uint32_t thread_id);
bool descends_from_controller(const plumb_session& session, uint32_t index); // descent.cc

// control_group.cc
enum class Membership { is_in, is_out, not_known };
void forget_control_group(); // before each query: a process may have been moved
Membership membership_in(const plumb_rule_cgroup& group);
int control_group_error();                                 // PLUMB_ERROR_NO_CGROUP()
uint32_t process_namespace();                              // inode of our process-id namespace; 0: not known
void forget_process_namespace(uint32_t parent_process_id); // in a forked child
constexpr unsigned long type_of_signal_frame_bytes = 51;   // AT_MINSIGSTKSZ, of Linux 5.14
void keep_what_was_told();
uint64_t told_at_start(unsigned long type); // AT_*; 0: nothing
bool is_in_executable(const void* address); // false: it is not, or that is not known

// time_namespace.cc
bool know_time_namespace();                        // looks which one we are in; false: that can not be known
uint64_t machine_ns(clockid_t clock, uint64_t ns); // of a time that the clock shows here

// inherited_filter.cc
uint32_t inherited_filters();
bool has_certainly_no_filter();                             // without a look: one was made before
bool may_be_told_of_filters();                              // by a controller, as they can not be seen here
void look_at_descriptor_table();                            // for OpenFile; before a channel is opened
int why_forbidden_by_filters(const plumb_session& session); // PLUMB_ERROR_*, 0: it is not
bool are_all_forbidden(NotAttached (
    &forbidden)[PLUMB_MAX_SESSIONS]); // sessions in the state file; if not, `forbidden` is no use

// glob.cc
bool pattern_matches(const char* pattern, const char* text);
bool pattern_matches(Bytes pattern, Bytes text);

// scratch.cc
// While a record is written from such a buffer (of any other payload it knows nothing), so that nobody takes it for
// abandoned, and it is known whether somebody has.
class ScratchPin {
public:
    explicit ScratchPin(const void* payload);
    ~ScratchPin();
    ScratchPin(const ScratchPin&) = delete;
    ScratchPin& operator=(const ScratchPin&) = delete;
    bool is_lost() const { return is_lost_; } // there is something else in it now

private:
    const void* payload_;
    bool is_lost_ = false;
};
bool is_scratch_lost(
    const void* payload);  // it was in such a buffer, in which there may be something else now
void unpin_scratch();      // in a forked child
void take_scratch_ahead(); // before a traced process is held, for as many events at once as there are CPUs
plumb_loss cause_without_scratch(); // of an event's loss

// cut.cc
bool may_be_cut_to(const plumb_event_info& info, uint32_t payload_limit); // without its variable fields
uint32_t cut_payload(const plumb_event_info& info, const unsigned char* payload, uint32_t payload_bytes,
                     unsigned char* to, uint32_t payload_limit);

// clock.cc
void know_clock(const plumb_clock_page& page); // before a channel with this one is used
bool clock_takes_calls(uint32_t clock_mode);   // reading it may be a system call
uint64_t read_clock(uint32_t clock_mode);
uint64_t now_ns(clockid_t clock); // here: not shifted back; may be a system call

// vdso.cc
void* find_in_vdso(const char* name); // nullptr: there is none

} // namespace plumb
