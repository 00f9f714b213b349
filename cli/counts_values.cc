/* Values and keys of counts, in the words of the fields that they are of. */
#include "base/output_buffer.h"
#include "cli/counts_shown.h"
#include "cli/status_line.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace plumb {
namespace {

struct Unit {
    double size;
    const char* name;
};

std::string in_units(double value, std::initializer_list<Unit> units) {
    const Unit* fitting = units.begin();
    for (const Unit& unit : units)
        if (std::abs(value) >= unit.size) fitting = &unit;
    const double shown = value / fitting->size;
    const bool is_whole = std::abs(shown) >= 1000 || shown == std::floor(shown);
    return is_whole ? fmt::format("{:.0f} {}", shown, fitting->name)
                    : fmt::format("{:.{}f} {}", shown, std::abs(shown) >= 100 ? 1 : 2, fitting->name);
}

std::string unit_of_time_text(double ns) {
    return in_units(ns, {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}});
}

std::string plain_text(double value) {
    constexpr double exact_below = 1e15;
    if (value != std::floor(value) || std::abs(value) >= exact_below) return fmt::format("{:.6g}", value);
    const std::string digits = with_commas(static_cast<std::uint64_t>(std::abs(value)));
    return value < 0 ? "-" + digits : digits;
}

} // namespace

std::string value_text(double value, const std::string& field_name) {
    const auto ends = [&](const char* unit) { return field_name.ends_with(unit) || field_name == unit + 1; };
    if (ends("_ns")) return unit_of_time_text(value);
    if (ends("_us")) return unit_of_time_text(value * 1e3);
    if (ends("_ms")) return unit_of_time_text(value * 1e6);
    if (ends("_bytes")) {
        constexpr double kib = 1024;
        return in_units(value, {{1, "B"}, {kib, "KiB"}, {kib * kib, "MiB"}, {kib * kib * kib, "GiB"}});
    }
    return plain_text(value);
}

std::string key_text(const CountKey& key, const EventField* field) {
    switch (key.kind) {
    case PLUMB_KEY_NONE:
        return "";
    case PLUMB_KEY_TEXT:
        return escaped(key.text);
    case PLUMB_KEY_CUT_TEXT:
        return escaped(key.text) + "...";
    case PLUMB_KEY_FLOAT:
        return fmt::format("{:g}", std::bit_cast<double>(key.bits));
    default:
        break;
    }
    if (field != nullptr)
        if (const EventLabel* const label = field->label_of(static_cast<std::int64_t>(key.bits)))
            return escaped(label->name) + (!label->is_range() ? ""
                                           : key.kind == PLUMB_KEY_SIGNED
                                               ? fmt::format(" ({})", static_cast<std::int64_t>(key.bits))
                                               : fmt::format(" ({})", key.bits));
    if (field != nullptr && field->hex) {
        const std::uint64_t mask = field->size >= 8 ? ~0ull : (1ull << 8 * field->size) - 1;
        return fmt::format("{:#x}", key.bits & mask);
    }
    if (key.kind == PLUMB_KEY_SIGNED) return fmt::format("{}", static_cast<std::int64_t>(key.bits));
    return fmt::format("{}", key.bits);
}

} // namespace plumb
