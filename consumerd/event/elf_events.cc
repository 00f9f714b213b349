/*
 * From section plumb_events to descriptions: each entry of the section is the address of a struct
 * plumb_event, whose `info` is the address of its constant half. What is shown is what the runtime would put
 * into a channel, and the same limits hold.
 */
#include "consumerd/event/elf_events.h"

#include "base/elf_file.h"

#include <plumb/detail/marker_names.h>
#include <plumb/runtime.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace plumb {

namespace {

constexpr std::size_t entries_max = std::size_t{1} << 20;
constexpr std::size_t notes_max = 20;
/* All strings of all events of a file: pointers may all lead to the same long string, or to one without an end. */
constexpr std::size_t strings_bytes_max = std::size_t{64} << 20;

class EventReader {
public:
    EventReader(const ElfFile& elf, ElfEvents& found) : elf_(elf), found_(found) {}

    void read_section(const Elf64_Shdr& section) {
        const std::uint64_t count = section.sh_size / sizeof(std::uint64_t);
        if (count > entries_max) note(fmt::format("Only the first {} events are shown.", entries_max));
        for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, entries_max); i++) {
            const auto event = elf_.pointer_at(section.sh_addr + i * sizeof(std::uint64_t));
            if (!event) {
                note(fmt::format("Entry {} leads out of the file.", i));
                if (++unreadable_ == notes_max) return; /* not a section of ours */
                continue;
            }
            if (*event == 0 || !events_seen_.insert(*event).second) continue;
            const auto info = elf_.pointer_at(*event + offsetof(plumb_event, info));
            if (!info || !infos_seen_.insert(*info).second) continue;
            read_event(i, *info);
            if (strings_bytes_ > strings_bytes_max) {
                note("Its events have too many strings; the others are not shown.");
                return;
            }
        }
    }

