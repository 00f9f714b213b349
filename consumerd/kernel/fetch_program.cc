#include "consumerd/kernel/fetch_program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plumb {
namespace {

constexpr std::string_view perhaps_by_tracefs = "Without --kernel-by module, tracefs may have it.";

/* By their numbers, PLUMB_REGISTER_AX and so on. */
constexpr std::array<std::string_view, PLUMB_REGISTER_COUNT> register_names = {
    "ax", "cx",  "dx",  "bx",  "sp",  "bp",  "si",  "di", "r8",
    "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ip", "flags"};
/* In which functions get their arguments. */
constexpr std::array<std::uint16_t, 6> function_registers = {PLUMB_REGISTER_DI, PLUMB_REGISTER_SI,
                                                             PLUMB_REGISTER_DX, PLUMB_REGISTER_CX,
                                                             PLUMB_REGISTER_R8, PLUMB_REGISTER_R8 + 1};

/* The whole text, as C writes numbers: "16", "0x10", "-8". */
template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
    const bool is_negative = text.starts_with('-');
    if (is_negative || text.starts_with('+')) text.remove_prefix(1);
    const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
    if (is_hex) text.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), value, is_hex ? 16 : 10);
    if (error != std::errc() || end != text.end()) return {};
    return static_cast<Number>(is_negative ? 0 - value : value);
}

struct FetchedType {
    plumb_field_type type;
    std::uint8_t size;
    bool is_signed, is_hex;
    bool is_of_user; /* its text lies in the process's memory */
};

std::optional<FetchedType> fetched_type(std::string_view name) {
    if (name == "string") return FetchedType{PLUMB_FIELD_STRING, 1, false, false, false};
    if (name == "ustring") return FetchedType{PLUMB_FIELD_STRING, 1, false, false, true};
    if (name == "char") return FetchedType{PLUMB_FIELD_INTEGER, 1, true, false, false};
    if (name.empty() || std::string_view("usx").find(name[0]) == std::string_view::npos) return {};
    const auto bits = whole_number<unsigned>(name.substr(1));
    if (bits != 8U && bits != 16U && bits != 32U && bits != 64U) return {};
    return FetchedType{PLUMB_FIELD_INTEGER, static_cast<std::uint8_t>(*bits / 8), name[0] == 's',
                       name[0] == 'x', false};
}

class FetchedArgument {
public:
    /* "name=+8(%di):u32" */
    FetchedArgument(std::string_view text, bool is_return) : text_(text), is_return_(is_return) {}

    Status read() {
        const std::size_t equals = text_.find('=');
        field_.name = text_.substr(0, equals);
        std::string_view value = text_.substr(equals + 1);
        const std::size_t colon = value.rfind(':');
        const std::string_view type =
            colon == std::string_view::npos ? std::string_view() : value.substr(colon + 1);
        value = value.substr(0, colon);
        if (Status good = value_of(value); !good) return good;
        return give_type(colon != std::string_view::npos     ? type
                         : fetch_.source == PLUMB_FETCH_COMM ? "string"
                                                             : "x64");
    }

    const plumb_kernel_fetch& fetch() const { return fetch_; }
    const EventField& field() const { return field_; }

private:
    Error unknown(std::string_view what) const {
        return Error("({}): plumb.ko does not know {}.", text_, what).hint("{}", perhaps_by_tracefs);
    }

    Status value_of(std::string_view value) {
        if (value.starts_with('+') || value.starts_with('-')) return read_at(value);
        if (value.starts_with('%')) return from_register(value.substr(1));
        if (value.starts_with('$')) return from_variable(value.substr(1));
        if (value.starts_with('@')) {
            const auto address = whole_number<std::uint64_t>(value.substr(1));
            if (!address) return unknown("the symbol " + std::string(value.substr(1)));
            fetch_.source = PLUMB_FETCH_VALUE;
            fetch_.value = *address;
            return add_step(0, false);
        }
        if (value.starts_with('\\')) {
            const auto number = whole_number<std::uint64_t>(value.substr(1));
            if (!number) return unknown("the text " + std::string(value.substr(1)));
            fetch_.source = PLUMB_FETCH_VALUE;
            fetch_.value = *number;
            return ok();
        }
        return Error("({}): {} is no register (%di), variable ($retval), address (@0x...) or what one of "
                     "these points to (+8(%di)).",
                     text_, value);
    }

