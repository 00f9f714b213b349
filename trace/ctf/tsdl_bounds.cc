#include "trace/ctf/tsdl_bounds.h"

#include <algorithm>
#include <limits>

namespace plumb::tsdl {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t saturating_multiply(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

uint64_t min_bits(const Type& type) {
    switch (type.kind) {
    case Kind::integer:
    case Kind::floating:
    case Kind::enumeration:
        return type.size_bits;
    case Kind::string:
        return 8;
    case Kind::structure: {
        uint64_t bits = 0;
        for (const Field& field : type.fields)
            bits = saturating_add(bits, field.type->min_bits);
        return bits;
    }
    case Kind::array:
        return saturating_multiply(type.length, type.element->min_bits);
    case Kind::variant:
    case Kind::sequence:
        break;
    }
    return 0;
}

} // namespace

TypePtr shared(Type type) {
    type.min_bits = min_bits(type);
    return std::make_shared<const Type>(std::move(type));
}

Result<TypePtr> shared_bounded(Type type, uint32_t line) {
    uint32_t below = type.element ? type.element->depth : 0;
    for (const Field& field : type.fields)
        below = std::max(below, field.type->depth);
    type.depth = below + 1;
    if (type.depth > max_type_depth)
        return error_at(line, fmt::format("types are nested deeper than {}", max_type_depth));
    return shared(std::move(type));
}

} // namespace plumb::tsdl
