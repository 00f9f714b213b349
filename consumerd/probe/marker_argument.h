/*
 * Where an argument of a USDT marker is, as its ELF note says it in the assembler's words for x86-64: "SIZE@OPERAND", the size
 * negative for signed numbers and with an f behind it for floating point.
 *
 *   -4@%edi   8@-16(%rbp)   1@$7   4@count(%rip)   4@52+table(%rip)   8@%xmm0   2@(%rdx,%rax,2)
 */
#ifndef PLUMB_CONSUMERD_PROBE_MARKER_ARGUMENT_H
#define PLUMB_CONSUMERD_PROBE_MARKER_ARGUMENT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

struct MarkerArgument {
    enum class Place : std::uint8_t {
        constant,
        register_,
        memory,   /* at a register's value and a displacement */
        variable, /* at a symbol's address and a displacement */
        other /* where the kernel can not look: by two registers, in a vector register, in thread-local memory */
    };
    Place place = Place::other;
    std::uint8_t size = 8; /* bytes */
    bool is_signed = false;
    bool is_float = false;
    std::uint8_t first_bit = 0; /* of the register: 8 for %ah */
    std::string register_name;  /* as the kernel calls it: "di", "r8" */
    std::string symbol;
    std::int64_t number = 0; /* the constant, or the displacement */
    std::string text;        /* as it was written */

    std::string type_name() const; /* "i32", "u64", "f64" */
};

MarkerArgument parse_marker_argument(std::string_view text);

} // namespace plumb

#endif
