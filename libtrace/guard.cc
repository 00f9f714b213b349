// Guards: who is on the slow path, so that an update knows when nobody can see the old state any more.
//
// The fast path needs no guard: it is a restartable sequence, and membarrier(PRIVATE_EXPEDITED_RSEQ) restarts
// all of them. Everything else that touches a channel (the slow path, the whole fallback without rseq) holds
// a guard: one of 64 words, busy (odd) or free (even), that change with every use. An update that switched
// something off remembers which guards are busy. Each of those users either saw the new state, or is done
// once its word has changed; so when all remembered words have changed, nothing of the old state is in use.
// Nobody waits: if some are still busy, the last of those users finishes the update when it leaves.
//
// Barriers: A in Guard() pairs with B in begin_quiescence(). A orders "guard word busy" before the user's
// loads of event and attachment; B orders the update's stores to those before its loads of the guard words.
// So if the update saw a guard free, that guard's user sees the new state. The compare-and-swap and the
// exchange are full barriers on every architecture we run on; C, the update's `quiesce_pending`, is ordered
// the same way against the user's leaving.
#include "runtime.h"

#include <linux/membarrier.h>
#include <sched.h>

namespace plumb {

namespace {

struct alignas(64) GuardWord {
    uint64_t word; // even: free, odd: busy; grows
};
GuardWord guards[guard_count];
// Those that were busy when events were last switched off; 0: was free. Who reads a mixture of two such times
// finds too much busy, or asks for an update, which looks again.
uint64_t remembered_guards[guard_count];

constexpr uint32_t tries_before_yield = guard_count;
constexpr uint32_t yields_max = 1000;

} // namespace

Guard::Guard() : index_(guard_count), word_(0) {
    uint32_t index = plumb_thread_self.id % guard_count;
    for (uint32_t tries = 1; tries <= tries_before_yield * yields_max; tries++) {
        uint64_t word = load_relaxed(guards[index].word);
        if ((word & 1) == 0 && compare_exchange(guards[index].word, word, word + 1)) { // barrier A
            index_ = index;
            word_ = word + 1;
            return;
        }
        index = (index + 1) % guard_count;
        if (tries % tries_before_yield == 0) sys::call(SYS_sched_yield);
    }
}

Guard::~Guard() {
    if (!held()) return;
    exchange_seq_cst(guards[index_].word, word_ + 1); // barrier C
    if (load_seq_cst(runtime.quiesce_pending) != 0 && is_quiescent()) request_update();
}

void begin_quiescence() {
    if (runtime.rseq_offset != 0) {
        register_membarrier();
        sys::call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
    }
    full_fence(); // barrier B
    for (uint32_t i = 0; i < guard_count; i++) {
        const uint64_t word = load_seq_cst(guards[i].word);
        store_relaxed(remembered_guards[i], (word & 1) != 0 ? word : 0);
    }
}

bool is_quiescent() {
    for (uint32_t i = 0; i < guard_count; i++) {
        const uint64_t remembered = load_relaxed(remembered_guards[i]);
        if (remembered != 0 && load_seq_cst(guards[i].word) == remembered) return false;
    }
    return true;
}

void reset_guards() {
    for (GuardWord& guard : guards)
        guard.word = 0;
}

} // namespace plumb
