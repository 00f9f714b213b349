// Guards: who is on the slow path, so that an update knows when nobody can see the old state any more.
//
// The fast path needs no guard: it is a restartable sequence, and membarrier(PRIVATE_EXPEDITED_RSEQ) restarts
// all of them. Everything else that touches a channel (the slow path, the whole fallback without rseq) holds
// a guard: one of 64 words, busy (odd) or free (even), that change with every use. An update that switched
// something off remembers which guards are busy. Each of those users either saw the new state, or is done
// once its word has changed; so when all remembered words have changed, nothing of the old state is in use.
// Nobody waits: if some are still busy, the last of those users finishes the update when it leaves.
//
//   63                     23 22        1   0
//   +------------------------+-----------+----+
//   | uses, and ends of uses | thread id |busy|    thread id: 0 while free
//   +------------------------+-----------+----+
//
// A guard is held with signals blocked, so few handlers can jump out of its use (signals_held.h). Whose does, takes back
// what it left when it next comes by. A thread that is killed alone, as the child of vfork() can be, or ends in such a
// handler, is told by its id, and whoever needs the word takes it back.
//
// Barriers: A in Guard() pairs with B in begin_quiescence(). A orders "guard word busy" before the user's
// loads of event and attachment; B orders the update's stores to those before its loads of the guard words.
// So if the update saw a guard free, that guard's user sees the new state. The compare-and-swap and the
// exchange are full barriers on every architecture we run on; C, the update's `quiesce_pending`, is ordered
// the same way against the user's leaving.
#include "runtime.h"

#include <linux/membarrier.h>

namespace plumb {

namespace {

struct alignas(64) GuardWord {
    uint64_t word;
};
GuardWord guards[guard_count];
// Those that were busy when events were last switched off; 0: was free. Who reads a mixture of two such times
// finds too much busy, or asks for an update, which looks again.
uint64_t remembered_guards[guard_count];
// Without membarrier: when sequences that began before have ended, but for such as the kernel or a hypervisor holds up.
uint64_t sequences_ended_ns;

constexpr uint32_t thread_id_bits = 22;
constexpr uint64_t sequence_ns_max = 20'000'000;

constexpr bool is_busy(uint64_t word) {
    return (word & 1) != 0;
}
constexpr uint32_t user_of(uint64_t word) {
    return static_cast<uint32_t>(word >> 1) & ((1u << thread_id_bits) - 1);
}
constexpr uint64_t free_after(uint64_t word) {
    return ((word >> (thread_id_bits + 1)) + 1) << (thread_id_bits + 1);
}
constexpr uint64_t busy_after(uint64_t word, uint32_t thread_id) {
    return free_after(word) | uint64_t{thread_id & ((1u << thread_id_bits) - 1)} << 1 | 1;
}

// Frees the guards of threads that are gone: of all, or of those that an update waits for.
void take_back_guards(bool all) {
    for (uint32_t i = 0; i < guard_count; i++) {
        uint64_t word = load_seq_cst(guards[i].word);
        if (!is_busy(word) || (!all && word != load_relaxed(remembered_guards[i]))) continue;
        if (is_thread_gone(user_of(word))) compare_exchange(guards[i].word, word, free_after(word));
    }
}

// No sequence may begin again, and what those in flight may see stays mapped for good.
void lose_sequences() {
    sequences_ended_ns = now_ns(CLOCK_MONOTONIC) + sequence_ns_max;
    if (exchange_seq_cst(runtime.sequences_lost, 1u) != 0) return;
    for (uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
        store_release(runtime.writers[session].ring_count, 0u);
        store_release(runtime.writers[session].sequence_rings, 0u);
    }
}

} // namespace

Guard::Guard(uint32_t thread_id, bool thorough) : index_(guard_count), word_(0) {
    if (take(thread_id) || !thorough) return;
    take_back_guards(true);
    take(thread_id);
}

bool Guard::take(uint32_t thread_id) {
    for (uint32_t i = 0; i < guard_count; i++) {
        const uint32_t index = (thread_id + i) % guard_count;
        uint64_t word = load_relaxed(guards[index].word);
        const uint64_t busy = busy_after(word, thread_id);
        if (is_busy(word) || !compare_exchange(guards[index].word, word, busy)) continue; // barrier A
        index_ = index;
        word_ = busy;
        return true;
    }
    return false;
}

Guard::~Guard() {
    if (!held()) return;
    uint64_t mine = word_;                                          // not any more in the child of a fork
    compare_exchange(guards[index_].word, mine, free_after(word_)); // barrier C
}

bool is_last_of_update() {
    return load_seq_cst(runtime.quiesce_pending) != 0 && !is_held() && is_quiescent();
}

void begin_quiescence() {
    if (runtime.rseq_offset != 0) {
        // Held, the records of sequences in flight go where they went before, and what they see stays mapped.
        const bool held = is_held();
        store_relaxed(runtime.sequences_go_on, held ? 1u : 0u);
        if (!held) {
            register_membarrier();
            if (sys::call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) != 0) lose_sequences();
        }
    }
    full_fence(); // barrier B
    for (uint32_t i = 0; i < guard_count; i++) {
        const uint64_t word = load_seq_cst(guards[i].word);
        store_relaxed(remembered_guards[i], is_busy(word) ? word : 0);
    }
}

bool is_quiescent() {
    if (load_relaxed(runtime.sequences_lost) != 0 && now_ns(CLOCK_MONOTONIC) < sequences_ended_ns)
        return false;
    for (uint32_t i = 0; i < guard_count; i++) {
        const uint64_t remembered = load_relaxed(remembered_guards[i]);
        if (remembered != 0 && load_seq_cst(guards[i].word) == remembered) return false;
    }
    return true;
}

bool is_quiescent_without_the_dead() {
    if (is_quiescent()) return true;
    take_back_guards(false);
    return is_quiescent();
}

void take_back_own_guards() {
    const uint32_t mine = sys::thread_id() & ((1u << thread_id_bits) - 1);
    for (GuardWord& guard : guards) {
        uint64_t word = load_seq_cst(guard.word);
        if (is_busy(word) && user_of(word) == mine) compare_exchange(guard.word, word, free_after(word));
    }
}

void reset_guards() {
    for (GuardWord& guard : guards)
        guard.word = 0;
}

} // namespace plumb
