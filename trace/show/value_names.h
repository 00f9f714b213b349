/*
 * What numbers in system calls are called: flags, commands, signals, errors. In a trace they are numbers, since other tools
 * compute with them; whoever reads wants names:
 *
 *   open      flags = O_RDONLY|O_CLOEXEC
 *   futex     op = FUTEX_WAIT|FUTEX_PRIVATE_FLAG
 *   mmap      prot = PROT_READ|PROT_WRITE, flags = MAP_PRIVATE|MAP_ANONYMOUS|0x40000000
 *   any exit  ret = -2 (ENOENT)
 *
 * The tables of names are made from the headers of the system that this is built on (value_tables.cmake); which field of which call
 * is read by which table stands in value_names.cc. It goes by the names of events and fields that LTTng's kernel tracer and
 * Plumb have in common.
 */
#ifndef PLUMB_TRACE_SHOW_VALUE_NAMES_H
#define PLUMB_TRACE_SHOW_VALUE_NAMES_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct NamedValue {
    const char* name;
    std::uint64_t value;
};

struct ValueTable {
    const char* name;
    std::span<const NamedValue> values;
};
extern const std::vector<ValueTable> value_tables;

/* How the numbers of one field are read: a part that has one value, and bits. */
class ValueNames {
public:
    /* `values`: names of what the number is, in the bits of `mask`; `flags`: of bits, the others; either may be empty.
     * `beside_permissions`: what has no name is shown in octal. */
    ValueNames(std::string_view values, std::uint64_t mask, std::string_view flags,
               bool beside_permissions = false);

    /* Empty if there is no name for any part of it. */
    std::string text_of(std::uint64_t number, unsigned size_bits) const;

    bool rest_is_octal() const { return rest_is_octal_; }

private:
    std::string rest_text(std::uint64_t rest) const;

    std::vector<NamedValue> values_;
    std::vector<NamedValue> flags_; /* those of several bits first */
    std::uint64_t mask_;
    bool rest_is_octal_;
};

/* Of what a system call returned, "ENOENT" for -2; empty if that is no error. */
std::string_view error_name(std::int64_t returned);

/* How a field's number is shown. */
struct FieldNames {
    enum class Kind : std::uint8_t {
        none,
        names,    /* by `names` */
        error,    /* what a call returned */
        address,  /* the same of one that returns an address */
        octal,    /* permissions */
        small_int /* an int in a field of more bits: -1 */
    };
    Kind kind = Kind::none;
    const ValueNames* names = nullptr;

    /* What is known by a name: "O_RDONLY|O_CLOEXEC", "ENOENT"; empty if nothing is. */
    std::string name_of(std::uint64_t number, unsigned size_bits) const;
    /* For people, who need not see the number beside it; empty: as any number. */
    std::string text_of(std::uint64_t number, unsigned size_bits) const;
};

/* Of `event`, such as "syscall_entry_openat". */
FieldNames names_of_field(std::string_view event, std::string_view field);

} // namespace plumb

#endif
