/*
 * What a CTF 1.8 trace says of itself: types, clocks, streams and events, parsed from its TSDL metadata.
 *
 * parse() accepts the metadata of Plumb and of LTTng (user space and kernel). The text may come from anyone:
 * nesting is bounded, errors name the line, and nothing that parse() returns is larger than the text allows.
 * A type may still describe far more bytes than any trace has; that is for who decodes to check.
 */
#ifndef PLUMB_TRACE_CTF_TSDL_H
#define PLUMB_TRACE_CTF_TSDL_H

#include "base/result.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plumb::tsdl {

/* Nesting of types, and dimensions of arrays, may not go deeper. */
inline constexpr uint32_t max_type_depth = 32;

enum class Kind : uint8_t { integer, floating, enumeration, string, structure, variant, array, sequence };

/* `native` is the byte order of the trace, which may be declared after the type. */
enum class ByteOrder : uint8_t { native, little, big };

struct Type;
using TypePtr = std::shared_ptr<const Type>;

struct Field {
    std::string name;
    TypePtr type;
};

/* A label stands for the values from `first` to `last`, compared as the enumeration's own integer type. */
struct Label {
    std::string name;
    uint64_t first = 0;
    uint64_t last = 0;
};

struct Type {
    Kind kind = Kind::integer;
    uint32_t depth = 1;          /* of nesting, at most max_type_depth */
    uint64_t min_bits = 0;       /* the fewest that a value takes, without alignment */
    uint32_t alignment_bits = 1; /* a power of two */

    /* integer, floating */
    uint32_t size_bits = 0; /* 1..64 */
    bool is_signed = false;
    bool is_text = false; /* encoding UTF8 or ASCII: in arrays, characters */
    uint8_t base = 10;
    ByteOrder byte_order = ByteOrder::native;
    std::string clock; /* the clock this integer is a value of; empty: none */

    /* enumeration; `element` is its integer type */
    std::vector<Label> labels;
    bool has_flags = false; /* the labels are of bits, not of values */

    /* structure; variant: the options, in order */
    std::vector<Field> fields;

    /* array, sequence */
    TypePtr element;
    uint64_t length = 0; /* array */

    /* sequence: where its length is; variant: where its tag is. A name or a dotted path. */
    std::string reference;
};

struct Clock {
    std::string name;
    std::string description;
    uint64_t frequency_hz = 1'000'000'000;
    int64_t offset_s = 0;
    int64_t offset_cycles = 0;
    bool absolute = false;
};

struct EventClass {
    uint64_t id = 0;
    uint64_t stream_id = 0;
    std::string name;
    std::optional<int64_t> log_level;
    TypePtr context;
    TypePtr fields;
};

struct StreamClass {
    uint64_t id = 0;
    TypePtr packet_context;
    TypePtr event_header;
    TypePtr event_context;
};

using EnvironmentValue = std::variant<int64_t, std::string>;

struct Metadata {
    uint64_t major = 0;
    uint64_t minor = 0;
    bool big_endian = false;
    std::optional<std::array<uint8_t, 16>> uuid;
    TypePtr packet_header;
    std::vector<std::pair<std::string, EnvironmentValue>> environment;
    std::vector<Clock> clocks;
    std::vector<StreamClass> streams;
    std::vector<EventClass> events;

    const Clock* find_clock(std::string_view name) const;
    const StreamClass* find_stream(uint64_t id) const;
    /* The text of an environment entry, empty if there is none. */
    std::string environment_text(std::string_view name) const;
    /* The number of one. */
    std::optional<int64_t> environment_number(std::string_view name) const;
};

Result<Metadata> parse(std::string_view text);

/*
 * The plain text in the bytes of a metadata file, which is the file itself or, in traces of LTTng, a chain of
 * packets that start with a magic number of their own.
 */
Result<std::string> metadata_text(std::string_view file_bytes);

} // namespace plumb::tsdl

#endif
