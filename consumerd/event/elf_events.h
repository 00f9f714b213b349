/*
 * The events in an ELF file, found without running it: an executable (static, PIE or not) or a shared object,
 * stripped or not. The file is not trusted: every offset and length in it is checked, and nonsense is an
 * error or a skipped event with a note, never a crash.
 */
#ifndef PLUMB_CONSUMERD_EVENT_ELF_EVENTS_H
#define PLUMB_CONSUMERD_EVENT_ELF_EVENTS_H

#include "base/file.h"
#include "base/result.h"

#include <plumb/abi/event.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* What the values from `first` to `last` are called, in the order of the field's integers; an unsigned 64-bit value stands by
 * its bits. */
struct EventLabel {
    std::int64_t first;
    std::int64_t last;
    std::string name;

    EventLabel(std::int64_t value, std::string label) : EventLabel(value, value, std::move(label)) {}
    EventLabel(std::int64_t from, std::int64_t to, std::string label)
        : first(from), last(to), name(std::move(label)) {}
    bool is_range() const { return first != last; }
    bool operator==(const EventLabel&) const = default;
};

struct EventField {
    std::string name;
    plumb_field_type type;
    std::uint8_t size; /* bytes of one integer or float */
    bool is_signed;
    bool hex;
    std::uint16_t array_length;
    /* Of an enumeration; of an integer, they are shown by readers that know of them. */
    std::vector<EventLabel> labels;
    bool has_flags = false; /* the labels of an integer are of its bits */
    /* Of the session, not the event's own; these stand before all others. */
    bool is_context = false;
    bool has_floats = false; /* of a sequence: its elements are floating-point numbers */

    /* As in the source: "u64", "x32", "string", "u16[4]", "u32[]", "enum u8 { new = 0, sent = 1 ... 9 }"; of the kernel's
     * events also "flags x32 { IO = 0x40 }". */
    std::string type_name() const;
    /* Whether `first` is not behind `last`, by the field's signedness. */
    bool are_in_order(std::int64_t first, std::int64_t last) const;
    /* The first label that names the value; nullptr: none does. */
    const EventLabel* label_of(std::int64_t value) const;
};

struct EventDescription {
    std::string provider;
    std::string name;
    std::uint8_t log_level;
    std::vector<EventField> fields;
    std::string source_file; /* may be empty */
    std::uint32_t source_line = 0;

    /* "provider:event"; events of the kernel have no provider. */
    std::string full_name() const { return provider.empty() ? name : provider + ":" + name; }
};

/* Decodes a description as the ABI defines it (<plumb/abi/event.h>), from untrusted bytes. */
Result<EventDescription> decode_event_description(std::span<const std::byte> bytes);

/* As it stands in a channel's heap. */
std::vector<std::byte> encode_event_description(const EventDescription& event);

struct ElfEvents {
    std::vector<EventDescription> events;
    bool links_plumb = false;       /* holds a plumb_events section, or needs libplumb */
    std::vector<std::string> notes; /* what could not be read, and why */
};

Result<ElfEvents> elf_events_of_file(const std::string& path);
Result<ElfEvents> elf_events_of_file(FileDescriptor file, const std::string& name);
Result<ElfEvents> elf_events_of_bytes(std::span<const std::byte> bytes, const std::string& name);

} // namespace plumb

#endif
