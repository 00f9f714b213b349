/*
 * Which threads run a program that is recorded, and since when: told by exec(), and handed on to those that they start. By the
 * machine's numbers. Knows nothing of files.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_PROGRAM_LIVES_H
#define PLUMB_CONSUMERD_KERNEL_PROGRAM_LIVES_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace plumb {

class ProgramLives {
public:
    enum class Program : std::uint8_t { not_known, recorded, another };

    /* In the order of time. */
    void began(std::uint64_t time, std::uint32_t by, std::uint32_t thread);
    void runs(std::uint64_t time, std::uint32_t thread, Program program);
    void ended(std::uint64_t time, std::uint32_t thread);
    /* It was found to run a recorded one, where nothing else is known of it. */
    void found(std::uint32_t thread);

    Program find(std::uint32_t thread, std::uint64_t time) const;
    std::size_t size() const { return lives_.size(); }
    /* Lets go of those who had ended when this was called the last time, and of those of whom nothing was told since then and
     * who are not recorded. */
    void forget_others(std::uint64_t now);

private:
    struct Life {
        std::uint64_t from;
        Program program;
        std::uint64_t until = 0; /* 0: it has not ended */
    };
    void add(std::uint32_t thread, Life life);

    std::unordered_map<std::uint32_t, std::vector<Life>> lives_;
    std::uint64_t forgotten_at_ = 0;
};

} // namespace plumb

#endif