private:
    void note(std::string text) {
        if (found_.notes.size() < notes_max) found_.notes.push_back(std::move(text));
    }

    /* The string that the pointer at `address` leads to. */
    std::optional<std::string> string_behind(std::uint64_t address) {
        const auto pointer = elf_.pointer_at(address);
        if (!pointer || *pointer == 0) return {};
        std::optional<std::string> text = elf_.string_at(*pointer, PLUMB_EVENT_MAX_DESCRIPTION_BYTES);
        if (text)
            strings_bytes_ += text->size();
        else if (elf_.file_offset_of(*pointer)) /* it was looked for its end */
            strings_bytes_ += PLUMB_EVENT_MAX_DESCRIPTION_BYTES;
        strings_bytes_ += 64;
        return text;
    }

    void read_event(std::uint64_t index, std::uint64_t address) {
        plumb_event_info info;
        if (!elf_.read_memory(address, &info, sizeof(info)))
            return note(fmt::format("The description of event {} lies outside of the file.", index));
        if (info.version != PLUMB_RUNTIME_VERSION)
            return note(fmt::format("Event {} was compiled against version {} of Plumb's runtime; this plumb "
                                    "understands version {}.",
                                    index, info.version, PLUMB_RUNTIME_VERSION));
        EventDescription event;
        const auto provider = string_behind(address + offsetof(plumb_event_info, provider));
        const auto name = string_behind(address + offsetof(plumb_event_info, name));
        if (!provider || !name || provider->empty() || name->empty())
            return note(fmt::format("Event {} has no name.", index));
        event.provider = *provider;
        event.name = *name;
        event.log_level = info.log_level;
        event.source_file = string_behind(address + offsetof(plumb_event_info, source_file)).value_or("");
        event.source_line = info.source_line;
        if (info.field_count > PLUMB_EVENT_MAX_FIELDS)
            return note(fmt::format("{} has {} fields, more than {}.", event.full_name(), info.field_count,
                                    PLUMB_EVENT_MAX_FIELDS));
        if (!read_fields(event, address, info.field_count))
            return note(fmt::format("The fields of {} can not be read.", event.full_name()));
        add(std::move(event));
    }

    bool read_fields(EventDescription& event, std::uint64_t info, std::uint16_t count) {
        const auto format = string_behind(info + offsetof(plumb_event_info, format));
        const auto fields = elf_.pointer_at(info + offsetof(plumb_event_info, fields));
        if (count != 0 && !fields) return false;
        for (std::uint16_t i = 0; i < count; i++) {
            const std::uint64_t address = *fields + i * sizeof(plumb_event_field);
            plumb_event_field field;
            if (!elf_.read_memory(address, &field, sizeof(field))) return false;
            if (field.type < PLUMB_FIELD_INTEGER || field.type > PLUMB_FIELD_SEQUENCE) return false;
            EventField to{};
            to.type = static_cast<plumb_field_type>(field.type);
            to.size = field.size;
            to.is_signed = (field.flags & PLUMB_FIELD_SIGNED) != 0;
            to.hex = (field.flags & PLUMB_FIELD_HEX) != 0;
            to.has_floats = field.type == PLUMB_FIELD_SEQUENCE && (field.flags & PLUMB_FIELD_FLOATS) != 0;
            to.array_length = field.array_length;
            if (!read_field_name(to, address, format, i) || !read_labels(to, address, field)) return false;
            event.fields.push_back(std::move(to));
        }
        return true;
    }

    bool read_field_name(EventField& field, std::uint64_t address, const std::optional<std::string>& format,
                         std::uint16_t index) {
        if (const auto name = string_behind(address + offsetof(plumb_event_field, name))) {
            field.name = *name;
            return true;
        }
        if (!format) return false;
        char name[64]; /* as long as the runtime makes it */
        plumb_marker_field_name(format->c_str(), index, name, sizeof(name));
        field.name = name;
        return true;
    }

    bool read_labels(EventField& field, std::uint64_t address, const plumb_event_field& from) {
        const std::uint16_t count = from.label_count;
        if (count == 0 || field.type != PLUMB_FIELD_ENUM) return true;
        const bool has_ranges = (from.flags & PLUMB_FIELD_RANGES) != 0;
        if (has_ranges && count % 2 != 0) return false;
        const auto labels = elf_.pointer_at(address + offsetof(plumb_event_field, labels));
        for (std::uint16_t i = 0; labels && i < count; i++) {
            const std::uint64_t label = *labels + i * sizeof(plumb_event_label);
            std::int64_t value;
            if (!elf_.read_memory(label + offsetof(plumb_event_label, value), &value, sizeof(value)))
                return false;
            const auto name = string_behind(label + offsetof(plumb_event_label, name));
            if (!name || strings_bytes_ > strings_bytes_max) return false;
            if (!has_ranges || i % 2 == 0)
                field.labels.emplace_back(value, *name);
            else if (field.labels.back().name != *name ||
                     !field.are_in_order(field.labels.back().first, value))
                return false;
            else
                field.labels.back().last = value;
        }
        return labels.has_value();
    }

    /* Equal events are one event, wherever they were defined. */
    void add(EventDescription event) {
        std::string key = fmt::format("{}\n{}", event.full_name(), event.log_level);
        for (const EventField& field : event.fields)
            key += fmt::format("\n{} {}", field.name, field.type_name());
        if (identities_.insert(std::move(key)).second) found_.events.push_back(std::move(event));
    }

    const ElfFile& elf_;
    ElfEvents& found_;
    std::set<std::uint64_t> events_seen_;
    std::set<std::uint64_t> infos_seen_;
    std::set<std::string> identities_;
    std::size_t strings_bytes_ = 0;
    std::size_t unreadable_ = 0;
};

ElfEvents read_events(const ElfFile& elf) {
    ElfEvents found;
    found.notes = elf.notes();
    const Elf64_Shdr* section = elf.section("plumb_events");
    found.links_plumb = section != nullptr || elf.needs_library("libplumb.so");
    if (section != nullptr) EventReader(elf, found).read_section(*section);
    std::stable_sort(found.events.begin(), found.events.end(),
                     [](const EventDescription& a, const EventDescription& b) {
                         return std::tie(a.provider, a.name) < std::tie(b.provider, b.name);
                     });
    return found;
}

} // namespace

Result<ElfEvents> elf_events_of_file(const std::string& path) {
    const Result<ElfFile> elf = ElfFile::open(path);
    if (!elf) return elf.error();
    return read_events(*elf);
}

Result<ElfEvents> elf_events_of_file(FileDescriptor file, const std::string& name) {
    const Result<ElfFile> elf = ElfFile::of_file(std::move(file), name);
    if (!elf) return elf.error();
    return read_events(*elf);
}

Result<ElfEvents> elf_events_of_bytes(std::span<const std::byte> bytes, const std::string& name) {
    const Result<ElfFile> elf = ElfFile::of_bytes(bytes, name);
    if (!elf) return elf.error();
    return read_events(*elf);
}

} // namespace plumb
