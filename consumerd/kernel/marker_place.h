/*
 * From a USDT marker to what the kernel is asked to watch: its place with its semaphore, and its arguments in the kernel's
 * syntax, as far as that can say where they are.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_MARKER_PLACE_H
#define PLUMB_CONSUMERD_KERNEL_MARKER_PLACE_H

#include "base/elf_file.h"
#include "base/result.h"
#include "consumerd/kernel/probe_place.h"
#include "consumerd/probe/markers.h"

#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* "+8(%bp):u32"; nothing where the kernel can not look. A variable is found by its distance from the marker. */
std::optional<std::string> fetch_of(const MarkerArgument& argument, const Marker& marker, const ElfFile& elf);

/* `path`: absolute. Arguments that are left out are named in `notes`. */
Result<ProbePlace> place_of_marker(const Marker& marker, const ElfFile& elf, const std::string& path,
                                   std::vector<std::string>& notes);

} // namespace plumb

#endif
