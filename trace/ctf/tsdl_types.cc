/* The types of TSDL: what stands before a field's name, and the definitions that give types a name. */
#include "trace/ctf/tsdl_bounds.h"
#include "trace/ctf/tsdl_parser.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace plumb::tsdl {
namespace {

constexpr uint32_t max_alignment_bits = 4096;
constexpr std::size_t max_copied_fields = std::size_t{1} << 19;

bool starts_type(const Token& token) {
    return token.is_word("integer") || token.is_word("floating_point") || token.is_word("string") ||
           token.is_word("enum") || token.is_word("struct") || token.is_word("variant");
}

} // namespace

Result<bool> Parser::flag_of(const Value& value) const {
    if (value.kind == Value::Kind::number && value.number <= 1 && !value.negative) return value.number == 1;
    if (value.text == "true" || value.text == "TRUE") return true;
    if (value.text == "false" || value.text == "FALSE") return false;
    return error_at(value.line, "true or false is needed here");
}

Result<ByteOrder> Parser::byte_order_of(const Value& value) const {
    if (value.text == "le") return ByteOrder::little;
    if (value.text == "be" || value.text == "network") return ByteOrder::big;
    if (value.text == "native") return ByteOrder::native;
    return error_at(value.line, "a byte order is `le`, `be`, `network` or `native`");
}

Result<uint32_t> Parser::alignment_of(const Value& value) const {
    Result<uint64_t> bits = number_of(value, max_alignment_bits);
    if (!bits) return bits.error();
    if (!std::has_single_bit(*bits)) return error_at(value.line, "an alignment is a power of two");
    return static_cast<uint32_t>(*bits);
}

TypePtr Parser::find_type(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
        if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return nullptr;
}

Status Parser::may_copy(const Type& type) {
    copied_fields_ += type.fields.size();
    if (copied_fields_ <= max_copied_fields) return ok();
    return error_at(token_.line, "its types are used too often, and have too many fields");
}

Status Parser::define_type(const std::string& name, TypePtr type) {
    if (!scopes_.back().emplace(name, std::move(type)).second)
        return error_at(token_.line, fmt::format("the type `{:.60}` is defined a second time", name));
    return ok();
}

Status Parser::type_definition(bool& was_one) {
    was_one = true;
    if (token_.is_word("typealias")) return type_alias();
    if (token_.is_word("typedef")) return type_definition_c();
    if (token_.is_word("struct") || token_.is_word("variant") || token_.is_word("enum")) {
        Result<TypePtr> type = type_specifier();
        if (!type) return type.error();
        return expect(";");
    }
    was_one = false;
    return ok();
}

/* typealias TYPE := words; */
Status Parser::type_alias() {
    if (Status moved = advance(); !moved) return moved;
    Result<TypePtr> type = type_specifier();
    if (!type) return type.error();
    if (Status assigned = expect(":="); !assigned) return assigned;
    std::string name;
    while (token_.kind == TokenKind::identifier || token_.is("*")) {
        if (!name.empty()) name += ' ';
        name += token_.text;
        if (Status moved = advance(); !moved) return moved;
    }
    if (name.empty()) return unexpected("the name of a type");
    if (Status defined = define_type(name, *type); !defined) return defined;
    return expect(";");
}

/* typedef TYPE name[...]; read as a field that is not there */
Status Parser::type_definition_c() {
    if (Status moved = advance(); !moved) return moved;
    Type holder;
    scopes_.emplace_back();
    if (Status read = members(holder); !read) return read;
    scopes_.pop_back();
    for (const Field& field : holder.fields)
        if (Status defined = define_type(field.name, field.type); !defined) return defined;
    return ok();
}

Result<TypePtr> Parser::type_specifier() {
    if (depth_ >= max_type_depth)
        return error_at(token_.line, fmt::format("types are nested deeper than {}", max_type_depth));
    ++depth_;
    Result<TypePtr> type = type_specifier_unbounded();
    --depth_;
    return type;
}

Result<TypePtr> Parser::type_specifier_unbounded() {
    if (!starts_type(token_)) return named_type();
    const std::string word = token_.text;
    if (Status moved = advance(); !moved) return moved.error();
    if (word == "integer") return integer_type();
    if (word == "floating_point") return floating_type();
    if (word == "string") return string_type();
    if (word == "enum") return enumeration_type();
    if (word == "struct") return structure_type();
    return variant_type();
}

