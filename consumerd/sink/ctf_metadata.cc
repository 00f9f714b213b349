#include "consumerd/sink/ctf_metadata.h"

#include "base/ctf_layout.h"
#include "consumerd/clock/clock_calibration.h"

#include <sys/random.h>

#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace plumb {
namespace {

/* Inside quotes. */
std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return result;
}

/* Inside a comment. */
std::string harmless(const std::string& text) {
    std::string result;
    for (const char c : text)
        result += (c >= ' ' && c < 0x7f && c != '*') ? c : '?';
    return result;
}

bool is_identifier_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* What is no identifier in TSDL: its keywords, and the types that the metadata defines. */
bool is_reserved(const std::string& name) {
    static const std::set<std::string_view> words{
        "align",  "callsite", "char",           "clock",    "const",     "double",  "enum",     "env",
        "event",  "float",    "floating_point", "int",      "integer",   "long",    "short",    "signed",
        "stream", "string",   "struct",         "trace",    "typealias", "typedef", "unsigned", "variant",
        "void",   "uint8_t",  "uint16_t",       "uint32_t", "uint64_t"};
    return words.contains(name) || name.starts_with(labels_alias) || name.starts_with(flags_alias);
}

/* As readers show it. */
std::string without_underscore(const std::string& identifier) {
    return identifier.starts_with('_') ? identifier.substr(1) : identifier;
}

/* The identifiers of one struct. An underscore before each name keeps it from being a keyword, and readers take one
 * away: so these have to differ without it too. babeltrace2 also compares a name as it is written with the earlier ones
 * as it shows them, and refuses the whole trace where two are the same: `__x` before `_x`. */
class FieldIdentifiers {
public:
    /* Shown as the name, or with a number behind it if that is taken. */
    std::string add(const std::string& name) {
        std::string plain;
        for (const char c : name)
            plain += is_identifier_character(c) ? c : '_';
        if (take("_" + plain)) return "_" + plain;
        const bool begins_with_letter =
            !plain.empty() && plain[0] != '_' && (plain[0] < '0' || plain[0] > '9');
        if (begins_with_letter && !is_reserved(plain) && take(plain)) return plain;
        for (int i = 2;; i++)
            if (const std::string numbered = fmt::format("_{}_{}", plain, i); take(numbered)) return numbered;
    }

private:
    bool take(const std::string& identifier) {
        const std::string shown = without_underscore(identifier);
        if (shown_.contains(identifier) || shown_.contains(shown)) return false;
        shown_.insert(shown);
        return true;
    }
    std::set<std::string> shown_;
};

std::string integer_type(uint32_t size_bytes, bool is_signed, bool is_hex) {
    return fmt::format("integer {{ size = {}; align = 8; signed = {}; encoding = none; base = {}; }}",
                       size_bytes * 8, is_signed, is_hex ? 16 : 10);
}

/* What is left of it of values that the field can have; nothing, if it names none of them. */
std::optional<EventLabel> fitting(const EventLabel& label, const EventField& field) {
    if (field.size == 8) return label;
    const int64_t half = int64_t{1} << (field.size * 8 - 1);
    const int64_t least = field.is_signed ? -half : 0;
    const int64_t greatest = field.is_signed ? half - 1 : 2 * half - 1;
    EventLabel cut = label;
    if (!field.are_in_order(least, cut.first)) cut.first = least;
    if (!field.are_in_order(cut.last, greatest)) cut.last = greatest;
    if (!field.are_in_order(cut.first, cut.last)) return {};
    return cut;
}

std::string float_type(uint32_t size_bytes) {
    return fmt::format("floating_point {{ exp_dig = {}; mant_dig = {}; align = 8; }}",
                       size_bytes == 4 ? 8 : 11, size_bytes == 4 ? 24 : 53);
}

std::string enum_type(const EventField& field) {
    const std::string container = integer_type(field.size, field.is_signed, field.hex);
    std::string labels;
    std::set<std::tuple<std::string, int64_t, int64_t>> seen;
    const auto value_text = [&](int64_t value) {
        return field.is_signed ? fmt::format("{}", value) : fmt::format("{}", static_cast<uint64_t>(value));
    };
    for (const EventLabel& each : field.labels) {
        const std::optional<EventLabel> label = fitting(each, field);
        if (!label || !seen.emplace(label->name, label->first, label->last).second) continue;
        labels += fmt::format("{}\"{}\" = {}", labels.empty() ? "" : ", ", escaped(label->name),
                              value_text(label->first));
        if (label->is_range()) labels += " ... " + value_text(label->last);
    }
    return labels.empty() ? container : fmt::format("enum : {} {{ {} }}", container, labels);
}

