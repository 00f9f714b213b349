/* What became of a CPU's events, as the kernel counts them (per_cpu/cpuN/stats). */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_COUNTS_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_COUNTS_H

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

struct KernelCounts {
    std::uint64_t overrun = 0; /* overwritten before they were read */
    std::uint64_t dropped = 0; /* not written since the buffer was full */
    std::uint64_t read = 0;    /* not lost: what readers were given so far */
    std::uint64_t unread = 0;  /* in the buffer now */
};

/* Looks at a CPU's counts again and again. */
class CountsWatch {
public:
    /* Whether the buffer was emptied since the last look: counts have gone back, or fewer events were written by now than
     * were there before. */
    bool has_been_emptied(const KernelCounts& now);

private:
    KernelCounts last_;
    std::uint64_t least_written_ = 0; /* events, since it was emptied last */
};

/* `buffer`: the directory of tracefs, or of an instance; nothing if it can not be read. */
std::optional<KernelCounts> kernel_counts(const std::string& buffer, std::uint32_t cpu);

} // namespace plumb

#endif
