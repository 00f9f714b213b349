/*
 * Event descriptions: from the bytes of the ABI, which nobody vouches for, and to them; and field types as text.
 *
 * The strings of a description do not overlap, so together they are never longer than it is. That is checked:
 * otherwise 64 KiB of labels that all name one long string would decode to hundreds of megabytes.
 */
#include "consumerd/event/elf_events.h"

#include <plumb/abi/context.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace plumb {

namespace {

/* Reads structs and strings out of untrusted bytes. */
class Bytes {
public:
    explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    std::optional<T> at(std::uint64_t offset) const {
        if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return {};
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof(T));
        return value;
    }
    std::optional<std::string> string_at(std::uint64_t offset) {
        if (offset >= bytes_.size()) return {};
        const auto* start = reinterpret_cast<const char*>(bytes_.data()) + offset;
        const void* end = std::memchr(start, 0, bytes_.size() - offset);
        if (end == nullptr) return {};
        std::string text(start, static_cast<const char*>(end));
        strings_bytes_ += text.size() + 1;
        if (strings_bytes_ > bytes_.size()) return {};
        return text;
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t strings_bytes_ = 0; /* handed out so far */
};

Error damaged(const char* what) {
    return Error("The description of an event is damaged: {}.", what);
}

Status read_labels(Bytes& bytes, const plumb_event_header& header, const plumb_field& field, EventField& to) {
    const std::uint64_t labels = sizeof(plumb_event_header) + header.field_count * sizeof(plumb_field);
    if (field.label_first > header.label_count || field.label_count > header.label_count - field.label_first)
        return damaged("labels out of range");
    const bool has_ranges = (field.flags & PLUMB_FIELD_RANGES) != 0;
    if (has_ranges && field.label_count % 2 != 0) return damaged("a range without an end");
    for (std::uint32_t i = 0; i < field.label_count; i++) {
        const auto label = bytes.at<plumb_label>(labels + (field.label_first + i) * sizeof(plumb_label));
        if (!label) return damaged("labels out of range");
        const auto name = bytes.string_at(label->name_offset);
        if (!name) return damaged("a label without a name");
        if (!has_ranges || i % 2 == 0) {
            to.labels.emplace_back(label->value, *name);
            continue;
        }
        EventLabel& range = to.labels.back();
        if (range.name != *name) return damaged("a range of two names");
        if (!to.are_in_order(range.first, label->value)) return damaged("a range that ends before it begins");
        range.last = label->value;
    }
    return ok();
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), from, from + sizeof(value));
}

std::string label_text(const EventField& field, const EventLabel& label) {
    const auto value_text = [&](std::int64_t value) {
        return field.is_signed ? fmt::format("{}", value)
                               : fmt::format("{}", static_cast<std::uint64_t>(value));
    };
    if (!label.is_range()) return fmt::format("{} = {}", label.name, value_text(label.first));
    return fmt::format("{} = {} ... {}", label.name, value_text(label.first), value_text(label.last));
}

bool has_ranges(const EventField& field) {
    return std::any_of(field.labels.begin(), field.labels.end(),
                       [](const EventLabel& each) { return each.is_range(); });
}

/* In the description. */
size_t label_count_of(const EventField& field) {
    return field.labels.size() * (has_ranges(field) ? 2 : 1);
}

std::string element_type_name(const EventField& field) {
    if (field.has_floats) return fmt::format("f{}", field.size * 8);
    return fmt::format("{}{}", field.hex ? "x" : field.is_signed ? "i" : "u", field.size * 8);
}

} // namespace

std::string EventField::type_name() const {
    switch (type) {
    case PLUMB_FIELD_FLOAT:
        return fmt::format("f{}", size * 8);
    case PLUMB_FIELD_STRING:
        return "string";
    case PLUMB_FIELD_TEXT:
        return "text";
    case PLUMB_FIELD_ARRAY:
        return fmt::format("{}[{}]", element_type_name(*this), array_length);
    case PLUMB_FIELD_SEQUENCE:
        return element_type_name(*this) + "[]";
    case PLUMB_FIELD_ENUM: {
        std::vector<std::string> shown;
        for (const EventLabel& label : labels)
            shown.push_back(label_text(*this, label));
        return fmt::format("enum {} {{ {} }}", element_type_name(*this), fmt::join(shown, ", "));
    }
    case PLUMB_FIELD_INTEGER:
        break;
    }
    if (!has_flags) return element_type_name(*this);
    std::vector<std::string> shown;
    for (const EventLabel& bits : labels)
        shown.push_back(
            fmt::format("{} = {:#x}", bits.name,
                        static_cast<std::uint64_t>(bits.first) << (64 - size * 8) >> (64 - size * 8)));
    return fmt::format("flags {} {{ {} }}", element_type_name(*this), fmt::join(shown, ", "));
}

bool EventField::are_in_order(std::int64_t first, std::int64_t last) const {
    return is_signed ? first <= last : static_cast<std::uint64_t>(first) <= static_cast<std::uint64_t>(last);
}

const EventLabel* EventField::label_of(std::int64_t value) const {
    for (const EventLabel& label : labels)
        if (are_in_order(label.first, value) && are_in_order(value, label.last)) return &label;
    return nullptr;
}

