/*
 * USDT markers (sys/sdt.h, DTRACE_PROBE): places in a program's code that its authors gave a name, with arguments. Each is one
 * instruction that does nothing, and a note in the ELF file (.note.stapsdt) that says where it is and where its arguments are.
 * The file is not trusted.
 */
#ifndef PLUMB_CONSUMERD_PROBE_MARKERS_H
#define PLUMB_CONSUMERD_PROBE_MARKERS_H

#include "base/elf_file.h"
#include "base/result.h"
#include "consumerd/probe/marker_argument.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct Marker {
    std::string provider;
    std::string name;
    std::uint64_t address = 0;
    std::uint64_t semaphore = 0; /* address of a counter; the marker is skipped while it is 0. 0: none */
    std::vector<MarkerArgument> arguments;

    std::string full_name() const { return provider + ":" + name; }
};

/* One for each place, sorted by provider and name, and then by address. */
std::vector<Marker> markers_of(const ElfFile& elf);

/* Whether it stands on an instruction that does nothing, as it should: the notes of a file whose code was moved by another
 * tool may be of no use, and a probe in the middle of an instruction breaks the program. */
bool is_on_nop(const ElfFile& elf, const Marker& marker);

/* "PROVIDER:NAME", both globs; "PROVIDER" means all of it. The error names what there is. `path`: for messages. */
Result<std::vector<Marker>> choose_markers(const ElfFile& elf, const std::string& path,
                                           const std::string& pattern);

} // namespace plumb

#endif
