/*
 * System calls that a recorder's child makes before it is the command: the kernel records the process from before it calls
 * exec(), so that nothing of the command is missed, and what it does until then is nobody's who reads the trace. The child
 * notes the time of its last step before exec(); what it called up to then is left out.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_OWN_CALLS_H
#define PLUMB_CONSUMERD_KERNEL_OWN_CALLS_H

#include <plumb/abi/clock_page.h>

#include <atomic>
#include <cstdint>
#include <limits>

namespace plumb {

class OwnCalls {
public:
    explicit OwnCalls(plumb_clock_mode clock);
    ~OwnCalls();
    OwnCalls(const OwnCalls&) = delete;
    OwnCalls& operator=(const OwnCalls&) = delete;

    /* The child is about to be made: who asks about a call waits until is_of() has told whose number it has, for its calls may
     * be read before whoever made it knows that. */
    void expect();
    /* The child, by the number that the kernel's records have; 0: nobody, and nothing is left out. */
    void is_of(std::uint32_t thread_id);
    /* In the child, as the last step before exec(). Async-signal-safe, and no system call where the clock takes none. */
    void end();

    /* Until end() has been called, all of its calls. */
    bool has(std::uint32_t thread_id, std::uint64_t timestamp) const {
        return shared_ != nullptr && thread_id != 0 && child() == thread_id &&
               timestamp <= shared_->last.load(std::memory_order_acquire);
    }

private:
    static constexpr std::uint32_t expected = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t child() const {
        const std::uint32_t number = shared_->thread_id.load(std::memory_order_relaxed);
        return number != expected ? number : wait_for_child();
    }
    std::uint32_t wait_for_child() const;

    struct Shared { /* with the child */
        std::atomic<std::uint32_t> thread_id{0};
        std::atomic<std::uint64_t> last{std::numeric_limits<std::uint64_t>::max()};
    };
    plumb_clock_mode clock_;
    Shared* shared_ = nullptr; /* without memory for it: nothing is left out */
};

} // namespace plumb

#endif
