#include "consumerd/event/elf_lttng.h"

#include <plumb/abi/event.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <tuple>
#include <unordered_map>

namespace plumb {

namespace {

/* Of struct lttng_ust_tracepoint, in <lttng/tracepoint-types.h>. */
constexpr std::uint64_t provider_at = 8, name_at = 16, signature_at = 48;
constexpr std::uint64_t lttng_tracepoints_max = 65536;
constexpr std::size_t lttng_name_bytes_max = 256;
constexpr std::size_t lttng_signature_bytes_max = 4096;

/* Of struct lttng_ust_probe_desc and struct lttng_ust_event_desc, in <lttng/ust-events.h>: the same in majors 3 and 4. */
constexpr std::uint64_t provider_name_at = 8, events_at = 16;
constexpr std::uint64_t event_name_at = 8, event_provider_at = 16, event_level_at = 32;
struct ProviderHead {
    std::uint32_t struct_size, padding;
    std::uint64_t name, events; /* in the file, 0 where there is a relocation */
    std::uint32_t event_count, major, minor, padding_behind;
};
static_assert(sizeof(ProviderHead) == 40);
constexpr std::uint32_t provider_bytes_max = 4096;
constexpr std::uint64_t data_bytes_max = 256u << 20;
constexpr std::size_t provider_looks_max = 1u << 17; /* at providers and their events, in a file */
constexpr std::uint8_t usual_level = PLUMB_DEBUG_LINE;

std::optional<std::string> text_behind(const ElfFile& elf, std::uint64_t address, std::size_t bytes_max) {
    const auto pointer = elf.pointer_at(address);
    return pointer && *pointer != 0 ? elf.string_at(*pointer, bytes_max) : std::nullopt;
}

} // namespace

std::vector<LttngTracepoint> lttng_tracepoints_of(const ElfFile& elf) {
    std::vector<LttngTracepoint> found;
    const Elf64_Shdr* const section = elf.section("lttng_ust_tracepoints_ptrs");
    if (section == nullptr) return found;
    const std::uint64_t count = std::min(section->sh_size / sizeof(std::uint64_t), lttng_tracepoints_max);
    for (std::uint64_t i = 0; i < count; i++) {
        const auto tracepoint = elf.pointer_at(section->sh_addr + i * sizeof(std::uint64_t));
        if (!tracepoint || *tracepoint == 0) continue;
        auto provider = text_behind(elf, *tracepoint + provider_at, lttng_name_bytes_max);
        auto name = text_behind(elf, *tracepoint + name_at, lttng_name_bytes_max);
        if (!provider || !name || provider->empty() || name->empty()) continue;
        found.push_back(
            {std::move(*provider), std::move(*name),
             text_behind(elf, *tracepoint + signature_at, lttng_signature_bytes_max).value_or("")});
    }
    const auto key = [](const LttngTracepoint& of) { return std::tie(of.provider, of.name, of.arguments); };
    std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    found.erase(std::unique(found.begin(), found.end(),
                            [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                found.end());
    return found;
}

namespace {

/* The word may be a description of a provider, by what needs no relocation. */
bool may_be_provider(const ProviderHead& head) {
    return head.struct_size >= sizeof(ProviderHead) && head.struct_size <= provider_bytes_max &&
           head.padding == 0 && (head.major == 3 || head.major == 4) && head.event_count != 0 &&
           head.event_count <= lttng_tracepoints_max;
}

std::uint8_t level_behind(const ElfFile& elf, std::uint64_t event) {
    const auto pointer = elf.pointer_at(event + event_level_at);
    const auto level_at = pointer && *pointer != 0 ? elf.pointer_at(*pointer) : std::nullopt;
    std::int32_t level;
    if (!level_at || *level_at == 0 || !elf.read_memory(*level_at, &level, sizeof(level))) return usual_level;
    return level >= PLUMB_EMERG && level <= PLUMB_DEBUG ? static_cast<std::uint8_t>(level) : usual_level;
}

/* Nothing if it is no provider: then not all of its events lead back. */
std::vector<LttngLevel> levels_of_provider(const ElfFile& elf, std::uint64_t address, std::uint32_t count,
                                           std::size_t& looks_left) {
    std::vector<LttngLevel> found;
    const auto name = text_behind(elf, address + provider_name_at, lttng_name_bytes_max);
    const auto events = elf.pointer_at(address + events_at);
    if (!name || name->empty() || !events) return {};
    for (std::uint64_t i = 0; i < count; i++) {
        if (looks_left == 0) return {};
        looks_left--;
        const auto event = elf.pointer_at(*events + i * sizeof(std::uint64_t));
        const auto back = event ? elf.pointer_at(*event + event_provider_at) : std::nullopt;
        if (!back || *back != address) return {};
        const auto event_name = text_behind(elf, *event + event_name_at, lttng_name_bytes_max);
        if (event_name) found.push_back({*name + ":" + *event_name, level_behind(elf, *event)});
    }
    return found;
}

bool may_hold_providers(const Elf64_Shdr& section) {
    return section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_ALLOC) != 0 &&
           (section.sh_flags & (SHF_EXECINSTR | SHF_TLS)) == 0;
}

} // namespace

std::vector<LttngLevel> lttng_levels_of(ElfFile& elf) {
    std::vector<LttngLevel> found;
    if (elf.section("lttng_ust_tracepoints_ptrs") == nullptr && !elf.needs_library("liblttng-ust.so"))
        return found;
    elf.know_relocations();
    std::uint64_t bytes_left = data_bytes_max;
    std::size_t looks_left = provider_looks_max;
    for (const Elf64_Shdr& section : elf.sections()) {
        if (!may_hold_providers(section)) continue;
        const auto bytes = elf.section_bytes(section, bytes_left);
        if (!bytes) continue;
        bytes_left -= bytes->size();
        for (std::uint64_t at = -section.sh_addr % 8; at + sizeof(ProviderHead) <= bytes->size(); at += 8) {
            ProviderHead head;
            std::memcpy(&head, bytes->data() + at, sizeof(head));
            if (!may_be_provider(head) || looks_left == 0) continue;
            looks_left--;
            std::vector<LttngLevel> levels =
                levels_of_provider(elf, section.sh_addr + at, head.event_count, looks_left);
            std::move(levels.begin(), levels.end(), std::back_inserter(found));
        }
    }
    return found;
}

void know_levels(std::vector<LttngTracepoint>& tracepoints, const std::vector<LttngLevel>& levels) {
    std::unordered_map<std::string, std::uint8_t> by_name;
    for (const LttngLevel& level : levels)
        by_name.emplace(level.event, level.log_level);
    for (LttngTracepoint& tracepoint : tracepoints)
        if (const auto level = by_name.find(tracepoint.full_name()); level != by_name.end())
            tracepoint.log_level = level->second;
}

} // namespace plumb
