#include "consumerd/probe/markers.h"

#include "base/glob.h"
#include "consumerd/probe/function_choice.h"
#include "consumerd/probe/probed_instruction.h"
#include "consumerd/probe/similar_names.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

namespace plumb {
namespace {

constexpr std::uint64_t notes_bytes_max = std::uint64_t{64} << 20;
constexpr std::uint32_t marker_note_type = 3; /* NT_STAPSDT */
constexpr std::string_view marker_note_owner = "stapsdt";
constexpr std::size_t arguments_max = 32; /* sys/sdt.h has twelve */

struct Note {
    std::uint32_t type;
    std::string_view owner;
    std::span<const std::byte> content;
};

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/* Takes the first note off; nothing if there is no whole one. Owner and content are each rounded up to four bytes. */
std::optional<Note> take_note(std::span<const std::byte>& bytes) {
    Elf64_Nhdr header;
    if (bytes.size() < sizeof(header)) return {};
    std::memcpy(&header, bytes.data(), sizeof(header));
    bytes = bytes.subspan(sizeof(header));
    const auto take = [&](std::uint64_t size) -> std::optional<std::span<const std::byte>> {
        if (size > bytes.size()) return {};
        const std::span<const std::byte> taken = bytes.first(size);
        bytes = bytes.subspan(std::min<std::uint64_t>((size + 3) & ~std::uint64_t{3}, bytes.size()));
        return taken;
    };
    const auto owner = take(header.n_namesz);
    const auto content = owner ? take(header.n_descsz) : std::nullopt;
    if (!content) return {};
    const std::string_view name = as_text(*owner);
    return Note{header.n_type, name.substr(0, name.find('\0')), *content};
}

std::vector<MarkerArgument> arguments_in(std::string_view text) {
    std::vector<MarkerArgument> arguments;
    while (arguments.size() < arguments_max) {
        const std::size_t begin = text.find_first_not_of(' ');
        if (begin == std::string_view::npos) break;
        text.remove_prefix(begin);
        const std::string_view word = text.substr(0, text.find(' '));
        arguments.push_back(parse_marker_argument(word));
        text.remove_prefix(word.size());
    }
    return arguments;
}

/* Three addresses (of the marker, of .stapsdt.base when the note was written, of the semaphore), three strings. */
std::optional<Marker> marker_in(const Note& note, const Elf64_Shdr* base) {
    std::array<std::uint64_t, 3> addresses;
    if (note.type != marker_note_type || note.owner != marker_note_owner ||
        note.content.size() < sizeof(addresses))
        return {};
    std::memcpy(addresses.data(), note.content.data(), sizeof(addresses));
    std::string_view text = as_text(note.content.subspan(sizeof(addresses)));
    std::array<std::string_view, 3> strings;
    for (std::string_view& each : strings) {
        const std::size_t end = text.find('\0');
        if (end == std::string_view::npos) return {};
        each = text.substr(0, end);
        text.remove_prefix(end + 1);
    }
    constexpr std::size_t name_max = 256;
    for (const std::string_view name : {strings[0], strings[1]})
        if (name.empty() || name.size() > name_max) return {};
    /* What moves code afterwards (prelink) does not mend the notes: .stapsdt.base tells by how much. Some libraries' own headers write
     * no base (0), beside notes of others that do. */
    const std::uint64_t moved = base != nullptr && addresses[1] != 0 ? base->sh_addr - addresses[1] : 0;
    Marker marker;
    marker.provider = strings[0];
    marker.name = strings[1];
    marker.address = addresses[0] + moved;
    marker.semaphore = addresses[2] != 0 ? addresses[2] + moved : 0;
    marker.arguments = arguments_in(strings[2]);
    return marker;
}

Error no_such_marker(const std::vector<Marker>& markers, const std::string& path,
                     const std::string& pattern) {
    if (markers.empty())
        return Error("{} has no USDT markers.", path)
            .hint("They are made by sys/sdt.h (DTRACE_PROBE); `plumb list FILE` shows them.");
    std::vector<std::string> names;
    for (const Marker& marker : markers)
        names.push_back(marker.full_name());
    const Error error("{} has no marker {}.", path, pattern);
    const std::vector<std::string> similar = similar_names(pattern, names);
    if (!similar.empty()) return error.hint("It has {}.", fmt::join(similar, ", "));
    constexpr std::size_t shown_max = 5;
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const std::size_t count = names.size();
    names.resize(std::min(names.size(), shown_max));
    return error.hint("It has {}{}; `plumb list {}` shows them.", fmt::join(names, ", "),
                      count > shown_max ? fmt::format(" and {} more", count - shown_max) : "", path);
}

/* In D, a name has a dash where C has two underscores. */
std::string with_dashes(std::string name) {
    for (std::size_t at; (at = name.find("__")) != std::string::npos;)
        name.replace(at, 2, "-");
    return name;
}

} // namespace

std::vector<Marker> markers_of(const ElfFile& elf) {
    std::vector<Marker> markers;
    const Elf64_Shdr* const base = elf.section(".stapsdt.base");
    std::uint64_t budget = notes_bytes_max; /* of all such sections: they may be the same bytes */
    for (const Elf64_Shdr& section : elf.sections()) {
        if (section.sh_type != SHT_NOTE || elf.section_name(section) != ".note.stapsdt") continue;
        const auto bytes = elf.section_bytes(section, budget);
        if (!bytes) continue;
        budget -= bytes->size();
        std::span<const std::byte> left(*bytes);
        while (const auto note = take_note(left))
            if (auto marker = marker_in(*note, base)) markers.push_back(std::move(*marker));
    }
    std::stable_sort(markers.begin(), markers.end(), [](const Marker& a, const Marker& b) {
        return std::tie(a.provider, a.name, a.address) < std::tie(b.provider, b.name, b.address);
    });
    return markers;
}

bool is_on_nop(const ElfFile& elf, const Marker& marker) {
    std::array<std::uint8_t, instruction_bytes_max> buffer{};
    return elf.machine() != EM_X86_64 || nop_bytes(code_at(elf, marker.address, buffer)) != 0;
}

Result<std::vector<Marker>> choose_markers(const ElfFile& elf, const std::string& path,
                                           const std::string& pattern) {
    const std::vector<Marker> all = markers_of(elf);
    const std::string glob = pattern.find(':') == std::string::npos ? pattern + ":*" : pattern;
    std::vector<Marker> chosen;
    for (const Marker& marker : all)
        if (glob_matches(glob.c_str(), marker.full_name().c_str()) ||
            glob_matches(glob.c_str(), with_dashes(marker.full_name()).c_str()))
            chosen.push_back(marker);
    if (chosen.empty()) return no_such_marker(all, path, pattern);
    if (chosen.size() > places_of_a_pattern_max)
        return Error("{} matches {} markers of {}; more than {} are not probed at once.", pattern,
                     chosen.size(), path, places_of_a_pattern_max)
            .hint("Write a pattern that matches fewer.");
    return chosen;
}

} // namespace plumb
