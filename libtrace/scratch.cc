// Buffers for records that do not fit the caller's stack: in groups, each mapped when those before it are in use.
//
// A buffer is filled while the program's own strings are read into it, so signals can not be blocked, and a handler may
// jump out of that for good; likewise out of a wait. So a use in which nothing has happened for ten seconds, when no
// other buffer can be had, is taken to be over. While its record is written, with signals blocked, it is pinned, and
// nobody else's for however long; whoever comes back to a buffer that was taken over finds that it can not be pinned, and
// counts its record as lost. What is left: a thread that is stopped for ten seconds within the filling itself, beside 255
// others. Whoever finds no buffer cuts its record to what fits the stack, and says so.
//
// A held process maps nothing: what it may need is taken when it says that it is.
#include "runtime.h"
#include "signals_held.h"

#include "ring/inject.h"

#include <plumb/abi/record.h>

namespace {

using namespace plumb;

//   63                       9  8      7    2    1        0
//   +-------------------------+------+-------+--------+--------+
//   | since, microseconds     | kept | uses  | pinned | in use |
//   +-------------------------+------+-------+--------+--------+
constexpr uint64_t in_use = 1;
constexpr uint64_t pinned = 2;
constexpr uint32_t use_shift = 2;
constexpr uint64_t use_mask = 0x3f;
constexpr uint64_t kept = 0x100; // until it is given back; also in a forked child, by who has forked
constexpr uint32_t time_shift = 9;
constexpr uint64_t abandoned_after_us = 10'000'000;
// Each use of a buffer begins at another place in it, so that who comes back late gives back nobody else's.
constexpr uint64_t shift_bytes = 16;
constexpr uint64_t buffer_bytes = (PLUMB_SCRATCH_BYTES + (use_mask + 1) * shift_bytes + 4095) / 4096 * 4096;

constexpr uint32_t group_buffers = 16;
constexpr uint64_t group_bytes = group_buffers * buffer_bytes;
constexpr uint32_t group_count = 16;

struct Group {
    unsigned char* memory; // nullptr: not needed yet
    uint64_t words[group_buffers];
};
Group groups[group_count];
uint64_t newest_us; // for those who may not ask for the time

uint64_t use_of(uint64_t word) {
    return word >> use_shift & use_mask;
}

uint64_t word_of(uint64_t since_us, uint64_t use, uint64_t flags) {
    return since_us << time_shift | use << use_shift | flags;
}

uint64_t time_us() {
    const Permit permit;
    if (!permit.given()) return load_relaxed(newest_us);
    const uint64_t now_us = now_ns(CLOCK_MONOTONIC) / 1000;
    store_relaxed(newest_us, now_us);
    return now_us;
}

unsigned char* map_for(Group& group) {
    unsigned char* known = nullptr;
    const SignalsHeld signals; // nobody leaves between these two
    void* const mapped = sys::map(group_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mapped == nullptr || compare_exchange(group.memory, known, static_cast<unsigned char*>(mapped)))
        return static_cast<unsigned char*>(mapped);
    sys::unmap(mapped, group_bytes); // another thread was first
    return known;
}

unsigned char* memory_of(Group& group) {
    unsigned char* const known = load_acquire(group.memory);
    if (known != nullptr) return known;
    const Permit permit;
    return permit.given() ? map_for(group) : nullptr;
}

// The time is asked for behind the word: a buffer that was taken since would seem to be taken in the future.
bool is_abandoned(uint64_t word, uint64_t& now_us) {
    if ((word & (pinned | kept)) != 0) return false;
    now_us = time_us();
    const uint64_t since_us = word >> time_shift;
    return now_us > since_us && now_us - since_us > abandoned_after_us;
}

unsigned char* take_from(Group& group, unsigned char* memory, uint64_t now_us, bool abandoned_too) {
    for (uint32_t i = 0; i < group_buffers; i++) {
        uint64_t word = load_acquire(group.words[i]);
        if ((word & in_use) != 0 && (!abandoned_too || !is_abandoned(word, now_us))) continue;
        const uint64_t use = (use_of(word) + 1) & use_mask;
        if (compare_exchange(group.words[i], word, word_of(now_us, use, in_use)))
            return memory + i * buffer_bytes + use * shift_bytes;
    }
    return nullptr;
}

struct Use {
    uint64_t* word = nullptr; // nullptr: not in a buffer
    uint64_t number = 0;
};

Use use_at(const void* scratch) {
    for (Group& group : groups) {
        const unsigned char* const memory = load_acquire(group.memory);
        if (memory == nullptr) break;
        const auto offset = static_cast<uint64_t>(static_cast<const unsigned char*>(scratch) - memory);
        if (offset >= group_bytes) continue;
        return {&group.words[offset / buffer_bytes], offset % buffer_bytes / shift_bytes};
    }
    return {};
}

// Not if the use is over.
bool change(const Use& use, uint64_t since_us, uint64_t flags) {
    for (uint64_t word = load_relaxed(*use.word); (word & in_use) != 0 && use_of(word) == use.number;)
        if (compare_exchange(*use.word, word, word_of(since_us, use.number, flags))) return true;
    return false;
}

} // namespace

