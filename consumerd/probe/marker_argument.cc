#include "consumerd/probe/marker_argument.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>

namespace plumb {
namespace {

using ArgumentPlace = MarkerArgument::Place;

struct RegisterPart {
    std::string name;
    std::uint8_t bytes;
    std::uint8_t first_bit = 0;
};

/* r8 to r15, with the letter of a part behind them. */
std::optional<RegisterPart> numbered_register(std::string_view name) {
    unsigned number = 0;
    if (!name.starts_with('r')) return {};
    const auto [rest, wrong] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
    if (wrong != std::errc() || number < 8 || number > 15) return {};
    const std::string_view part(rest, static_cast<std::size_t>(name.data() + name.size() - rest));
    const std::string whole = fmt::format("r{}", number);
    if (part.empty()) return RegisterPart{whole, 8};
    if (part == "d") return RegisterPart{whole, 4};
    if (part == "w") return RegisterPart{whole, 2};
    if (part == "b" || part == "l") return RegisterPart{whole, 1};
    return {};
}

std::optional<RegisterPart> register_part(std::string_view name) {
    for (const std::string_view letter : {"a", "b", "c", "d"}) {
        const std::string whole = std::string(letter) + "x";
        if (name == whole) return RegisterPart{whole, 2};
        if (name == std::string(letter) + "l") return RegisterPart{whole, 1};
        if (name == std::string(letter) + "h") return RegisterPart{whole, 1, 8};
        if (name == "e" + whole) return RegisterPart{whole, 4};
        if (name == "r" + whole) return RegisterPart{whole, 8};
    }
    for (const std::string_view each : {"si", "di", "bp", "sp"}) {
        const std::string whole(each);
        if (name == whole) return RegisterPart{whole, 2};
        if (name == whole + "l") return RegisterPart{whole, 1};
        if (name == "e" + whole) return RegisterPart{whole, 4};
        if (name == "r" + whole) return RegisterPart{whole, 8};
    }
    return numbered_register(name);
}

std::optional<std::int64_t> whole_number_of(std::string_view text) {
    const bool is_negative = text.starts_with('-');
    if (is_negative || text.starts_with('+')) text.remove_prefix(1);
    const bool is_hex = text.starts_with("0x");
    if (is_hex) text.remove_prefix(2);
    std::uint64_t number = 0;
    const auto [rest, wrong] =
        std::from_chars(text.data(), text.data() + text.size(), number, is_hex ? 16 : 10);
    if (text.empty() || wrong != std::errc() || rest != text.data() + text.size()) return {};
    return static_cast<std::int64_t>(is_negative ? 0 - number : number);
}

/* Numbers and at most one symbol, added up: "52+table", "table-8", "-16". */
bool read_sum(std::string_view text, std::int64_t& number, std::string& symbol) {
    while (!text.empty()) {
        const std::size_t sign = text.find_first_of("+-", 1);
        const std::string_view part = text.substr(0, sign);
        text.remove_prefix(part.size());
        if (const auto value = whole_number_of(part)) {
            number = static_cast<std::int64_t>(static_cast<std::uint64_t>(number) +
                                               static_cast<std::uint64_t>(*value));
            continue;
        }
        const std::string_view name = part.substr(part.starts_with('+') ? 1 : 0);
        if (!symbol.empty() || name.empty() || name.find_first_of("-$%@:*(), ") != std::string_view::npos)
            return false;
        symbol = name;
    }
    return true;
}

/* "-4", "8", "4f" */
bool read_size(std::string_view text, MarkerArgument& argument) {
    if (text.ends_with('f')) {
        argument.is_float = true;
        text.remove_suffix(1);
    }
    const auto size = whole_number_of(text);
    if (!size) return false;
    argument.is_signed = *size < 0 && !argument.is_float;
    const std::uint64_t bytes = static_cast<std::uint64_t>(*size < 0 ? 0 - *size : *size);
    if ((bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) || (argument.is_float && bytes < 4))
        return false;
    argument.size = static_cast<std::uint8_t>(bytes);
    return true;
}

ArgumentPlace read_operand(std::string_view text, MarkerArgument& argument) {
    if (text.starts_with('$')) {
        const auto number = whole_number_of(text.substr(1));
        argument.number = number.value_or(0);
        return number && !argument.is_float ? ArgumentPlace::constant : ArgumentPlace::other;
    }
    if (text.starts_with('%')) {
        const auto part = register_part(text.substr(1));
        if (!part || (part->first_bit != 0 && (argument.is_signed || argument.size != 1)))
            return ArgumentPlace::other;
        argument.register_name = part->name;
        argument.first_bit = part->first_bit;
        return ArgumentPlace::register_;
    }
    const std::size_t open = text.find('(');
    if (open == std::string_view::npos || !text.ends_with(')') ||
        !read_sum(text.substr(0, open), argument.number, argument.symbol))
        return ArgumentPlace::other;
    const std::string_view base = text.substr(open + 1, text.size() - open - 2);
    if (base == "%rip") return argument.symbol.empty() ? ArgumentPlace::other : ArgumentPlace::variable;
    if (!base.starts_with('%') || !argument.symbol.empty()) return ArgumentPlace::other;
    const auto part = register_part(base.substr(1));
    if (!part || part->bytes != 8) return ArgumentPlace::other;
    argument.register_name = part->name;
    return ArgumentPlace::memory;
}

} // namespace

std::string MarkerArgument::type_name() const {
    return fmt::format("{}{}", is_float ? 'f' : is_signed ? 'i' : 'u', size * 8);
}

/* A size is not always there; then it is a word. */
MarkerArgument parse_marker_argument(std::string_view text) {
    MarkerArgument argument;
    argument.text = text;
    if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
        if (!read_size(text.substr(0, at), argument)) return argument;
        text.remove_prefix(at + 1);
    }
    argument.place = read_operand(text, argument);
    return argument;
}

} // namespace plumb