/* The field's declaration, or two: its length before what has one. */
std::string field_lines(const EventField& field, const std::string& identifier,
                        FieldIdentifiers& identifiers) {
    const std::string integer = integer_type(field.size, field.is_signed, field.hex);
    const auto counted = [&](const std::string& element) {
        const std::string length = identifiers.add("_" + field.name + "_length");
        return fmt::format("        {} {};\n        {} {}[ {} ];\n", integer_type(2, false, false), length,
                           element, identifier, length);
    };
    switch (field.type) {
    case PLUMB_FIELD_TEXT:
        return counted("integer { size = 8; align = 8; signed = false; encoding = UTF8; base = 10; }");
    case PLUMB_FIELD_SEQUENCE:
        return counted(field.has_floats ? float_type(field.size) : integer);
    case PLUMB_FIELD_ARRAY:
        return fmt::format("        {} {}[ {} ];\n", integer, identifier, field.array_length);
    case PLUMB_FIELD_STRING:
        return fmt::format("        string {};\n", identifier);
    case PLUMB_FIELD_ENUM:
        return fmt::format("        {} {};\n", enum_type(field), identifier);
    case PLUMB_FIELD_FLOAT:
        return fmt::format("        {} {};\n", float_type(field.size), identifier);
    case PLUMB_FIELD_INTEGER:
        break;
    }
    return fmt::format("        {} {};\n", integer, identifier);
}

/* The labels of an integer that has to stay one. */
std::string label_line(const EventField& field, const std::string& identifier) {
    if (field.type != PLUMB_FIELD_INTEGER || field.labels.empty()) return "";
    return fmt::format("    typealias {} := {}{};\n", enum_type(field),
                       field.has_flags ? flags_alias : labels_alias, without_underscore(identifier));
}

/* Of the context that a session adds to each record; nothing, if it adds none. */
std::string context_lines(const EventDescription& event) {
    FieldIdentifiers identifiers;
    identifiers.add("vtid"); /* which each record has */
    std::string lines;
    for (const EventField& field : event.fields)
        if (field.is_context) lines += field_lines(field, identifiers.add(field.name), identifiers);
    return lines;
}

/* Names come from memory that any traced program may write: what is not in quotes is made an identifier. */
std::string event_block(const EventDescription& event, uint32_t stream_id, uint32_t id,
                        bool has_own_context = false) {
    std::string block;
    if (!event.source_file.empty())
        block += fmt::format("/* {}:{} */\n", harmless(event.source_file), event.source_line);
    FieldIdentifiers identifiers;
    std::string labels, fields;
    for (const EventField& field : event.fields) {
        if (field.is_context) continue;
        const std::string identifier = identifiers.add(field.name);
        labels += label_line(field, identifier);
        fields += field_lines(field, identifier, identifiers);
    }
    std::string context;
    if (has_own_context) context = context_lines(event);
    if (!context.empty()) context = fmt::format("    context := struct {{\n{}    }};\n", context);
    return block +
           fmt::format(
               "event {{\n    name = \"{}\";\n    id = {};\n    stream_id = {};\n    loglevel = {};\n{}{}"
               "    fields := struct {{\n{}    }};\n}};\n\n",
               escaped(event.full_name()), id, stream_id, event.log_level, labels, context, fields);
}

EventField integer_field(std::string name, uint8_t size, bool hex = false) {
    return {std::move(name), PLUMB_FIELD_INTEGER, size, false, hex, 0, {}};
}

EventField string_field(std::string name) {
    return {std::move(name), PLUMB_FIELD_STRING, 1, false, false, 0, {}};
}

/* As ctf_statedump.cc writes them. */
std::string statedump_events() {
    const auto event = [](std::string name, uint32_t id, std::vector<EventField> fields) {
        EventDescription description;
        description.provider = "plumb_statedump";
        description.name = std::move(name);
        description.log_level = PLUMB_DEBUG_LINE;
        description.fields = std::move(fields);
        return event_block(description, ctf_stream_statedump, id);
    };
    return event("process", ctf_statedump_process,
                 {integer_field("pid", 4), integer_field("ppid", 4), integer_field("uid", 4),
                  string_field("name"), string_field("executable")}) +
           event("thread", ctf_statedump_thread,
                 {integer_field("pid", 4), integer_field("tid", 4), string_field("name")}) +
           event("object", ctf_statedump_object,
                 {integer_field("pid", 4), integer_field("base", 8, true), integer_field("size", 8),
                  string_field("build_id"), string_field("path")}) +
           /* As LTTng's contexts are called: vpid and vtid are what the thread calls itself. */
           event("namespace", ctf_statedump_namespace,
                 {integer_field("pid", 4), integer_field("tid", 4), integer_field("vpid", 4),
                  integer_field("vtid", 4), integer_field("pid_ns", 4)});
}

