/*
 * The tracepoints that a file has for LTTng-UST, by its sections: lttng_ust_tracepoints_ptrs is an array of their addresses.
 */
#ifndef PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H
#define PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H

#include "base/elf_file.h"
#include "consumerd/event/elf_events.h"

#include <vector>

namespace plumb {

/* By name, each once. What can not be read is left out. */
std::vector<LttngTracepoint> lttng_tracepoints_of(const ElfFile& elf);

} // namespace plumb

#endif
