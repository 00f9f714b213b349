#include "consumerd/kernel/raw_fields.h"

#include "consumerd/kernel/event_names.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

namespace plumb {
namespace {

std::uint16_t field_number_behind(const std::string& line, std::string_view key) {
    const std::size_t at = line.find(key);
    std::uint16_t number = 0;
    if (at != std::string::npos)
        std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number);
    return number;
}

/* "pid_t pid", "char comm[16]", "__data_loc char[] filename" */
void read_declaration(std::string declaration, RawField& field) {
    const std::size_t space = declaration.rfind(' ');
    field.name = declaration.substr(space == std::string::npos ? 0 : space + 1);
    field.type = space == std::string::npos ? "" : declaration.substr(0, space);
    if (const std::size_t bracket = field.name.find('['); bracket != std::string::npos) {
        field.name.resize(bracket);
        field.is_array = true;
    }
    field.is_array |= field.type.find('[') != std::string::npos;
}

/* Not the number of a transaction (tid_t) or of a port (u32), nor that of a group of NUMA, which is of whoever founded it. */
bool names_a_process(const RawField& field) {
    if (field.is_array || field.bytes != sizeof(std::uint32_t) || field.name.ends_with("ngid")) return false;
    const auto is_called = [&](std::string_view word) {
        return field.name == word || field.name.ends_with("_" + std::string(word));
    };
    const bool is_integer = field.type == "int" || field.type == "unsigned int";
    return field.type == "pid_t" ||
           (is_integer && (is_called("pid") || is_called("tid") || is_called("tgid")));
}

} // namespace

RawFields::RawFields(const std::string& format) {
    std::istringstream lines(format);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("ID: ")) id_ = field_number_behind(line, "ID: ");
        constexpr std::string_view key = "field:";
        const std::size_t begin = line.find(key), end = line.find(';');
        if (line.starts_with("print fmt:")) break;
        if (begin == std::string::npos || end == std::string::npos || end < begin + key.size()) continue;
        RawField field;
        read_declaration(line.substr(begin + key.size(), end - begin - key.size()), field);
        field.offset = field_number_behind(line, "offset:");
        field.bytes = field_number_behind(line, "size:");
        fields_.push_back(std::move(field));
    }
}

const RawField* RawFields::find(std::string_view name) const {
    const auto found =
        std::find_if(fields_.begin(), fields_.end(), [=](const RawField& each) { return each.name == name; });
    return found == fields_.end() ? nullptr : &*found;
}

std::optional<std::int64_t> raw_number(const RawField& field, std::span<const std::byte> event) {
    if (std::size_t{field.offset} + field.bytes > event.size()) return {};
    const std::byte* const from = event.data() + field.offset;
    std::int32_t half = 0;
    std::int64_t whole = 0;
    if (field.bytes == sizeof(whole)) {
        std::memcpy(&whole, from, sizeof(whole));
        return whole;
    }
    if (field.bytes != sizeof(half)) return {};
    std::memcpy(&half, from, sizeof(half));
    return half;
}

std::string raw_text(const RawField& field, std::span<const std::byte> event) {
    const auto location = raw_number(field, event);
    if (!location) return {};
    const auto offset = static_cast<std::size_t>(*location & 0xffff);
    const auto bytes = static_cast<std::size_t>(*location >> 16 & 0xffff);
    if (offset > event.size() || bytes > event.size() - offset) return {};
    const auto* const text = reinterpret_cast<const char*>(event.data() + offset);
    return {text, strnlen(text, bytes)};
}

std::vector<std::uint16_t> process_number_offsets(const std::string& system, const RawFields& fields) {
    const bool is_of_program = is_syscall(system) || system.starts_with("plumb_");
    std::vector<std::uint16_t> offsets;
    for (const RawField& field : fields.all())
        if (names_a_process(field) && (field.name == "common_pid" || !is_of_program))
            offsets.push_back(field.offset);
    return offsets;
}

} // namespace plumb
