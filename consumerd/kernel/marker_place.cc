#include "consumerd/kernel/marker_place.h"

#include "consumerd/probe/function_table.h"

#include <limits>

namespace plumb {
namespace {

/* Floating point is read as it lies in memory; the trace's description says what it is. */
std::string fetch_type(const MarkerArgument& argument) {
    if (argument.first_bit != 0) return fmt::format("b{}@{}/16", argument.size * 8, argument.first_bit);
    return fmt::format("{}{}", argument.is_signed ? 's' : 'u', argument.size * 8);
}

std::string at_register(std::int64_t displacement, const std::string& name) {
    return fmt::format("{:+}(%{})", displacement, name);
}

/* @+OFFSET would be the kernel's own way, but up to 6.12 it adds the offset twice. */
std::optional<std::string> variable(const MarkerArgument& argument, const Marker& marker,
                                    const ElfFile& elf) {
    const auto addresses = symbol_addresses(elf, argument.symbol);
    if (addresses.size() != 1) return {}; /* of several, which source the marker is of is not known */
    const std::uint64_t distance =
        *addresses.begin() + static_cast<std::uint64_t>(argument.number) - marker.address;
    return at_register(static_cast<std::int64_t>(distance), "ip");
}

} // namespace

std::optional<std::string> fetch_of(const MarkerArgument& argument, const Marker& marker,
                                    const ElfFile& elf) {
    std::optional<std::string> place;
    switch (argument.place) {
    case MarkerArgument::Place::constant:
        place = fmt::format("\\{}", argument.number);
        break;
    case MarkerArgument::Place::register_:
        place = "%" + argument.register_name;
        break;
    case MarkerArgument::Place::memory:
        place = at_register(argument.number, argument.register_name);
        break;
    case MarkerArgument::Place::variable:
        place = variable(argument, marker, elf);
        break;
    case MarkerArgument::Place::other:
        break;
    }
    if (!place) return {};
    return *place + ":" + fetch_type(argument);
}

Result<ProbePlace> place_of_marker(const Marker& marker, const ElfFile& elf, const std::string& path,
                                   std::vector<std::string>& notes) {
    const auto offset = elf.file_offset_of(marker.address);
    const auto semaphore = elf.file_offset_of(marker.semaphore);
    if (!offset || (marker.semaphore != 0 && !semaphore))
        return Error("The marker {} of {} is in no part of the file that is loaded.", marker.full_name(),
                     path);
    ProbePlace place;
    place.type = "p";
    place.place = fmt::format("{}:{:#x}", path, *offset);
    if (marker.semaphore != 0) place.place += fmt::format("({:#x})", *semaphore);
    place.raw_name = raw_probe_name("usdt", marker.provider + "_" + marker.name);
    place.provider = marker.provider;
    place.name = marker.name;
    place.file = path;
    for (std::size_t i = 0; i < marker.arguments.size(); i++) {
        const MarkerArgument& argument = marker.arguments[i];
        const std::string name = fmt::format("arg{}", i + 1);
        const auto fetch = elf.machine() == EM_X86_64 ? fetch_of(argument, marker, elf) : std::nullopt;
        if (!fetch) {
            notes.push_back(
                fmt::format("usdt:{}:{} is recorded without {}, which is where the kernel can not read "
                            "it ({}).",
                            path, marker.full_name(), name, argument.text));
            continue;
        }
        place.arguments += (place.arguments.empty() ? "" : " ") + name + "=" + *fetch;
        if (argument.is_float) place.floats.push_back(name);
    }
    return place;
}

} // namespace plumb