std::string statedump_blocks(const std::vector<EventDescription>& events) {
    std::string text;
    uint32_t id = 0;
    for (const EventDescription& event : events)
        text += event_block(event, ctf_stream_statedump, ++id);
    return text;
}

std::string utc_text(uint64_t realtime_ns) {
    const auto seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
    tm parts{};
    if (gmtime_r(&seconds, &parts) == nullptr) return "";
    char text[64];
    return std::string(text, strftime(text, sizeof(text), "%Y%m%dT%H%M%S+0000", &parts));
}

std::string environment_block(const TraceIdentity& identity, const plumb_clock_page& clock) {
    utsname system{};
    uname(&system);
    std::string block = "env {\n";
    const auto text = [&block](const std::string& name, const std::string& value) {
        block += fmt::format("    {} = \"{}\";\n", name, escaped(value));
    };
    text("hostname", identity.host_name);
    text("domain", identity.domain);
    text("plumb_version", PLUMB_VERSION);
    /* Trace Compass chooses by it how it reads a kernel trace: the events are called as LTTng's. */
    text("tracer_name", identity.is_kernel() ? "lttng-modules" : "plumb");
    block += fmt::format("    tracer_major = {};\n    tracer_minor = {};\n    tracer_patchlevel = 0;\n",
                         identity.is_kernel() ? 2 : 0, identity.is_kernel() ? 13 : 1);
    text("tracer_buffering_scheme", "uid");
    text("trace_name", identity.trace_name);
    text("trace_creation_datetime", utc_text(identity.created_realtime_ns));
    text("sysname", system.sysname);
    text("kernel_release", system.release);
    text("kernel_version", system.version);
    text("machine", system.machine);
    block += fmt::format("    architecture_bit_width = {};\n    {} = {};\n", sizeof(void*) * 8,
                         monotonic_zero_entry, clock.realtime_offset_ns);
    if (identity.is_compact) text(record_layout_entry, record_layout_compact);
    if (identity.has_named_spans) text(named_spans_entry, named_spans_by_packets);
    for (const auto& [name, value] : identity.environment)
        text(name, value);
    return block + "};\n\n";
}

const char* clock_name(uint32_t mode) {
    switch (mode) {
    case PLUMB_CLOCK_BOOTTIME:
        return "boottime";
    case PLUMB_CLOCK_REALTIME:
        return "realtime";
    default:
        return "monotonic"; /* the cycle counter too: it is CLOCK_MONOTONIC in another unit */
    }
}

const char* clock_description(uint32_t mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return "Cycle counter of the processor, converted to CLOCK_MONOTONIC";
    case PLUMB_CLOCK_BOOTTIME:
        return "CLOCK_BOOTTIME";
    case PLUMB_CLOCK_REALTIME:
        return "CLOCK_REALTIME";
    default:
        return "CLOCK_MONOTONIC";
    }
}

std::string clock_block(const TraceIdentity& identity, const plumb_clock_page& clock) {
    const CtfClockOffset offset = ctf_clock_offset(clock);
    return fmt::format("clock {{\n    name = \"{}\";\n    uuid = \"{}\";\n    description = \"{}\";\n"
                       "    freq = {};\n    offset_s = {};\n    offset = {};\n    absolute = TRUE;\n}};\n\n",
                       clock_name(clock.mode), uuid_text(identity.boot_id), clock_description(clock.mode),
                       clock.frequency_hz, offset.seconds, offset.cycles);
}

/* As record_packer.cc writes them. `t` and `id` of `far` stand on no byte boundary of their own, so that they begin where the
 * five bits end. */
std::string compact_header(const std::string& clock) {
    const auto integer = [](unsigned bits, unsigned align, const std::string& map) {
        return fmt::format("integer {{ size = {}; align = {}; signed = false; {}}}", bits, align, map);
    };
    const std::string map = fmt::format("map = clock.{}.value; ", clock);
    const std::string near_time = integer(ctf_compact_time_bits, 1, map);
    return fmt::format(R"(    event.header := struct {{
        enum : integer {{ size = {0}; align = 1; signed = false; }} {{
            near = 0 ... {1}, far = {2}, whole = {3}
        }} id;
        variant <id> {{
            struct {{ {4} timestamp; }} near;
            struct {{ {4} timestamp; {5} id; }} far;
            struct {{ {6} id; {7} timestamp; }} whole;
        }} v;
    }} align(8);
    event.context := struct {{
        integer {{ size = 32; align = 8; signed = false; }} _)",
                       ctf_compact_kind_bits, ctf_compact_far - 1, ctf_compact_far, ctf_compact_whole,
                       near_time, integer(16, 1, ""), integer(16, 8, ""), integer(64, 8, map));
}