/* All words up to the next punctuation are the name: `unsigned long`. */
Result<TypePtr> Parser::named_type() {
    std::string name;
    const uint32_t line = token_.line;
    while (token_.kind == TokenKind::identifier) {
        if (token_.text != "const") name += (name.empty() ? "" : " ") + token_.text;
        if (Status moved = advance(); !moved) return moved.error();
    }
    if (name.empty()) return unexpected("a type");
    TypePtr type = find_type(name);
    if (!type) return error_at(line, fmt::format("there is no type `{:.60}`", name));
    return type;
}

/* `struct point` without a body: the name that an earlier one has. */
Result<TypePtr> Parser::known_type(const std::string& name) const {
    if (name.empty()) return unexpected("a name or `{`");
    TypePtr known = find_type(name);
    if (!known) return error_at(token_.line, fmt::format("there is no type `{:.60}`", name));
    return known;
}

Status Parser::integer_attribute(Type& type, const std::string& name, const Value& given) {
    if (name == "size") {
        Result<uint64_t> size = number_of(given, 64);
        if (!size) return size.error();
        if (*size == 0) return error_at(given.line, "an integer has at least one bit");
        type.size_bits = static_cast<uint32_t>(*size);
    } else if (name == "signed") {
        Result<bool> flag = flag_of(given);
        if (!flag) return flag.error();
        type.is_signed = *flag;
    } else if (name == "byte_order") {
        Result<ByteOrder> order = byte_order_of(given);
        if (!order) return order.error();
        type.byte_order = *order;
    } else if (name == "base") {
        if (given.text == "hex" || given.text == "hexadecimal" || given.text == "x" || given.text == "X" ||
            given.text == "p")
            type.base = 16;
        else if (given.text == "octal" || given.text == "oct" || given.text == "o")
            type.base = 8;
        else if (given.text == "binary" || given.text == "b")
            type.base = 2;
        else if (given.kind == Value::Kind::number)
            type.base = given.number == 16 || given.number == 8 || given.number == 2
                            ? static_cast<uint8_t>(given.number)
                            : uint8_t{10};
    } else if (name == "encoding") {
        type.is_text =
            given.text == "UTF8" || given.text == "utf8" || given.text == "ASCII" || given.text == "ascii";
    } else if (name == "map") {
        constexpr std::string_view prefix = "clock.", suffix = ".value";
        std::string_view clock = given.text;
        if (!clock.starts_with(prefix))
            return error_at(given.line, "an integer is mapped to clock.NAME.value");
        clock.remove_prefix(prefix.size());
        if (clock.ends_with(suffix)) clock.remove_suffix(suffix.size());
        type.clock = clock;
    }
    return ok();
}

Result<TypePtr> Parser::integer_type() {
    Type type;
    const uint32_t line = token_.line;
    uint32_t alignment = 0;
    Status read = attributes([&](const std::string& name, const Value& given) -> Status {
        if (name != "align") return integer_attribute(type, name, given);
        Result<uint32_t> bits = alignment_of(given);
        if (!bits) return bits.error();
        alignment = *bits;
        return ok();
    });
    if (!read) return read.error();
    if (type.size_bits == 0) return error_at(line, "the integer has no size");
    type.alignment_bits = alignment != 0 ? alignment : type.size_bits % 8 == 0 ? 8 : 1;
    return shared(std::move(type));
}

Result<TypePtr> Parser::floating_type() {
    Type type;
    type.kind = Kind::floating;
    type.alignment_bits = 8;
    const uint32_t line = token_.line;
    uint64_t exponent = 0, mantissa = 0;
    Status read = attributes([&](const std::string& name, const Value& given) -> Status {
        if (name == "exp_dig" || name == "mant_dig") {
            Result<uint64_t> digits = number_of(given, 128);
            if (!digits) return digits.error();
            (name == "exp_dig" ? exponent : mantissa) = *digits;
        } else if (name == "align") {
            Result<uint32_t> bits = alignment_of(given);
            if (!bits) return bits.error();
            type.alignment_bits = *bits;
        } else if (name == "byte_order") {
            return integer_attribute(type, name, given);
        }
        return ok();
    });
    if (!read) return read.error();
    if (exponent == 8 && mantissa == 24)
        type.size_bits = 32;
    else if (exponent == 11 && mantissa == 53)
        type.size_bits = 64;
    else
        return error_at(line, fmt::format("a floating-point number with {} + {} bits is not understood, only "
                                          "8 + 24 and 11 + 53",
                                          exponent, mantissa));
    return shared(std::move(type));
}

