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
constexpr std::uint64_t event_name_at = 8, event_provider_at = 16, event_class_at = 24, event_level_at = 32;
constexpr std::uint64_t class_fields_at = 8, class_field_count_at = 16;
constexpr std::uint64_t field_name_at = 8, field_type_at = 16, field_flags_at = 24;
constexpr std::uint32_t field_is_not_written = 1;
constexpr std::uint64_t array_encoding_at = 24, sequence_encoding_at = 28;
enum lttng_type : std::uint32_t {
    LTTNG_INTEGER,
    LTTNG_STRING,
    LTTNG_FLOAT,
    LTTNG_DYNAMIC,
    LTTNG_ENUM,
    LTTNG_ARRAY,
    LTTNG_SEQUENCE,
    LTTNG_STRUCT,
    LTTNG_FIXED_BLOB,
    LTTNG_VARIABLE_BLOB
};
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

std::optional<std::uint32_t> lttng_number_at(const ElfFile& elf, std::uint64_t address) {
    std::uint32_t number;
    if (!elf.read_memory(address, &number, sizeof(number))) return {};
    return number;
}

/* What a filter can do with a value of that type, in the probe. */
std::optional<plumb_field_type> field_type_of(const ElfFile& elf, std::uint64_t type) {
    const auto kind = lttng_number_at(elf, type);
    if (!kind) return {};
    switch (*kind) {
    case LTTNG_INTEGER:
        return PLUMB_FIELD_INTEGER;
    case LTTNG_STRING:
        return PLUMB_FIELD_STRING;
    case LTTNG_FLOAT:
        return PLUMB_FIELD_FLOAT;
    case LTTNG_ENUM:
        return PLUMB_FIELD_ENUM;
    case LTTNG_ARRAY:
    case LTTNG_SEQUENCE: {
        const auto encoding =
            lttng_number_at(elf, type + (*kind == LTTNG_ARRAY ? array_encoding_at : sequence_encoding_at));
        if (!encoding) return {};
        return *encoding == 0 ? PLUMB_FIELD_SEQUENCE : PLUMB_FIELD_TEXT;
    }
    case LTTNG_FIXED_BLOB:
    case LTTNG_VARIABLE_BLOB:
        return PLUMB_FIELD_SEQUENCE;
    default:
        return {};
    }
}

/* Nothing, if any of them can not be read: who does not know all can not say that a field is missing. */
std::optional<std::vector<EventField>> fields_behind(const ElfFile& elf, std::uint64_t event,
                                                     std::size_t& looks_left) {
    const auto class_of = elf.pointer_at(event + event_class_at);
    if (!class_of || *class_of == 0) return {};
    std::uint64_t count;
    if (!elf.read_memory(*class_of + class_field_count_at, &count, sizeof(count))) return {};
    const auto fields = elf.pointer_at(*class_of + class_fields_at);
    if (!fields || count > looks_left) return {};
    looks_left -= count;
    std::vector<EventField> found;
    for (std::uint64_t i = 0; i < count; i++) {
        const auto field = elf.pointer_at(*fields + i * sizeof(std::uint64_t));
        if (!field || *field == 0) return {};
        auto name = text_behind(elf, *field + field_name_at, lttng_name_bytes_max);
        const auto type = elf.pointer_at(*field + field_type_at);
        const auto field_type = type && *type != 0 ? field_type_of(elf, *type) : std::nullopt;
        const auto flags = lttng_number_at(elf, *field + field_flags_at);
        if (!name || !field_type || !flags) return {};
        if ((*flags & field_is_not_written) != 0) continue;
        EventField one{};
        one.name = std::move(*name);
        one.type = *field_type;
        found.push_back(std::move(one));
    }
    return found;
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
        if (event_name)
            found.push_back({*name + ":" + *event_name, level_behind(elf, *event),
                             fields_behind(elf, *event, looks_left)});
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
    std::unordered_map<std::string, const LttngLevel*> by_name;
    for (const LttngLevel& level : levels)
        by_name.emplace(level.event, &level);
    for (LttngTracepoint& tracepoint : tracepoints)
        if (const auto level = by_name.find(tracepoint.full_name()); level != by_name.end()) {
            tracepoint.log_level = level->second->log_level;
            tracepoint.fields = level->second->fields;
        }
}

} // namespace plumb
