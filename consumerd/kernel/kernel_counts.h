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
};

/* `buffer`: the directory of tracefs, or of an instance; nothing if it can not be read. */
std::optional<KernelCounts> kernel_counts(const std::string& buffer, std::uint32_t cpu);

} // namespace plumb

#endif