Result<TypePtr> Parser::string_type() {
    Type type;
    type.kind = Kind::string;
    type.alignment_bits = 8;
    type.is_text = true;
    if (token_.is("{"))
        if (Status read = attributes([](const std::string&, const Value&) { return ok(); }); !read)
            return read.error();
    return shared(std::move(type));
}

/* enum [name] [: type] { labels } */
Result<TypePtr> Parser::enumeration_type() {
    Type type;
    type.kind = Kind::enumeration;
    std::string name;
    if (token_.kind == TokenKind::identifier) {
        name = "enum " + token_.text;
        if (Status moved = advance(); !moved) return moved.error();
    }
    if (token_.is(":")) {
        if (Status moved = advance(); !moved) return moved.error();
        Result<TypePtr> container = type_specifier();
        if (!container) return container;
        type.element = *container;
    } else if (!token_.is("{")) {
        return known_type(name);
    } else {
        type.element = find_type("int");
    }
    if (!type.element || type.element->kind != Kind::integer)
        return error_at(token_.line, "an enumeration needs an integer type");
    type.alignment_bits = type.element->alignment_bits;
    type.size_bits = type.element->size_bits;
    if (Status read = labels(type); !read) return read.error();
    TypePtr made = shared(std::move(type));
    if (!name.empty())
        if (Status defined = define_type(name, made); !defined) return defined.error();
    return made;
}

Result<uint64_t> Parser::label_value() {
    Result<Value> given = value();
    if (!given) return given.error();
    if (given->kind != Value::Kind::number) return error_at(given->line, "a label stands for a number");
    return given->negative ? 0 - given->number : given->number;
}

Status Parser::labels(Type& type) {
    if (Status opened = expect("{"); !opened) return opened;
    uint64_t next = 0;
    while (!token_.is("}")) {
        if (token_.kind != TokenKind::identifier && token_.kind != TokenKind::string)
            return unexpected("a label");
        Label label;
        label.name = token_.text;
        label.first = label.last = next;
        if (Status moved = advance(); !moved) return moved;
        if (token_.is("=")) {
            if (Status moved = advance(); !moved) return moved;
            Result<uint64_t> first = label_value();
            if (!first) return first.error();
            label.first = label.last = *first;
        }
        if (token_.is("...")) {
            if (Status moved = advance(); !moved) return moved;
            Result<uint64_t> last = label_value();
            if (!last) return last.error();
            label.last = *last;
        }
        next = label.last + 1;
        type.labels.push_back(std::move(label));
        if (!token_.is(",")) break;
        if (Status moved = advance(); !moved) return moved;
    }
    return expect("}");
}

/* struct [name] [{ fields }] [align(bits)] */
Result<TypePtr> Parser::structure_type() {
    std::string name;
    if (token_.kind == TokenKind::identifier) {
        name = "struct " + token_.text;
        if (Status moved = advance(); !moved) return moved.error();
    }
    if (!token_.is("{")) {
        return known_type(name);
    }
    Type type;
    type.kind = Kind::structure;
    if (Status opened = expect("{"); !opened) return opened.error();
    scopes_.emplace_back();
    while (!token_.is("}"))
        if (Status read = members(type); !read) return read.error();
    scopes_.pop_back();
    if (Status closed = expect("}"); !closed) return closed.error();
    if (token_.is_word("align")) {
        if (Status moved = advance(); !moved) return moved.error();
        if (Status opened = expect("("); !opened) return opened.error();
        Result<Value> given = value();
        if (!given) return given.error();
        Result<uint32_t> bits = alignment_of(*given);
        if (!bits) return bits.error();
        type.alignment_bits = *bits;
        if (Status closed = expect(")"); !closed) return closed.error();
    }
    for (const Field& field : type.fields)
        type.alignment_bits = std::max(type.alignment_bits, field.type->alignment_bits);
    Result<TypePtr> made = shared_bounded(std::move(type), token_.line);
    if (made && !name.empty())
        if (Status defined = define_type(name, *made); !defined) return defined.error();
    return made;
}

