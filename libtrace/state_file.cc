// The state file: the backend of plumb_query() on a stock kernel, and this process's slot in it.
//
// Everything is checked before it is used, and without following links: the directory and the file belong to
// this user, nobody else may write them. Where anything is wrong or missing, the process runs untraced. A
// controller's `plumb doctor` says why; a program that was linked with a tracepoint has no business printing.
#include "directory.h"
#include "every_start.h"
#include "runtime.h"
#include "text.h"

#include <plumb/detail/state_layout.h>

#include <csignal>
#include <cstdio>
#include <sys/resource.h>

namespace plumb {

namespace {

// Whether a file may have so many bytes. To make one that may not is not only an error: it raises SIGXFSZ.
bool may_be_made(uint64_t bytes) {
    rlimit limit = {};
    return sys::call(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, &limit) == 0 && limit.rlim_cur >= bytes;
}

// A new, whole state file without a name yet.
OpenFile make_state(int directory) {
    if (!may_be_made(PLUMB_STATE_TOTAL_BYTES)) return OpenFile::failed(-EFBIG);
    OpenFile file(directory, ".", O_TMPFILE | O_RDWR, 0600);
    const int fd = file.number();
    if (fd < 0) return file;
    sys::call(SYS_fchmod, fd, 0600); // whatever the umask
    long error = -EINTR;             // a signal that came meanwhile takes back what there was
    constexpr int tries = 10;
    for (int i = 0; i < tries && error == -EINTR; i++)
        error = sys::call(SYS_fallocate, fd, 0, 0L, static_cast<long>(PLUMB_STATE_TOTAL_BYTES));
    plumb_state_header header = {};
    plumb_state_begin(&header);
    if (error == 0 && sys::call(SYS_pwrite64, fd, &header, sizeof(header), 0L) != sizeof(header))
        error = -EIO;
    return error == 0 ? static_cast<OpenFile&&>(file) : OpenFile::failed(static_cast<int>(error));
}

// The state file, made if it is missing. Two processes may make it at once; the first to give it its name
// wins.
OpenFile open_state_file(int directory) {
    constexpr int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK;
    OpenFile there(directory, PLUMB_STATE_FILE, flags);
    if (there.number() != -ENOENT) return there;
    OpenFile made = make_state(directory);
    if (made.number() < 0) return made;
    fix_size(made, runtime.directory_keeper);
    char path[40];
    append_decimal(append(path, "/proc/thread-self/fd/"), static_cast<uint64_t>(made.number()));
    long linked = sys::call(SYS_linkat, AT_FDCWD, path, directory, PLUMB_STATE_FILE, AT_SYMLINK_FOLLOW);
    if (linked == -ENOENT) // without /proc; root alone may do this
        linked = sys::call(SYS_linkat, made.number(), "", directory, PLUMB_STATE_FILE, AT_EMPTY_PATH);
    if (linked == 0) return made;
    return OpenFile(directory, PLUMB_STATE_FILE, flags);
}

// A first access that writes brings in one page; one that reads, sixteen, which takes ten times as long.
template <typename T>
void touch_for_write(T& word) {
    T zero = 0;
    compare_exchange(word, zero, T{0});
}

int map_state(int fd, uint32_t user_id) {
    struct stat info;
    const int error = sys::status(fd, &info);
    if (error != 0) return error;
    if (!is_private(info, S_IFREG, user_id)) return -EPERM;
    if (static_cast<uint64_t>(info.st_size) != PLUMB_STATE_TOTAL_BYTES) return -EPROTO;
    // A page that is first needed when there is no memory left would be a bus error.
    if (static_cast<uint64_t>(info.st_blocks) * 512 < PLUMB_STATE_TOTAL_BYTES) return -ENOSPC;
    void* base = sys::map(PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (base == nullptr) return -ENOMEM;
    auto* header = static_cast<plumb_state_header*>(base);
    touch_for_write(header->reserved2[0]);
    if (header->magic != PLUMB_STATE_MAGIC || header->version_major != PLUMB_STATE_VERSION_MAJOR ||
        !plumb_state_has_parts_in_place(header)) {
        sys::unmap(base, PLUMB_STATE_TOTAL_BYTES);
        return -EPROTO;
    }
    runtime.state = header;
    return 0;
}

plumb_process* slots() {
    return plumb_state_processes(runtime.state);
}

// Whether the slot's process is gone, so that the slot may be taken over. Another user's process counts as
// alive.
bool is_dead(uint32_t process_id) {
    return sys::call(SYS_kill, static_cast<int>(process_id), 0) == -ESRCH;
}

// The kernel has put it on the first stack, which a program may have given up by the time at which it forks.
uint32_t image_of_program() {
    PLUMB_OF_EVERY_START static uint32_t image; // 0: it is not known yet
    if (image != 0) return image;
    const auto* random = reinterpret_cast<const unsigned char*>(told_at_start(AT_RANDOM));
    return image = random == nullptr ? 0 : plumb_state_image_of(random);
}

// Who wants a slot, and which he may take.
struct Claimant {
    uint64_t claim;
    uint32_t image;
    bool judges_others; // asks the kernel whether they live
};

// Whether the slot may be taken over. With our own number it is another runtime's in this process, or left over from
// an earlier process, or from before exec(). Who counts in another namespace, or in one that is not known, is not ours to
// judge.
bool is_left_over(const plumb_process& slot, uint64_t claim, const Claimant& mine) {
    if (PLUMB_CLAIM_SPACE(claim) != PLUMB_CLAIM_SPACE(mine.claim) || PLUMB_CLAIM_SPACE(mine.claim) == 0)
        return false;
    if (PLUMB_CLAIM_PROCESS(claim) != PLUMB_CLAIM_PROCESS(mine.claim))
        return mine.judges_others && is_dead(PLUMB_CLAIM_PROCESS(claim));
    return PLUMB_IS_READY(claim, load_acquire(slot.flags)) && load_relaxed(slot.image) != mine.image;
}

const char* last_part(const char* path) {
    const char* last = path;
    for (; *path != '\0'; path++) {
        if (*path == '/') last = path + 1;
    }
    return last;
}

// What the slot of this claim says of sessions that its process could not attach to.
plumb_process unattached_of(const plumb_process& slot, uint64_t claim) {
    plumb_process copy = {};
    if (!PLUMB_IS_READY(claim, load_acquire(slot.flags))) return copy;
    copy.claim = claim;
    copy.acknowledged = load_relaxed(slot.acknowledged);
    copy.error = load_relaxed(slot.error);
    copy.not_attached = load_relaxed(slot.not_attached);
    return copy;
}

// Of a slot that was taken over: its process has ended, or is this one, before exec().
void leave_word_of_last(const plumb_process& last, uint64_t mine) {
    const bool is_same = PLUMB_CLAIM_PROCESS(last.claim) == PLUMB_CLAIM_PROCESS(mine);
    plumb_state_leave_words(runtime.state, is_same ? runtime.state->reached_late : runtime.state->unattached,
                            &last);
}

bool names_launched(const plumb_query_request& asked, uint64_t cookie) {
    for (uint32_t i = 0; i < asked.launched_count && i < PLUMB_MAX_SESSIONS; i++) {
        if (asked.launched[i] == cookie) return true;
    }
    return false;
}

// A recorder does not record itself, unless somebody calls it by its number: with full rings it would wait for itself.
bool is_controller(const plumb_session& session, const plumb_query_request& asked) {
    return session.controller_process_id == asked.process_id && session.controller_namespace != 0 &&
           session.controller_namespace == asked.process_namespace;
}

// is_known: whether the answer is one.
bool concerns(const plumb_rule& rule, const plumb_session& session, const plumb_query_request& asked,
              bool& is_known) {
    is_known = true;
    if (PLUMB_WHO_OF(rule.who) != PLUMB_WHO_PROCESS && is_controller(session, asked)) return false;
    switch (PLUMB_WHO_OF(rule.who)) {
    case PLUMB_WHO_ALL:
        return true;
    case PLUMB_WHO_PROCESS:
        return rule.who_id == asked.process_id && rule.who_namespace == asked.process_namespace;
    case PLUMB_WHO_USER:
        return rule.who_id == asked.user_id;
    case PLUMB_WHO_LAUNCHED:
        return names_launched(asked, session.cookie) || descends_from_controller(session, rule.session);
    case PLUMB_WHO_EXECUTABLE:
        know_executable();
        is_known = asked.executable[0] != '\0'; // a root without /proc
        return pattern_matches(rule.executable, asked.executable) ||
               pattern_matches(rule.executable, last_part(asked.executable));
    case PLUMB_WHO_CGROUP: {
        const Membership membership = membership_in(rule.cgroup);
        is_known = membership != Membership::not_known;
        return membership == Membership::is_in;
    }
    default:
        return false;
    }
}

// One that is not what its rule takes it for has no code, and so never holds.
void copy_condition(const plumb_rule_set& set, const plumb_rule& rule, plumb_query_result& result) {
    if (rule.condition == 0) return;
    plumb_condition& copy = result.conditions[rule.condition - 1];
    __builtin_memcpy(&copy, &set.conditions[rule.condition - 1], sizeof(copy));
    if (copy.session != rule.session || copy.code_bytes > PLUMB_CONDITION_CODE_BYTES) copy.code_bytes = 0;
}

// Copies one generation, and only the rules that concern the process. Strings are ended here: nobody else
// does.
void copy_rules(const plumb_rule_set& set, const plumb_query_request& asked, plumb_query_result& result) {
    __builtin_memcpy(result.sessions, set.sessions, sizeof(result.sessions));
    result.rule_count = 0;
    result.not_judged = 0;
    const uint32_t count = load_relaxed(set.rule_count);
    for (uint32_t i = 0; i < count && i < PLUMB_MAX_RULES; i++) {
        plumb_rule& rule = result.rules[result.rule_count];
        __builtin_memcpy(&rule, &set.rules[i], sizeof(rule));
        plumb_rule_end_strings(&rule);
        if (rule.session >= PLUMB_MAX_SESSIONS || result.sessions[rule.session].cookie == 0) continue;
        if (rule.condition > PLUMB_MAX_CONDITIONS) continue;
        bool is_known = false;
        if (concerns(rule, result.sessions[rule.session], asked, is_known)) {
            copy_condition(set, rule, result);
            result.rule_count++;
        } else if (!is_known) {
            result.not_judged |= 1u << rule.session;
        }
    }
}

} // namespace

static int open_state_of(uint32_t user_id) {
    const OpenFile file = [user_id] {
        const OpenFile directory = open_directory(user_id, runtime.directory_keeper);
        return directory.number() < 0 ? OpenFile::failed(directory.number())
                                      : open_state_file(directory.number());
    }();
    return file.number() < 0 ? file.number() : map_state(file.number(), user_id);
}

// Of what plumb.ko has, other users may have taken all; who records looks into /dev/shm, too.
int open_state() {
    const uint32_t user_id = sys::effective_user_id();
    const DirectoryKeeper asked_for = runtime.directory_keeper;
    const int error = open_state_of(user_id);
    if (error != -ENOSPC || runtime.directory_keeper != DirectoryKeeper::module) return error;
    runtime.directory_keeper = DirectoryKeeper::shared_memory;
    if (open_state_of(user_id) == 0) return 0;
    runtime.directory_keeper = asked_for;
    return error;
}

// Where that is not known, no time of the machine's is as late: nobody takes the process for one that is gone.
static uint64_t boottime_of_machine() {
    const bool is_known = know_time_namespace();
    const uint64_t now_ns = sys::now_once_ns(CLOCK_BOOTTIME);
    return is_known ? machine_ns(CLOCK_BOOTTIME, now_ns) : now_ns | PLUMB_BOOTTIME_UNKNOWN;
}

static bool take_slot(plumb_process& slot, const Claimant& mine) {
    plumb_process last = {};
    uint64_t there = 0; // the first access writes, or could have: see touch_for_write()
    if (!compare_exchange(slot.claim, there, mine.claim)) {
        if (!is_left_over(slot, there, mine)) return false;
        last = unattached_of(slot, there);
        if (!compare_exchange(slot.claim, there, mine.claim)) return false;
    }
    if (last.not_attached != 0) leave_word_of_last(last, mine.claim);
    store_relaxed(slot.flags, 0u);
    store_relaxed(slot.image, mine.image);
    store_relaxed(slot.signal_number, 0u);
    store_relaxed(slot.acknowledged, uint64_t{0});
    store_relaxed(slot.error, 0);
    store_relaxed(slot.not_attached, 0u);
    store_relaxed(slot.unanswered, 0u);
    store_relaxed(slot.signalled_s, 0u);
    store_relaxed(slot.held, 0u);
    store_relaxed(slot.registered_boottime_ns, boottime_of_machine());
    return true;
}

// The handler is installed before: from the moment the slot is ours, the signal may come. Where all are taken, and not
// before, it is asked who of the others lives: that takes kill(), for which a filter may end the program.
void claim_slot() {
    if (runtime.state == nullptr || runtime.slot != nullptr) return;
    plumb_process* all = slots();
    const uint32_t start = runtime.process_id % PLUMB_MAX_PROCESSES;
    Claimant mine = {
        PLUMB_CLAIM(process_namespace(), runtime.process_id, add_seq_cst(runtime.state->claims, 1u)),
        image_of_program(), false};
    for (int round = 0; round < 2; round++) {
        mine.judges_others = round == 1;
        for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
            plumb_process& slot = all[(start + i) % PLUMB_MAX_PROCESSES];
            if (!take_slot(slot, mine)) continue;
            runtime.claim = mine.claim;
            store_relaxed(runtime.slot, &slot);
            announce_handler();
            return;
        }
    }
    static uint32_t counted; // the process: each object that is loaded asks again
    if (counted != runtime.process_id) add_seq_cst(runtime.state->slots_refused, 1u);
    counted = runtime.process_id;
}

// Says in the slot how this process can be reached; at once when it changes, since a slot given back for a
// moment would hide the process from a controller.
void announce_handler() {
    if (runtime.slot == nullptr) return;
    store_relaxed(runtime.slot->handler, handler_address());
    store_release(runtime.slot->signal_number, static_cast<uint32_t>(runtime.signal_number));
    const uint32_t flags = PLUMB_PROCESS_READY | PLUMB_PROCESS_RULES_4_1 |
                           (runtime.signal_number != 0 ? PLUMB_PROCESS_ASYNC : 0u) |
                           (runtime.rseq_offset != 0 ? PLUMB_PROCESS_RSEQ : 0u);
    const uint32_t there = load_relaxed(runtime.slot->flags);
    const uint32_t seen = PLUMB_IS_READY(runtime.claim, there) ? there & PLUMB_PROCESS_UNFILTERED : 0;
    store_seq_cst(runtime.slot->flags, PLUMB_FLAGS(runtime.claim, flags | seen));
}

void release_slot() {
    if (runtime.slot == nullptr) return;
    leave_word_of_unattached();
    if (is_held()) runtime.held_for_good = true; // the program goes on without the slot, and with its filter
    uint64_t mine = runtime.claim;
    compare_exchange(runtime.slot->claim, mine, uint64_t{0});
    store_relaxed(runtime.slot, static_cast<plumb_process*>(nullptr));
}

// Not ours any more if a controller has freed it, in error or because it found damage: by now it may speak for somebody
// else.
void acknowledge(uint64_t generation) {
    if (runtime.slot == nullptr || load_seq_cst(runtime.slot->claim) != runtime.claim) return;
    store_seq_cst(runtime.slot->acknowledged, generation);
    // Taken before the addition, looked at behind it: a flag that was set for a wait for our addition is seen by one of the
    // two, and none is taken whose controller counts the addition as seen.
    const bool somebody_waits = exchange_seq_cst(runtime.state->ack_waiters, 0u) != 0;
    add_seq_cst(runtime.state->ack_futex, 1u);
    if (somebody_waits || load_seq_cst(runtime.state->ack_waiters) != 0)
        sys::futex_wake_all(runtime.state->ack_futex);
}

bool answer_signal(uint32_t slot_index) {
    plumb_process* slot = load_relaxed(runtime.slot);
    if (slot == nullptr || slot != slots() + slot_index) return false;
    store_relaxed(slot->unanswered, 0u);
    return true;
}

bool answer_any_signal() {
    plumb_process* slot = load_relaxed(runtime.slot);
    return slot != nullptr && exchange_seq_cst(slot->unanswered, 0u) != 0;
}

bool is_slot_of_handler(uint32_t slot_index, uint64_t address) {
    if (runtime.state == nullptr || slot_index >= PLUMB_MAX_PROCESSES || address == 0) return false;
    const plumb_process& slot = slots()[slot_index];
    const uint64_t claim = load_relaxed(slot.claim);
    return PLUMB_CLAIM_PROCESS(claim) == runtime.process_id &&
           PLUMB_CLAIM_SPACE(claim) == PLUMB_CLAIM_SPACE(runtime.claim) &&
           load_relaxed(slot.handler) == address;
}

bool has_no_rules(uint64_t& generation) {
    generation = plumb_state_generation(runtime.state);
    plumb_rule_set& set = *plumb_state_rule_set(runtime.state, generation);
    touch_for_write(set.reserved);
    const bool none = load_acquire(set.rule_count) == 0;
    return none && plumb_state_is_still_at(runtime.state, generation);
}

OpenFile open_channel(uint64_t cookie) {
    const uint32_t user_id = sys::effective_user_id();
    char name[40];
    append_hex16(append(name, "channel-"), cookie);
    OpenFile file =
        open_in_directory(user_id, runtime.directory_keeper, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (file.number() < 0) return file;
    struct stat info;
    int error = sys::status(file.number(), &info);
    if (error == 0 && !is_private(info, S_IFREG, user_id)) error = -EPERM;
    return error == 0 ? static_cast<OpenFile&&>(file) : OpenFile::failed(error);
}

} // namespace plumb

using namespace plumb;

extern "C" __attribute__((visibility("default"))) int plumb_query(const plumb_query_request* asked,
                                                                  plumb_query_result* result) {
    if (runtime.state == nullptr) return -ENOENT;
    forget_control_group();
    constexpr int tries = 100;
    for (int i = 0; i < tries; i++) {
        const uint64_t generation = plumb_state_generation(runtime.state);
        copy_rules(*plumb_state_rule_set(runtime.state, generation), *asked, *result);
        if (!plumb_state_is_still_at(runtime.state, generation)) continue;
        result->generation = generation;
        return 0;
    }
    return -EAGAIN;
}
