// How a writer waits: for space in block mode, and for those who hold what it needs. Always between two tries, with
// nothing held and signals as the program has them; a handler may jump out of a wait.
//
// Both kinds end, and neither is repeated in vain by every event: after one that helped nothing the next ones try once.
#pragma once

#include "../runtime.h"

namespace plumb {

// Block mode. One for each record: all its waits together take at most the channel's time-out.
class SpaceWait {
public:
    // Before each try: what is there before it looks for room.
    void look(const Attachment& attachment) {
        if (attachment.mode == PLUMB_MODE_BLOCK) space_seen_ = load_seq_cst(attachment.header->space_futex);
    }

    // The ring was full. Not if the time is over, nor if a whole time-out has passed since the consumer last handed
    // anything back, in whatever thread or process: it was killed, or stopped. It is there again when it hands back. It may
    // have done so behind our look, a long time ago if we did not run meanwhile: so nobody gives up without another look.
    bool may_wait(const Attachment& attachment) {
        plumb_channel_header& header = *attachment.header;
        const bool is_handed_back = load_seq_cst(header.space_futex) != space_seen_;
        if (!is_handed_back && load_relaxed(header.gave_up) == PLUMB_GAVE_UP(space_seen_)) return false;
        now_ns_ = now_ns(CLOCK_MONOTONIC);
        if (deadline_ns_ == 0) {
            deadline_ns_ = now_ns_ + attachment.block_timeout_ns;
            space_first_ = space_seen_;
        }
        futex_ = &header.space_futex;
        if (now_ns_ >= deadline_ns_) {
            const bool is_over = !is_handed_back || is_last_look_;
            is_last_look_ = true; // others may take all that is handed back, for ever
            if (is_over && space_seen_ == space_first_)
                store_relaxed(header.gave_up, PLUMB_GAVE_UP(space_seen_));
            return !is_over;
        }
        // Set, never taken back: whoever waits may leave by a jump, and the consumer takes it when it wakes.
        store_seq_cst(header.space_waiters, 1u);
        return true;
    }

    // The channel may be gone meanwhile, and its address be no longer mapped, which ends the system call at once.
    void wait() const {
        if (now_ns_ >= deadline_ns_) return;
        const uint64_t left_ns = deadline_ns_ - now_ns_;
        sys::futex_wait(*futex_, space_seen_, left_ns < slice_ns ? left_ns : slice_ns);
    }

private:
    static constexpr uint64_t slice_ns =
        2'000'000'000; // the record's buffer is not to be taken for abandoned
    uint32_t* futex_ = nullptr;
    uint32_t space_seen_ = 0;
    uint32_t space_first_ = 0;
    uint64_t now_ns_ = 0;
    uint64_t deadline_ns_ = 0; // 0: not begun
    bool is_last_look_ = false;
};

// All guards, or all extra rings, are taken, each for the time of one record: by threads that do not run just now.
class OthersWait {
public:
    // After some tries, and then now and again; where nobody waits any more, at every 256th event.
    bool is_time_to_look_for_the_dead() const {
        if (load_relaxed(runtime.others_given_up) == 0) return tries_ % 16 == first_look;
        return add_seq_cst(runtime.others_given_up, 1u) % 256 == 0;
    }

    // Whether to try again. In the kernel, so that a thread of lower priority can run and leave what it holds.
    bool wait() {
        if (load_relaxed(runtime.others_given_up) != 0) return false;
        const uint64_t time_ns = now_ns(CLOCK_MONOTONIC);
        if (deadline_ns_ == 0) deadline_ns_ = time_ns + wait_ns_max;
        // Not before a look, on a machine where each try took its time.
        if (time_ns >= deadline_ns_ && tries_ > first_look) {
            store_relaxed(runtime.others_given_up, 1u);
            return false;
        }
        if (++tries_ <= yields)
            sys::call(SYS_sched_yield);
        else
            sys::sleep_ns(tries_ < 4 * yields ? sleep_ns : 20 * sleep_ns);
        return true;
    }

    // Got what it needed.
    void over() const {
        if (load_relaxed(runtime.others_given_up) != 0) store_relaxed(runtime.others_given_up, 0u);
    }

private:
    static constexpr uint64_t wait_ns_max = 500'000'000;
    static constexpr uint64_t sleep_ns = 100'000;
    static constexpr uint32_t yields = 16;
    static constexpr uint32_t first_look = 8;
    uint64_t deadline_ns_ = 0;
    uint32_t tries_ = 0;
};

} // namespace plumb
