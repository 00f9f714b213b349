/*
 * The tracepoints that a file has for LTTng-UST, by its sections: lttng_ust_tracepoints_ptrs is an array of their addresses. And the
 * log levels and fields of the events of its providers, which have no section, and in a stripped file no name: they are known by their
 * form, a description of a provider whose events all lead back to it.
 */
#ifndef PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H
#define PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H

#include "base/elf_file.h"
#include "consumerd/event/elf_events.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* As the program's sections have it. Its fields are the provider's, which may be in another file, and so is its log level. */
struct LttngTracepoint {
    std::string provider;
    std::string name;
    std::string arguments;                           /* types and names, as in the source */
    std::optional<std::uint8_t> log_level{};         /* nothing: no provider is known that has it */
    std::optional<std::vector<EventField>> fields{}; /* likewise; or they can not be read */

    std::string full_name() const { return provider + ":" + name; }
};

/* By name, each once. What can not be read is left out. */
std::vector<LttngTracepoint> lttng_tracepoints_of(const ElfFile& elf);

struct LttngLevel {
    std::string event; /* with its provider */
    std::uint8_t log_level;
    /* As far as a filter goes by them: their names, and what they can be compared with. */
    std::optional<std::vector<EventField>> fields{};
};

/* Of the providers that the file holds. */
std::vector<LttngLevel> lttng_levels_of(ElfFile& elf);

/* Gives each tracepoint level and fields of the first event of its name. */
void know_levels(std::vector<LttngTracepoint>& tracepoints, const std::vector<LttngLevel>& levels);

} // namespace plumb

#endif
