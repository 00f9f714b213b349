/*
 * What was already there when tracing of the kernel started: threads and what they do, interrupts, modules, and on
 * request open files. Written as events whose names and fields are those of LTTng's kernel statedump, so that
 * analyses which begin with it do so here, too.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_STATEDUMP_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_STATEDUMP_H

#include "consumerd/event/elf_events.h"

#include <plumb/abi/clock_page.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace plumb {

struct KernelStatedumpOptions {
    plumb_clock_mode clock_mode = PLUMB_CLOCK_TSC;
    bool open_files = false;
};

/* The events that a dump consists of; the first has the id 1, and so on. */
const std::vector<EventDescription>& kernel_statedump_events();

/* Which process a thread is of, and since when: on the machine's CLOCK_BOOTTIME, the start of the clock tick. */
struct ThreadOrigin {
    std::uint32_t process_id;
    std::uint64_t began_boottime_ns;
    std::uint64_t looked_at = 0; /* by the clock of the records: it was there */
    std::string name;
};

/* The dump of this machine, now: records of those events, in time order; and whose threads there are. A thread's record has the
 * time before it was looked at, so that what happens to its name later comes behind it. */
struct KernelStatedump {
    std::vector<std::byte> records;
    std::map<std::uint32_t, ThreadOrigin> threads;
};
KernelStatedump kernel_statedump(const KernelStatedumpOptions& options);

/* A thread that began later, or got another name, as one more event of the dump. */
struct NamedThread {
    std::uint64_t timestamp;
    std::uint32_t thread_id;
    std::uint32_t process_id;
    std::string name;
    std::uint64_t seen_at = 0; /* it was there, and of that process; 0: nobody looked */
};
std::vector<std::byte> encode_named_threads(const std::vector<NamedThread>& threads);

/* The records of a dump, and what was told of names meanwhile, both in time order, as one in time order. */
std::vector<std::byte> with_named_threads(std::span<const std::byte> dump,
                                          const std::vector<NamedThread>& threads);

} // namespace plumb

#endif
