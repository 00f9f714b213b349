/*
 * The blocks of TSDL: trace, env, clock, stream, event. What a block may hold beyond the entries known here
 * is read over, as later versions of a writer may say more.
 */
#include "base/ctf_layout.h"
#include "trace/ctf/tsdl_parser.h"

#include <limits>
#include <set>

namespace plumb::tsdl {
namespace {

/* "7e121069-a126-4300-bf49-0e1982a6f7d3" */
std::optional<std::array<uint8_t, 16>> parse_uuid(std::string_view text) {
    std::array<uint8_t, 16> uuid{};
    std::size_t digits = 0;
    for (const char c : text) {
        if (c == '-') continue;
        unsigned digit = 0;
        if (c >= '0' && c <= '9')
            digit = static_cast<unsigned>(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = static_cast<unsigned>(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = static_cast<unsigned>(c - 'A') + 10;
        else
            return std::nullopt;
        if (digits == 32) return std::nullopt;
        uuid[digits / 2] = static_cast<uint8_t>(uuid[digits / 2] << 4 | digit);
        ++digits;
    }
    if (digits != 32) return std::nullopt;
    return uuid;
}

} // namespace

const Clock* Metadata::find_clock(std::string_view name) const {
    for (const Clock& clock : clocks)
        if (clock.name == name) return &clock;
    return nullptr;
}

const StreamClass* Metadata::find_stream(uint64_t id) const {
    for (const StreamClass& stream : streams)
        if (stream.id == id) return &stream;
    return nullptr;
}

std::string Metadata::environment_text(std::string_view name) const {
    for (const auto& [key, entry] : environment) {
        if (key != name) continue;
        if (const std::string* text = std::get_if<std::string>(&entry)) return *text;
        return std::to_string(std::get<int64_t>(entry));
    }
    return {};
}

std::optional<int64_t> Metadata::environment_number(std::string_view name) const {
    for (const auto& [key, entry] : environment)
        if (const int64_t* number = std::get_if<int64_t>(&entry); key == name && number != nullptr)
            return *number;
    return {};
}

Result<Metadata> parse(std::string_view text) {
    return Parser(text).run();
}

Status Parser::advance() {
    Result<Token> next = lexer_.next();
    if (!next) return next.error();
    token_ = std::move(*next);
    return ok();
}

Error Parser::unexpected(std::string_view wanted) const {
    return error_at(token_.line, fmt::format("{} stands where {} should be", token_.shown(), wanted));
}

Status Parser::expect(std::string_view punctuation) {
    if (!token_.is(punctuation)) return unexpected(fmt::format("`{}`", punctuation));
    return advance();
}

Result<std::string> Parser::dotted_name() {
    std::string name;
    for (;;) {
        if (token_.kind != TokenKind::identifier) return unexpected("a name");
        name += token_.text;
        if (Status moved = advance(); !moved) return moved.error();
        if (!token_.is(".")) return name;
        name += '.';
        if (Status moved = advance(); !moved) return moved.error();
    }
}

Result<Value> Parser::value() {
    Value value;
    value.line = token_.line;
    if (token_.is("-") || token_.is("+")) {
        value.negative = token_.is("-");
        if (Status moved = advance(); !moved) return moved.error();
        if (token_.kind != TokenKind::number) return unexpected("a number");
    }
    switch (token_.kind) {
    case TokenKind::number:
        value.number = token_.number;
        break;
    case TokenKind::string:
        value.kind = Value::Kind::string;
        value.text = token_.text;
        break;
    case TokenKind::identifier: {
        value.kind = Value::Kind::word;
        Result<std::string> name = dotted_name();
        if (!name) return name.error();
        value.text = std::move(*name);
        return value;
    }
    default:
        return unexpected("a value");
    }
    if (Status moved = advance(); !moved) return moved.error();
    return value;
}

Result<Value> Parser::assigned_value() {
    if (Status assigned = expect("="); !assigned) return assigned.error();
    return value();
}

Result<TypePtr> Parser::assigned_type() {
    if (Status assigned = expect(":="); !assigned) return assigned.error();
    return type_specifier();
}

Result<uint64_t> Parser::number_of(const Value& value, uint64_t max) const {
    if (value.kind != Value::Kind::number) return error_at(value.line, "a number is needed here");
    if ((value.negative && value.number != 0) || value.number > max)
        return error_at(value.line, fmt::format("the number is not between 0 and {}", max));
    return value.number;
}

Result<int64_t> Parser::signed_number_of(const Value& value) const {
    if (value.kind != Value::Kind::number) return error_at(value.line, "a number is needed here");
    constexpr uint64_t most = std::numeric_limits<int64_t>::max();
    if (value.number > most + (value.negative ? 1 : 0))
        return error_at(value.line, "the number needs more than 64 bits with a sign");
    return static_cast<int64_t>(value.negative ? 0 - value.number : value.number);
}

Status Parser::finish() {
    if (!trace_seen_) return Error("The metadata has no trace block, so the byte order is not known.");
    std::set<std::pair<uint64_t, uint64_t>> events;
    for (const EventClass& event : metadata_.events)
        if (!events.emplace(event.stream_id, event.id).second)
            return Error("The metadata describes two events with id {} in stream {}.", event.id,
                         event.stream_id);
    /* A trace with one kind of stream need not describe it. */
    if (metadata_.streams.empty()) metadata_.streams.emplace_back();
    std::set<uint64_t> streams;
    for (const StreamClass& stream : metadata_.streams)
        if (!streams.insert(stream.id).second)
            return Error("The metadata describes stream {} twice.", stream.id);
    return ok();
}

Result<Metadata> Parser::run() {
    if (Status moved = advance(); !moved) return moved.error();
    while (token_.kind != TokenKind::end)
        if (Status parsed = top_level(); !parsed) return parsed.error();
    if (Status whole = finish(); !whole) return whole.error();
    return std::move(metadata_);
}

Status Parser::top_level() {
    if (token_.is(";")) return advance();
    bool was_type = false;
    if (Status defined = type_definition(was_type); !defined || was_type) return defined;
    if (token_.kind != TokenKind::identifier) return unexpected("a block");
    const std::string name = token_.text;
    if (Status moved = advance(); !moved) return moved;
    if (name == "trace") return trace_block();
    if (name == "env") return environment_block();
    if (name == "clock") return clock_block();
    if (name == "stream") return stream_block();
    if (name == "event") return event_block();
    return unknown_block();
}

Status Parser::trace_block() {
    bool order_seen = false;
    const uint32_t line = token_.line;
    Status parsed = block([&](const std::string& name) -> Status {
        if (token_.is(":=")) {
            Result<TypePtr> type = assigned_type();
            if (!type) return type.error();
            if (name == "packet.header") metadata_.packet_header = *type;
            return ok();
        }
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (name == "major" || name == "minor") {
            Result<uint64_t> number = number_of(*given, 255);
            if (!number) return number.error();
            (name == "major" ? metadata_.major : metadata_.minor) = *number;
        } else if (name == "uuid") {
            metadata_.uuid = parse_uuid(given->text);
            if (!metadata_.uuid) return error_at(given->line, "this is not a UUID");
        } else if (name == "byte_order") {
            Result<ByteOrder> order = byte_order_of(*given);
            if (!order) return order.error();
            if (*order == ByteOrder::native)
                return error_at(given->line, "the trace itself needs a byte order, `le` or `be`");
            metadata_.big_endian = *order == ByteOrder::big;
            order_seen = true;
        }
        return ok();
    });
    if (!parsed) return parsed;
    if (trace_seen_) return error_at(line, "there is a second trace block");
    if (!order_seen) return error_at(line, "the trace block has no byte_order");
    if (metadata_.major != 1)
        return error_at(line, fmt::format("this is version {}.{} of the Common Trace Format; version 1.8 is "
                                          "understood",
                                          metadata_.major, metadata_.minor));
    trace_seen_ = true;
    return ok();
}

Status Parser::environment_block() {
    return block([&](const std::string& name) -> Status {
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (given->kind == Value::Kind::number) {
            Result<int64_t> number = signed_number_of(*given);
            if (!number) return number.error();
            metadata_.environment.emplace_back(name, *number);
        } else {
            metadata_.environment.emplace_back(name, given->text);
        }
        return ok();
    });
}

Status Parser::clock_block() {
    Clock clock;
    const uint32_t line = token_.line;
    Status parsed = block([&](const std::string& name) -> Status {
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (name == "name" || name == "description") {
            (name == "name" ? clock.name : clock.description) = given->text;
        } else if (name == "freq") {
            Result<uint64_t> frequency = number_of(*given, std::numeric_limits<uint64_t>::max());
            if (!frequency) return frequency.error();
            if (*frequency == 0) return error_at(given->line, "a clock needs a frequency above 0");
            clock.frequency_hz = *frequency;
        } else if (name == "offset" || name == "offset_s") {
            Result<int64_t> offset = signed_number_of(*given);
            if (!offset) return offset.error();
            (name == "offset" ? clock.offset_cycles : clock.offset_s) = *offset;
        } else if (name == "absolute") {
            Result<bool> flag = flag_of(*given);
            if (!flag) return flag.error();
            clock.absolute = *flag;
        }
        return ok();
    });
    if (!parsed) return parsed;
    if (clock.name.empty()) return error_at(line, "the clock has no name");
    if (metadata_.find_clock(clock.name) != nullptr)
        return error_at(line, fmt::format("there is a second clock {:.40}", clock.name));
    metadata_.clocks.push_back(std::move(clock));
    return ok();
}

Status Parser::stream_block() {
    StreamClass stream;
    Status parsed = block([&](const std::string& name) -> Status {
        if (token_.is(":=")) {
            Result<TypePtr> type = assigned_type();
            if (!type) return type.error();
            if (name == "packet.context") stream.packet_context = *type;
            if (name == "event.header") stream.event_header = *type;
            if (name == "event.context") stream.event_context = *type;
            return ok();
        }
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (name != "id") return ok();
        Result<uint64_t> id = number_of(*given, std::numeric_limits<uint64_t>::max());
        if (!id) return id.error();
        stream.id = *id;
        return ok();
    });
    if (!parsed) return parsed;
    metadata_.streams.push_back(std::move(stream));
    return ok();
}

/* Where Plumb wrote labels of integers into the description of an event, these become enumerations. */
Result<TypePtr> Parser::with_labels(const TypePtr& fields) {
    if (Status copied = may_copy(*fields); !copied) return copied.error();
    Type changed = *fields;
    bool any = false;
    for (Field& field : changed.fields) {
        const std::string_view name =
            std::string_view(field.name).substr(field.name.starts_with('_') ? 1 : 0);
        TypePtr labels = find_type(std::string(labels_alias) + std::string(name));
        const bool has_flags = !labels;
        if (has_flags) labels = find_type(std::string(flags_alias) + std::string(name));
        if (!labels || labels->kind != Kind::enumeration || field.type->kind != Kind::integer) continue;
        const Type& integer = *labels->element;
        if (integer.size_bits != field.type->size_bits || integer.is_signed != field.type->is_signed ||
            labels->alignment_bits != field.type->alignment_bits)
            continue;
        if (has_flags) {
            Type flags = *labels;
            flags.has_flags = true;
            labels = std::make_shared<Type>(std::move(flags));
        }
        field.type = labels;
        any = true;
    }
    if (!any) return fields;
    return TypePtr(std::make_shared<Type>(std::move(changed)));
}

Status Parser::event_block() {
    EventClass event;
    const uint32_t line = token_.line;
    Status parsed = block([&](const std::string& name) -> Status {
        if (token_.is(":=")) {
            Result<TypePtr> type = assigned_type();
            if (!type) return type.error();
            if (name == "context") event.context = *type;
            if (name != "fields") return ok();
            Result<TypePtr> fields = with_labels(*type);
            if (!fields) return fields.error();
            event.fields = *fields;
            return ok();
        }
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (name == "name") {
            event.name = given->text;
        } else if (name == "id" || name == "stream_id") {
            Result<uint64_t> id = number_of(*given, std::numeric_limits<uint64_t>::max());
            if (!id) return id.error();
            (name == "id" ? event.id : event.stream_id) = *id;
        } else if (name == "loglevel") {
            Result<int64_t> level = signed_number_of(*given);
            if (!level) return level.error();
            event.log_level = *level;
        }
        return ok();
    });
    if (!parsed) return parsed;
    if (event.name.empty()) return error_at(line, "the event has no name");
    metadata_.events.push_back(std::move(event));
    return ok();
}

Status Parser::unknown_block() {
    if (!token_.is("{")) return unexpected("`{`");
    std::size_t open = 0;
    do {
        if (token_.kind == TokenKind::end) return unexpected("`}`");
        if (token_.is("{")) ++open;
        if (token_.is("}")) --open;
        if (Status moved = advance(); !moved) return moved;
    } while (open > 0);
    return ok();
}

} // namespace plumb::tsdl
