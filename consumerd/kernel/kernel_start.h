/*
 * What the kernel recorded of its own start, into its first buffer: "trace_event=sched: trace_clock=x86-tsc" on its command
 * line. A recording that begins later takes it, once, and goes on from there with an instance of its own.
 *
 * Both are on for a moment. On each CPU a thread that runs there reads the clock: whatever was recorded there before is of the
 * start, whatever came behind of the instance. So no event is in both, and none in neither: it is written as a whole, by
 * interrupts too, before that thread goes on, or behind it.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_START_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_START_H

#include "base/result.h"

#include <plumb/abi/clock_page.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plumb {

struct KernelSelector;

/* As trace_clock and the kernel's command line know it; nullptr: the kernel's tracer has none of that kind. */
const char* trace_clock_name(plumb_clock_mode mode);

/* What is to be added to the kernel's command line, so that it records these from its start on: those of them that need no
 * filter and no probe, whole systems where they can be. `root`: where tracefs is mounted. */
Result<std::string> kernel_start_parameters(const std::string& root,
                                            const std::vector<KernelSelector>& selectors,
                                            plumb_clock_mode clock_mode, std::uint64_t buffer_bytes);

class KernelStart {
public:
    struct Cpu {
        std::uint64_t until = 0;      /* what was recorded from then on is the instance's */
        std::vector<std::byte> pages; /* of the buffer, each as long as it is there */
        std::uint64_t read = 0;       /* events in them, by the kernel's count */
        std::uint64_t lost = 0;       /* before them, or since the buffer was full */
    };

    /* Nothing is changed yet. The error says why there is nothing to take, or why it can not be joined with a recording by
     * that clock. */
    static Result<KernelStart> find(const std::string& root, plumb_clock_mode clock_mode,
                                    const std::string& command_line);
    /* To be called when the instance is on: ends the recording in the first buffer, takes what is in it, and leaves it as
     * the kernel makes it. An error: some of it is missing. */
    Status take(const std::vector<std::uint32_t>& cpus, std::uint32_t page_bytes);

    /* nullptr: it was not asked for. */
    Cpu* of(std::uint32_t cpu);

private:
    KernelStart(std::string root, plumb_clock_mode clock_mode)
        : root_(std::move(root)), clock_mode_(clock_mode) {}
    void part_from_instance(const std::vector<std::uint32_t>& cpus);
    Status read_pages(std::uint32_t number, std::uint32_t page_bytes, Cpu& cpu) const;
    void leave_as_new() const;

    std::string root_;
    plumb_clock_mode clock_mode_;
    std::map<std::uint32_t, Cpu> cpus_;
};

} // namespace plumb

#endif