/* The record's `length` needs no name here: the thread id's alignment steps over it. So does the event
 * header's over what is between cpu_id and the first record. */
std::string plain_header(const std::string& timestamp) {
    return fmt::format(R"(    event.header := struct {{
        {} timestamp;
        uint16_t id;
    }} align(64);
    event.context := struct {{
        integer {{ size = 32; align = 32; signed = false; }} _)",
                       timestamp);
}

/* If it is the same in all events, as it is but where processes with runtimes of different versions write to one channel. It is a part
 * of the stream then, where LTTng has it: babeltrace2 (2.0.4) gives up on a sequence in an event's own context. */
std::optional<std::string> shared_context(const std::deque<ChannelEvent>& events) {
    std::optional<std::string> shared;
    for (const ChannelEvent& event : events) {
        std::string context = context_lines(event.description);
        if (shared && *shared != context) return {};
        shared = std::move(context);
    }
    return shared.value_or("");
}

/* `header`: of events, up to the name of the thread's number. */
std::string stream_block(uint32_t id, const std::string& timestamp, bool has_cpu, const std::string& header,
                         const char* thread_id, const std::string& context = {}) {
    return fmt::format(R"(stream {{
    id = {};
    packet.context := struct {{
        {} timestamp_begin;
        {} timestamp_end;
        uint64_t content_size;
        uint64_t packet_size;
        uint64_t packet_seq_num;
        uint64_t events_discarded;
{}    }};
{}{};
{}    }};
}};

)",
                       id, timestamp, timestamp, has_cpu ? "        uint32_t cpu_id;\n" : "", header,
                       thread_id, context);
}

} // namespace

std::array<uint8_t, 16> random_uuid(std::array<uint8_t, 16> other) {
    std::array<uint8_t, 16> uuid;
    if (getrandom(uuid.data(), uuid.size(), 0) == static_cast<ssize_t>(uuid.size())) return uuid;
    other[0] ^= 0xff;
    return other;
}

std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
    std::string text;
    for (size_t i = 0; i < uuid.size(); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        fmt::format_to(std::back_inserter(text), "{:02x}", uuid[i]);
    }
    return text;
}

CtfClockOffset ctf_clock_offset(const plumb_clock_page& clock) {
    const __int128 ns_per_second = 1'000'000'000;
    const __int128 frequency = clock.frequency_hz;
    if (frequency == 0) return {0, 0};
    /* Exact at the base, from which the rate's rounding grows in both directions. */
    const __int128 wall_ns = static_cast<__int128>(clock.base_monotonic_ns) + clock.realtime_offset_ns;
    const __int128 origin = (wall_ns * frequency + ns_per_second / 2) / ns_per_second - clock.base_cycles;
    __int128 seconds = origin / frequency;
    __int128 rest = origin % frequency;
    if (rest < 0) {
        rest += frequency;
        seconds -= 1;
    }
    return {static_cast<int64_t>(seconds), static_cast<uint64_t>(rest)};
}

std::string make_ctf_metadata(const TraceIdentity& identity, const plumb_clock_page& clock,
                              const std::deque<ChannelEvent>& events) {
    const std::string timestamp = fmt::format(
        "integer {{ size = 64; align = 8; signed = false; map = clock.{}.value; }}", clock_name(clock.mode));
    std::string text = fmt::format(R"(/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
    major = 1;
    minor = 8;
    uuid = "{}";
    byte_order = le;
    packet.header := struct {{
        uint32_t magic;
        uint8_t uuid[16];
        uint32_t stream_id;
        uint64_t stream_instance_id;
    }};
}};

)",
                                   uuid_text(identity.uuid));
    text += environment_block(identity, clock);
    text += clock_block(identity, clock);
    /* As LTTng calls the context in its two domains. */
    const char* const thread_id = identity.is_kernel() ? "tid" : "vtid";
    const std::string plain = plain_header(timestamp);
    const std::string header = identity.is_compact ? compact_header(clock_name(clock.mode)) : plain;
    const std::optional<std::string> context = shared_context(events);
    text += "/* The rings, one stream each. */\n" +
            stream_block(ctf_stream_records, timestamp, true, header, thread_id, context.value_or(""));
    text += identity.is_kernel()
                ? "/* What was there already. */\n"
                : "/* Which processes and threads wrote, and the objects they had loaded. */\n";
    text += stream_block(ctf_stream_statedump, timestamp, identity.is_kernel(), plain, thread_id);
    text +=
        identity.statedump_events.empty() ? statedump_events() : statedump_blocks(identity.statedump_events);
    for (const ChannelEvent& event : events)
        text += event_block(event.description, ctf_stream_records, event.id, !context);
    return text;
}

} // namespace plumb
