/* Which of the kernel's records are wanted, where the kernel itself can not be told exactly enough. */
#ifndef PLUMB_CONSUMERD_KERNEL_RECORD_FILTER_H
#define PLUMB_CONSUMERD_KERNEL_RECORD_FILTER_H

#include <cstdint>
#include <span>

namespace plumb {

class RecordFilter {
public:
    virtual ~RecordFilter() = default;
    /* Takes in what was told up to now: when records have been read, and before they are asked about. */
    virtual void catch_up() = 0;
    /* `threads`: all that the record names, whose it is first, by the machine's numbers. */
    virtual bool wants(std::span<const std::uint32_t> threads, std::uint64_t time) = 0;
};

} // namespace plumb

#endif
