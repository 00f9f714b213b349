/*
 * Threads that ran already when they were taken into a recording that goes on: what they were called, and whose they were.
 * No event of the kernel that is recorded tells that, and the statedump was made before they were there.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TAKEN_IN_THREADS_H
#define PLUMB_CONSUMERD_KERNEL_TAKEN_IN_THREADS_H

#include "consumerd/kernel/kernel_statedump.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace plumb {

/* Any thread may call any of these. */
class TakenInThreads {
public:
    /* Of a time before which there is no event of theirs. */
    void add(const std::vector<NamedThread>& threads) {
        const std::scoped_lock lock(mutex_);
        for (const NamedThread& thread : threads)
            threads_.push_back(thread);
        /* A flight recorder may not ask for days. */
        while (threads_.size() > kept_max)
            threads_.pop_front();
    }
    /* Those that have not been taken yet. */
    std::vector<NamedThread> take() {
        const std::scoped_lock lock(mutex_);
        const std::deque<NamedThread> taken = std::exchange(threads_, {});
        return {taken.begin(), taken.end()};
    }

    /* Who was there when a snapshot was taken: who ends before the next one is in that, and nobody tells of him any more. */
    void keep(std::vector<NamedThread> threads) {
        const std::scoped_lock lock(mutex_);
        kept_ = std::move(threads);
    }
    std::vector<NamedThread> take_kept() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(kept_, {});
    }

private:
    static constexpr std::size_t kept_max = 50'000;
    std::mutex mutex_;
    std::deque<NamedThread> threads_;
    std::vector<NamedThread> kept_;
};

} // namespace plumb

#endif
