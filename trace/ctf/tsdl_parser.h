/*
 * The parser behind tsdl::parse(). Blocks (trace, stream, event and so on) are in tsdl.cc, types in
 * tsdl_types.cc.
 *
 * Names of types are looked up in the block they are used in, then outwards, as in C. A type is immutable
 * once made and shared by all who name it.
 */
#ifndef PLUMB_TRACE_CTF_TSDL_PARSER_H
#define PLUMB_TRACE_CTF_TSDL_PARSER_H

#include "trace/ctf/tsdl.h"
#include "trace/ctf/tsdl_lexer.h"

#include <map>

namespace plumb::tsdl {

/* Right-hand side of `name = ...;`. */
struct Value {
    enum class Kind : uint8_t { number, string, word } kind = Kind::number;
    bool negative = false;
    uint64_t number = 0; /* magnitude */
    std::string text;    /* string, or a word such as `le`, `true`, `clock.monotonic.value` */
    uint32_t line = 0;
};

class Parser {
public:
    explicit Parser(std::string_view text) : lexer_(text) {}
    Result<Metadata> run();

private:
    /* Tokens. `token_` is the next one. */
    Status advance();
    Status expect(std::string_view punctuation);
    Error unexpected(std::string_view wanted) const;

    /* Values of attributes. */
    Result<Value> value();
    Result<uint64_t> number_of(const Value& value, uint64_t max) const;
    Result<int64_t> signed_number_of(const Value& value) const;
    Result<bool> flag_of(const Value& value) const;
    Result<ByteOrder> byte_order_of(const Value& value) const;
    Result<uint32_t> alignment_of(const Value& value) const;
    Result<std::string> dotted_name();

    /* Blocks. */
    Status top_level();
    Status type_definition(bool& was_one);
    Status trace_block();
    Status environment_block();
    Status clock_block();
    Status stream_block();
    Status event_block();
    Result<TypePtr> with_labels(const TypePtr& fields);
    Status unknown_block();
    /* Calls `entry(name)` for each entry of a block, up to `};`; it consumes what follows the name. */
    template <typename Entry>
    Status block(Entry entry);
    /* What follows the name of an entry: `= value;` or `:= type;`. */
    Result<Value> assigned_value();
    Result<TypePtr> assigned_type();
    Status finish();

    /* Types. */
    Result<TypePtr> type_specifier();
    Result<TypePtr> type_specifier_unbounded();
    Result<TypePtr> integer_type();
    Status integer_attribute(Type& type, const std::string& name, const Value& value);
    Result<TypePtr> floating_type();
    Result<TypePtr> string_type();
    Result<TypePtr> enumeration_type();
    Status labels(Type& type);
    Result<uint64_t> label_value();
    Result<TypePtr> structure_type();
    Result<TypePtr> variant_type();
    Status members(Type& type);
    Result<TypePtr> named_type();
    Result<TypePtr> dimensions(TypePtr element);
    Status type_alias();
    Status type_definition_c();
    /* `{ name = value; ... }` of integer, floating_point and string. */
    template <typename Attribute>
    Status attributes(Attribute attribute);

    using Scope = std::map<std::string, TypePtr, std::less<>>;
    TypePtr find_type(std::string_view name) const;
    Result<TypePtr> known_type(const std::string& name) const;
    /* A type with a name may be used, and copied, by each line that follows. */
    Status may_copy(const Type& type);
    Status define_type(const std::string& name, TypePtr type);

    Lexer lexer_;
    Token token_;
    std::vector<Scope> scopes_{1};
    unsigned depth_ = 0;
    std::size_t copied_fields_ = 0;
    Metadata metadata_;
    bool trace_seen_ = false;
};

template <typename Entry>
Status Parser::block(Entry entry) {
    if (Status opened = expect("{"); !opened) return opened;
    scopes_.emplace_back();
    while (!token_.is("}")) {
        bool was_type = false;
        if (Status defined = type_definition(was_type); !defined) return defined;
        if (was_type) continue;
        Result<std::string> name = dotted_name();
        if (!name) return name.error();
        if (Status taken = entry(*name); !taken) return taken;
        if (Status ended = expect(";"); !ended) return ended;
    }
    scopes_.pop_back();
    if (Status closed = expect("}"); !closed) return closed;
    return expect(";");
}

template <typename Attribute>
Status Parser::attributes(Attribute attribute) {
    if (Status opened = expect("{"); !opened) return opened;
    while (!token_.is("}")) {
        Result<std::string> name = dotted_name();
        if (!name) return name.error();
        Result<Value> given = assigned_value();
        if (!given) return given.error();
        if (Status taken = attribute(*name, *given); !taken) return taken;
        if (Status ended = expect(";"); !ended) return ended;
    }
    return expect("}");
}

} // namespace plumb::tsdl

#endif
