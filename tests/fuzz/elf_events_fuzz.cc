// Finds the events of files that nobody vouches for, and the tracepoints and log levels that they have for LTTng-UST. Input:
// either the bytes of a file, or patches to a small file that has events (when it begins with 'P'):
//
//   'P', then patches: u16 place, u8 count, count bytes
#include "consumerd/event/elf_events.h"
#include "consumerd/event/elf_lttng.h"
#include "tests/support/elf_header.h"

#include <plumb/runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <span>
#include <vector>

namespace {

/* A shared object with one segment, in which file offsets and addresses are the same. */
class SmallObject {
public:
    SmallObject() : bytes_(8192) {
        event_info();
        lttng_provider();
        relocations();
        section_headers();
    }
    std::vector<std::byte>& bytes() { return bytes_; }

private:
    static constexpr uint64_t strings = 0x400, info = 0x600, fields = 0x700, event = 0x900, section = 0xa00,
                              rela = 0xb00, headers = 0x1000, names = 0x1800, labels = 0xc00, lttng = 0xe00;

    template <typename T>
    void put(uint64_t at, const T& value) {
        std::memcpy(bytes_.data() + at, &value, sizeof(value));
    }
    uint64_t text(const char* string) {
        std::memcpy(bytes_.data() + strings_end_, string, std::strlen(string) + 1);
        const uint64_t at = strings_end_;
        strings_end_ += std::strlen(string) + 1;
        return at;
    }
    void pointer(uint64_t at, uint64_t to) {
        relocations_.push_back({at, ELF64_R_INFO(0, R_X86_64_RELATIVE), static_cast<Elf64_Sxword>(to)});
    }

    void event_info() {
        plumb_event_info constant{};
        constant.field_count = 3;
        constant.version = PLUMB_RUNTIME_VERSION;
        put(info, constant);
        pointer(info + offsetof(plumb_event_info, provider), text("shop"));
        pointer(info + offsetof(plumb_event_info, name), text("order"));
        pointer(info + offsetof(plumb_event_info, source_file), text("shop.c"));
        pointer(info + offsetof(plumb_event_info, format), text("id %d path %s"));
        pointer(info + offsetof(plumb_event_info, fields), fields);
        for (uint64_t i = 0; i < 3; i++) {
            plumb_event_field field{};
            field.type = i == 2 ? PLUMB_FIELD_ENUM : PLUMB_FIELD_INTEGER;
            field.size = 4;
            field.label_count = i == 2 ? 1 : 0;
            put(fields + i * sizeof(field), field);
        }
        pointer(fields + offsetof(plumb_event_field, name), text("count"));
        pointer(fields + 2 * sizeof(plumb_event_field) + offsetof(plumb_event_field, labels), labels);
        pointer(labels + offsetof(plumb_event_label, name), text("new"));
        pointer(event + offsetof(plumb_event, info), info);
        pointer(section, event);
        pointer(section + 8, event);
    }
    /* A tracepoint, a provider that has it, the event and its level. */
    void lttng_provider() {
        constexpr uint64_t tracepoint = lttng + 8, provider = lttng + 0x40, event_pointer = lttng + 0x70,
                           description = lttng + 0x80, level_pointer = lttng + 0xb0, level = lttng + 0xb8;
        constexpr uint32_t struct_size = 40, event_count = 1, major = 3, warning = 4;
        const uint64_t provider_name = text("lttng"), event_name = text("order");
        pointer(lttng, tracepoint);
        pointer(tracepoint + 8, provider_name);
        pointer(tracepoint + 16, event_name);
        put(provider, struct_size);
        pointer(provider + 8, provider_name);
        pointer(provider + 16, event_pointer);
        put(provider + 24, event_count);
        put(provider + 28, major);
        pointer(event_pointer, description);
        pointer(description + 8, event_name);
        pointer(description + 16, provider);
        pointer(description + 32, level_pointer);
        pointer(level_pointer, level);
        put(level, warning);
    }
    void relocations() {
        std::memcpy(bytes_.data() + rela, relocations_.data(), relocations_.size() * sizeof(Elf64_Rela));
    }
    void section_headers() {
        const Elf64_Ehdr header = plumb::test::elf_header(1, headers, 7, 4);
        put(0, header);
        put(header.e_phoff, Elf64_Phdr{PT_LOAD, PF_R, 0, 0, 0, bytes_.size(), bytes_.size(), 4096});
        static constexpr char section_names[] = "\0plumb_events\0.dynamic\0lttng_ust_tracepoints_ptrs";
        std::memcpy(bytes_.data() + names, section_names, sizeof(section_names));
        const auto put_section = [&](uint64_t index, Elf64_Shdr section_header) {
            put(headers + index * sizeof(section_header), section_header);
        };
        put_section(1, {1, SHT_PROGBITS, SHF_ALLOC, section, section, 16, 0, 0, 8, 0});
        put_section(2, {0, SHT_RELA, SHF_ALLOC, rela, rela, relocations_.size() * sizeof(Elf64_Rela), 0, 0, 8,
                        sizeof(Elf64_Rela)});
        put_section(3, {14, SHT_DYNAMIC, SHF_ALLOC, 0, 0xd00, 64, 4, 0, 8, 16});
        put_section(4, {0, SHT_STRTAB, 0, 0, names, sizeof(section_names), 0, 0, 1, 0});
        put_section(5, {23, SHT_PROGBITS, SHF_ALLOC, lttng, lttng, 8, 0, 0, 8, 0});
        put_section(6, {0, SHT_PROGBITS, SHF_ALLOC, lttng + 8, lttng + 8, 0xb8, 0, 0, 8, 0});
    }

    std::vector<std::byte> bytes_;
    std::vector<Elf64_Rela> relocations_;
    uint64_t strings_end_ = strings;
};

std::vector<std::byte> patched(const uint8_t* data, size_t size) {
    static std::vector<std::byte> good = SmallObject().bytes();
    std::vector<std::byte> bytes = good;
    while (size >= 3) {
        uint16_t place;
        std::memcpy(&place, data, sizeof(place));
        const size_t count = std::min<size_t>(data[2], size - 3);
        for (size_t i = 0; i < count; i++)
            bytes[(place + i) % bytes.size()] = static_cast<std::byte>(data[3 + i]);
        data += 3 + count;
        size -= 3 + count;
    }
    return bytes;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const bool is_patch = size > 0 && data[0] == 'P';
    const std::vector<std::byte> bytes =
        is_patch ? patched(data + 1, size - 1)
                 : std::vector<std::byte>(reinterpret_cast<const std::byte*>(data),
                                          reinterpret_cast<const std::byte*>(data) + size);
    const auto found = plumb::elf_events_of_bytes(bytes, "input");
    if (is_patch && size == 1 && (!found || found->events.size() != 1)) abort(); /* the good file is good */
    if (auto elf = plumb::ElfFile::of_bytes(bytes, "input")) {
        auto tracepoints = plumb::lttng_tracepoints_of(*elf);
        const auto levels = plumb::lttng_levels_of(*elf);
        plumb::know_levels(tracepoints, levels);
        const bool is_known = tracepoints.size() == 1 && tracepoints[0].log_level == PLUMB_WARNING;
        if (is_patch && size == 1 && !is_known) abort();
    }
    if (!found) return 0;
    for (const plumb::EventDescription& event : found->events)
        for (const plumb::EventField& field : event.fields)
            if (field.type_name().empty()) abort();
    return 0;
}
