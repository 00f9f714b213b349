/*
 * Which numbers the machine has for threads that we see, where ours are those of another process-id namespace.
 *
 * The kernel's tracer knows threads by the numbers of the machine's first namespace, and nothing in /proc tells them. An
 * event does: writing to /proc/PID/task/TID/oom_score_adj what it is already makes one that names that thread so. The
 * permission to lower that value is given up meanwhile, since the kernel would note ours as the least that the process may
 * go back to by itself.
 *
 * Threads that begin later are followed by events (thread_lives.h), so those are known, too, that have ended before their
 * records are read. Thread-safe.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_GLOBAL_NUMBERS_H
#define PLUMB_CONSUMERD_KERNEL_GLOBAL_NUMBERS_H

#include "base/result.h"
#include "consumerd/kernel/thread_lives.h"
#include "consumerd/kernel/tracefs_reader.h"

#include <plumb/abi/clock_page.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* A thread that has no number here is shown by the machine's and this: no thread has such a number, and a person can read
 * it. */
constexpr std::uint32_t unseen_thread_base = 1'000'000'000;

class GlobalNumbers {
public:
    /* number() of the error: cannot_be_known. Then the kernel's events would be of others than was asked. */
    static Result<std::unique_ptr<GlobalNumbers>> make(std::unique_ptr<TracefsReader> reader);
    static constexpr int cannot_be_known = -3;

    /* The machine's number of a thread that we see. */
    Result<std::uint32_t> of(std::uint32_t process_id, std::uint32_t thread_id);

    /* Takes in what was told up to now. To be called when records have been read, and before they are translated: who is
     * in them has begun before. */
    void catch_up();
    /* What we call the thread that had the machine's number at that time: looked for, if it may be there. */
    std::uint32_t here(std::uint32_t thread, std::uint64_t time);
    std::uint32_t here_now(std::uint32_t thread);
    /* How often events of who begins were lost: threads of then are called as those who are not seen. */
    std::uint64_t losses() const { return losses_; }

private:
    explicit GlobalNumbers(std::unique_ptr<TracefsReader> reader);
    Status enable();
    void read();
    void take(const RawEvent& event);
    Result<std::uint32_t> own_number();
    Result<std::uint32_t> ask(std::uint32_t process_id, std::uint32_t thread_id);
    std::optional<std::uint32_t> wait_for_answer(std::uint32_t own);
    void look();
    void take_number_of(std::uint32_t process_id, std::uint32_t thread_id);
    void look_beside_maker_of(std::uint32_t thread);

    std::mutex mutex_;
    std::unique_ptr<TracefsReader> reader_;
    std::atomic<std::uint64_t> losses_ = 0;
    ThreadLives lives_;
    std::size_t lives_looked_at_; /* as many as there may be before it is looked who is not seen */
    std::map<std::uint32_t, std::uint32_t> own_numbers_; /* of our threads that ask: here -> the machine's */
    std::optional<RawFields> newtask_, answer_, mark_, unshare_, setns_;
    std::vector<RawFields> returns_;
    std::uint32_t asked_by_ = 0; /* the machine's number of who asks; 0: nobody does */
    std::optional<std::uint32_t> answered_;
    std::string marked_with_; /* what the thread that asks for its own number has written */
    std::optional<std::uint32_t> marked_by_;
};

} // namespace plumb

#endif