    /* "+8(VALUE)", "+u8(VALUE)" */
    Status read_at(std::string_view value) {
        const std::size_t open = value.find('(');
        if (open == std::string_view::npos || !value.ends_with(')'))
            return Error("({}): the parentheses of {} are not both there.", text_, value);
        std::string offset_text(value.substr(0, open));
        const bool is_of_user = offset_text.size() > 1 && offset_text[1] == 'u';
        if (is_of_user) offset_text.erase(1, 1);
        const auto offset = whole_number<std::int64_t>(offset_text);
        if (!offset) return Error("({}): {} is no offset.", text_, value.substr(0, open));
        if (Status inner = value_of(value.substr(open + 1, value.size() - open - 2)); !inner) return inner;
        if (fetch_.source == PLUMB_FETCH_COMM)
            return Error("({}): $comm is a text, and points nowhere.", text_);
        return add_step(*offset, is_of_user);
    }

    Status add_step(std::int64_t offset, bool is_of_user) {
        if (fetch_.depth == PLUMB_FETCH_DEPTH_MAX)
            return unknown(fmt::format("more than {} pointers in a row", PLUMB_FETCH_DEPTH_MAX));
        if (is_of_user) fetch_.flags |= PLUMB_FETCH_USER(fetch_.depth);
        fetch_.offsets[fetch_.depth++] = offset;
        return ok();
    }

    Status from_register(std::string_view name) {
        const auto* const found = std::find(register_names.begin(), register_names.end(), name);
        if (found == register_names.end())
            return Error("({}): plumb.ko fetches no register %{}; it has %{}.", text_, name,
                         fmt::join(register_names, ", %"));
        fetch_.source = PLUMB_FETCH_REGISTER;
        fetch_.number = static_cast<std::uint16_t>(found - register_names.begin());
        return ok();
    }

    Status from_variable(std::string_view name) {
        fetch_.source = PLUMB_FETCH_REGISTER;
        if (name == "stack") {
            fetch_.number = PLUMB_REGISTER_SP;
            return ok();
        }
        if (name == "comm") {
            fetch_.source = PLUMB_FETCH_COMM;
            return ok();
        }
        if (name == "retval") {
            fetch_.number = PLUMB_REGISTER_AX;
            if (is_return_) return ok();
            return Error("({}): what a function returns is known to a kretprobe.", text_);
        }
        if (name.starts_with("stack")) {
            const auto word = whole_number<std::uint64_t>(name.substr(5));
            fetch_.source = PLUMB_FETCH_STACK;
            fetch_.number = static_cast<std::uint16_t>(word.value_or(0));
            if (word && *word <= UINT16_MAX) return ok();
        }
        if (name.starts_with("arg")) return from_function_argument(name);
        return unknown("$" + std::string(name));
    }

    Status from_function_argument(std::string_view name) {
        const auto number = whole_number<std::uint64_t>(name.substr(3));
        if (!number || *number == 0 || *number > function_registers.size())
            return Error("({}): registers hold the arguments $arg1 to $arg{}, and no other.", text_,
                         function_registers.size());
        if (is_return_)
            return Error("({}): when a function returns, its arguments are not known any more.", text_)
                .hint("A kprobe of it knows them.");
        fetch_.number = function_registers[*number - 1];
        return ok();
    }

    Status give_type(std::string_view name) {
        const auto type = fetched_type(name);
        if (!type) return unknown("the type " + std::string(name));
        const bool is_text = type->type == PLUMB_FIELD_STRING;
        if (is_text && fetch_.depth == 0 && fetch_.source != PLUMB_FETCH_COMM)
            return Error("({}): a text is read from memory, as in +0(%di):string.", text_);
        if (!is_text && fetch_.source == PLUMB_FETCH_COMM)
            return Error("({}): $comm is a text, and no {}.", text_, name);
        if (type->is_of_user && fetch_.depth != 0) fetch_.flags |= PLUMB_FETCH_USER(fetch_.depth - 1);
        fetch_.type = static_cast<std::uint8_t>(type->type);
        fetch_.size = type->size;
        field_.type = type->type;
        field_.size = type->size;
        field_.is_signed = type->is_signed;
        field_.hex = type->is_hex;
        return ok();
    }

    std::string_view text_;
    bool is_return_;
    plumb_kernel_fetch fetch_{};
    EventField field_{};
};

} // namespace

Result<FetchProgram> fetch_program(const std::string& arguments, bool is_return) {
    FetchProgram program;
    for (std::size_t begin = 0; begin < arguments.size();) {
        const std::size_t end = std::min(arguments.find(' ', begin), arguments.size());
        FetchedArgument argument(std::string_view(arguments).substr(begin, end - begin), is_return);
        if (Status read = argument.read(); !read) return read.error();
        program.fetches.push_back(argument.fetch());
        program.fields.push_back(argument.field());
        begin = end + 1;
    }
    if (program.fetches.size() > PLUMB_FETCH_MAX)
        return Error("({}): plumb.ko records at most {} arguments of a probe, and these are {}.", arguments,
                     PLUMB_FETCH_MAX, program.fetches.size());
    return program;
}

} // namespace plumb