namespace plumb {

// In a held process signals are not blocked: there a use is as new as its last try, and no more.
ScratchPin::ScratchPin(const void* payload) : payload_(payload) {
    const Use use = use_at(payload);
    if (use.word != nullptr)
        is_lost_ = !change(use, load_relaxed(newest_us), is_held() ? in_use : in_use | pinned);
}

ScratchPin::~ScratchPin() {
    const Use use = use_at(payload_);
    if (use.word != nullptr && !is_lost_) change(use, time_us(), in_use);
}

bool is_scratch_lost(const void* payload) {
    const Use use = use_at(payload);
    if (use.word == nullptr) return false;
    const uint64_t word = load_seq_cst(*use.word);
    return (word & in_use) == 0 || use_of(word) != use.number;
}

// An event takes three at most: for its fields, for its context and them, and for what is left when it is cut.
void take_scratch_ahead() {
    constexpr uint32_t buffers_each = 3;
    uint64_t wanted = 0; // groups
    for (const Attachment& attachment : attachments) {
        if (load_seq_cst(attachment.usable) == 0) continue;
        const uint64_t groups_here = uint64_t{attachment.ring_count} * buffers_each / group_buffers + 1;
        if (groups_here > wanted) wanted = groups_here;
    }
    for (uint64_t i = 0; i < group_count && i < wanted; i++)
        if (load_acquire(groups[i].memory) == nullptr && map_for(groups[i]) == nullptr) return;
}

plumb_loss cause_without_scratch() {
    return is_held() ? PLUMB_LOST_HELD : PLUMB_LOST_CONTENDED;
}

// In a forked child: what other threads were writing there nobody goes on with.
void unpin_scratch() {
    for (Group& group : groups)
        for (uint64_t& word : group.words)
            store_relaxed(word, load_relaxed(word) & ~pinned);
}

} // namespace plumb

extern "C" __attribute__((visibility("default"))) void* plumb_scratch_acquire(void) {
    const uint64_t now_us = time_us();
    for (uint32_t round = 0; round < 2; round++) {
        const bool abandoned_too = round == 1;
        if (abandoned_too) inject(InjectionPoint::scratch_used_up);
        for (Group& group : groups) {
            unsigned char* const memory = abandoned_too ? load_acquire(group.memory) : memory_of(group);
            if (memory == nullptr) break;
            unsigned char* const scratch = take_from(group, memory, now_us, abandoned_too);
            if (scratch != nullptr) return scratch;
        }
    }
    return nullptr;
}

extern "C" __attribute__((visibility("default"))) void plumb_scratch_release(void* scratch) {
    const Use use = scratch != nullptr ? use_at(scratch) : Use{};
    if (use.word == nullptr) return;
    uint64_t word = load_relaxed(*use.word);
    if ((word & in_use) != 0 && use_of(word) == use.number) compare_exchange(*use.word, word, word & ~in_use);
}

extern "C" __attribute__((visibility("default"))) void plumb_scratch_keep(void* scratch) {
    const Use use = use_at(scratch);
    if (use.word != nullptr) change(use, load_relaxed(newest_us), in_use | kept);
}