Result<EventDescription> decode_event_description(std::span<const std::byte> raw) {
    const auto header = Bytes(raw).at<plumb_event_header>(0);
    if (!header || header->total_bytes > raw.size()) return damaged("it is too short");
    if (header->total_bytes > PLUMB_EVENT_MAX_DESCRIPTION_BYTES) return damaged("it is too long");
    Bytes bytes(raw.first(header->total_bytes));
    if (header->field_count > PLUMB_CONTEXT_MAX_FIELDS + PLUMB_EVENT_MAX_FIELDS)
        return damaged("too many fields");
    const auto provider = bytes.string_at(header->provider_offset);
    const auto name = bytes.string_at(header->name_offset);
    if (!provider || !name || provider->empty() || name->empty()) return damaged("it has no name");
    EventDescription description;
    description.provider = *provider;
    description.name = *name;
    /* Readers know no others. */
    description.log_level =
        std::min(header->log_level, static_cast<decltype(header->log_level)>(PLUMB_DEBUG));
    std::uint32_t own_fields = 0;
    for (std::uint32_t i = 0; i < header->field_count; i++) {
        const auto field = bytes.at<plumb_field>(sizeof(plumb_event_header) + i * sizeof(plumb_field));
        if (!field) return damaged("fields out of range");
        const auto field_name = bytes.string_at(field->name_offset);
        if (!field_name || field_name->empty()) return damaged("a field without a name");
        EventField to;
        to.name = *field_name;
        /* Before the cast: an enum that holds another number is undefined behaviour. */
        if (field->type < PLUMB_FIELD_INTEGER || field->type > PLUMB_FIELD_SEQUENCE)
            return damaged("a field of no known type");
        to.type = static_cast<plumb_field_type>(field->type);
        to.size = field->size;
        to.is_signed = (field->flags & PLUMB_FIELD_SIGNED) != 0;
        to.hex = (field->flags & PLUMB_FIELD_HEX) != 0;
        to.has_floats = field->type == PLUMB_FIELD_SEQUENCE && (field->flags & PLUMB_FIELD_FLOATS) != 0;
        to.is_context = (field->flags & PLUMB_FIELD_CONTEXT) != 0;
        if (to.is_context && !description.fields.empty() && !description.fields.back().is_context)
            return damaged("context behind the event's own fields");
        to.array_length = field->array_length;
        if (!to.is_context && ++own_fields > PLUMB_EVENT_MAX_FIELDS) return damaged("too many fields");
        const Status labels = read_labels(bytes, *header, *field, to);
        if (!labels) return labels.error();
        description.fields.push_back(std::move(to));
    }
    if (header->source_offset != 0) {
        description.source_file = bytes.string_at(header->source_offset).value_or("");
        description.source_line = header->source_line;
    }
    return description;
}

std::vector<std::byte> encode_event_description(const EventDescription& event) {
    size_t label_count = 0;
    for (const EventField& each : event.fields)
        label_count += label_count_of(each);
    const size_t strings_offset = sizeof(plumb_event_header) + event.fields.size() * sizeof(plumb_field) +
                                  label_count * sizeof(plumb_label);
    std::string strings;
    const auto place = [&](const std::string& text) {
        const size_t offset = strings_offset + strings.size();
        strings += text;
        strings += '\0';
        return static_cast<uint32_t>(offset);
    };
    plumb_event_header header{};
    header.provider_offset = place(event.provider);
    header.name_offset = place(event.name);
    header.field_count = static_cast<uint16_t>(event.fields.size());
    header.label_count = static_cast<uint16_t>(label_count);
    header.log_level = event.log_level;
    std::vector<std::byte> fields, labels;
    uint32_t label_first = 0;
    for (const EventField& each : event.fields) {
        plumb_field out{};
        out.type = static_cast<uint8_t>(each.type);
        out.size = each.size;
        out.flags = static_cast<uint8_t>(
            (each.is_signed ? PLUMB_FIELD_SIGNED : 0u) | (each.hex ? PLUMB_FIELD_HEX : 0u) |
            (each.has_floats ? PLUMB_FIELD_FLOATS : 0u) | (each.is_context ? PLUMB_FIELD_CONTEXT : 0u) |
            (has_ranges(each) ? PLUMB_FIELD_RANGES : 0u));
        out.name_offset = place(each.name);
        out.array_length = each.array_length;
        out.label_count = static_cast<uint16_t>(label_count_of(each));
        out.label_first = label_first;
        label_first += out.label_count;
        append(fields, out);
        for (const EventLabel& label : each.labels) {
            append(labels, plumb_label{label.first, place(label.name), 0});
            if (has_ranges(each)) append(labels, plumb_label{label.last, place(label.name), 0});
        }
    }
    header.identity_end = static_cast<uint32_t>(strings_offset + strings.size());
    if (!event.source_file.empty()) header.source_offset = place(event.source_file);
    header.source_line = event.source_line;
    header.total_bytes = static_cast<uint32_t>((strings_offset + strings.size() + 7) / 8 * 8);

    std::vector<std::byte> result;
    append(result, header);
    result.insert(result.end(), fields.begin(), fields.end());
    result.insert(result.end(), labels.begin(), labels.end());
    const auto* text = reinterpret_cast<const std::byte*>(strings.data());
    result.insert(result.end(), text, text + strings.size());
    result.resize(header.total_bytes);
    return result;
}

} // namespace plumb