/* variant [name] [<tag>] [{ options }] */
Result<TypePtr> Parser::variant_type() {
    Type type;
    type.kind = Kind::variant;
    std::string name;
    if (token_.kind == TokenKind::identifier) {
        name = "variant " + token_.text;
        if (Status moved = advance(); !moved) return moved.error();
    }
    std::string tag;
    if (token_.is("<")) {
        if (Status moved = advance(); !moved) return moved.error();
        Result<std::string> reference = dotted_name();
        if (!reference) return reference.error();
        tag = std::move(*reference);
        if (Status closed = expect(">"); !closed) return closed.error();
    }
    if (token_.is("{")) {
        if (Status opened = expect("{"); !opened) return opened.error();
        scopes_.emplace_back();
        while (!token_.is("}"))
            if (Status read = members(type); !read) return read.error();
        scopes_.pop_back();
        if (Status closed = expect("}"); !closed) return closed.error();
        Result<TypePtr> made = shared_bounded(type, token_.line);
        if (!made) return made;
        if (!name.empty())
            if (Status defined = define_type(name, *made); !defined) return defined.error();
        if (Status copied = may_copy(**made); !copied) return copied.error();
        type = **made;
    } else {
        Result<TypePtr> known = known_type(name);
        if (!known) return known;
        if (Status copied = may_copy(**known); !copied) return copied.error();
        type = **known;
    }
    if (!tag.empty()) type.reference = std::move(tag);
    return shared(std::move(type));
}

/* TYPE name[..], name[..]; or a definition of a type */
Status Parser::members(Type& type) {
    if (token_.is_word("typealias")) return type_alias();
    if (token_.is_word("typedef")) return type_definition_c();
    TypePtr base;
    std::string name;
    if (starts_type(token_)) {
        Result<TypePtr> made = type_specifier();
        if (!made) return made.error();
        base = *made;
        if (token_.is(";")) return advance(); /* only defines a name */
        if (token_.kind != TokenKind::identifier) return unexpected("the name of a field");
        name = token_.text;
        if (Status moved = advance(); !moved) return moved;
    } else {
        /* The last word is the field's name, those before it are its type's. */
        std::string words;
        const uint32_t line = token_.line;
        while (token_.kind == TokenKind::identifier) {
            if (!name.empty() && name != "const") words += (words.empty() ? "" : " ") + name;
            name = token_.text;
            if (Status moved = advance(); !moved) return moved;
        }
        if (words.empty()) return unexpected("a type and a name");
        base = find_type(words);
        if (!base) return error_at(line, fmt::format("there is no type `{:.60}`", words));
    }
    for (;;) {
        Result<TypePtr> whole = dimensions(base);
        if (!whole) return whole.error();
        type.fields.push_back({name, *whole});
        if (!token_.is(",")) return expect(";");
        if (Status moved = advance(); !moved) return moved;
        if (token_.kind != TokenKind::identifier) return unexpected("the name of a field");
        name = token_.text;
        if (Status moved = advance(); !moved) return moved;
    }
}

/* [4][length]: the first dimension is the outermost. */
Result<TypePtr> Parser::dimensions(TypePtr element) {
    if (!token_.is("[")) return element;
    if (depth_ >= max_type_depth)
        return error_at(token_.line, fmt::format("types are nested deeper than {}", max_type_depth));
    if (Status moved = advance(); !moved) return moved.error();
    Type type;
    if (token_.kind == TokenKind::number) {
        type.kind = Kind::array;
        type.length = token_.number;
        if (Status moved = advance(); !moved) return moved.error();
    } else {
        type.kind = Kind::sequence;
        Result<std::string> reference = dotted_name();
        if (!reference) return reference.error();
        type.reference = std::move(*reference);
    }
    if (Status closed = expect("]"); !closed) return closed.error();
    ++depth_;
    Result<TypePtr> inner = dimensions(std::move(element));
    --depth_;
    if (!inner) return inner;
    type.element = *inner;
    type.alignment_bits = type.element->alignment_bits;
    return shared_bounded(std::move(type), token_.line);
}

} // namespace plumb::tsdl
