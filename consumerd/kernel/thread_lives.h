/*
 * What the machine's numbers of threads are called here, in a process-id namespace that is not the machine's first one.
 *
 * The kernel's events name threads by the numbers of the first namespace. When a thread begins (task_newtask) an event says
 * what its number there is; the number in the namespace of who began it is what the system call (clone, fork ...) returns to
 * that one, as an event, too. A thread makes one of them after the other, so the two are joined by who did it and by time.
 * That says the number here only where the maker's own numbers are those of here, and not of a namespace below; of others,
 * and of those who were there before, somebody has to look (is()).
 *
 * Numbers are used again, so each has lives, which begin at a time. Knows nothing of files.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_THREAD_LIVES_H
#define PLUMB_CONSUMERD_KERNEL_THREAD_LIVES_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace plumb {

class ThreadLives {
public:
    enum class State : std::uint8_t {
        known,
        unseen,  /* somebody has looked, and it was not to be seen */
        awaited, /* what its maker was given is yet to be told */
        not_looked_for
    };
    struct Answer {
        State state = State::unseen;
        std::uint32_t number = 0; /* here, if that is known */
        bool was_looked_for = true;
    };

    /* In the order of time, but for `is` and `looked`, which are true at that moment. */
    void began(std::uint64_t time, std::uint32_t by, std::uint32_t thread, std::uint64_t clone_flags);
    void returned(std::uint64_t time, std::uint32_t to, std::int64_t number);
    /* What it starts from now on may be in another namespace. */
    void moved(std::uint32_t thread);
    /* Events are missing before this time: nothing from before is joined with what comes. */
    void lost();
    /* It was looked for, and found. `numbers_as_we`: what it starts has numbers of here, in what system calls return. */
    void is(std::uint32_t thread, std::uint32_t number, bool numbers_as_we, std::uint64_t now);
    /* Whoever was there at that time has been found, or can not be seen. */
    void looked(std::uint64_t time);

    /* Its maker may never be told; if he is, it is known then. */
    void await_no_longer(std::uint32_t thread);

    /* What we call who has begun it, as long as the call has not returned that does so; 0: not known. */
    std::uint32_t maker_in_call(std::uint32_t thread) const;

    Answer find(std::uint32_t thread, std::uint64_t time) const;
    /* Whether this number here is that of a thread which is known and, as far as is known, lives. */
    bool has_number(std::uint32_t number) const { return by_number_.count(number) != 0; }
    std::size_t size() const { return lives_.size(); }
    /* Lets go of those who are not seen: who is not in here is not seen, either. */
    void forget_unseen();

private:
    struct Life {
        std::uint64_t from = 0;
        std::uint32_t number = 0; /* 0: not known */
        bool is_awaited = false;
        bool is_given_up = false;
        bool was_looked_for = false;
        bool numbers_as_we = false;
        bool has_moved = false;
    };
    struct Begun {
        std::uint64_t time = 0; /* 0: none waits */
        std::uint32_t thread = 0;
    };
    Life* last(std::uint32_t thread);
    void know(std::uint32_t thread, Life& life, std::uint32_t number);

    std::unordered_map<std::uint32_t, std::vector<Life>> lives_;
    std::unordered_map<std::uint32_t, std::uint32_t> by_number_; /* here -> the machine's */
    std::unordered_map<std::uint32_t, Begun> begun_;             /* by who did it: not returned yet */
};

} // namespace plumb

#endif
