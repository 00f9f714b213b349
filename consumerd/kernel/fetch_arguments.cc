#include "consumerd/kernel/fetch_arguments.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {
namespace {

std::string without_spaces_around(std::string_view text) {
    constexpr std::string_view spaces = " \t\n";
    const std::size_t begin = text.find_first_not_of(spaces);
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(spaces) - begin + 1));
}

bool looks_like_arguments(std::string_view text) {
    return text.find_first_of("%$@\\=") != std::string_view::npos;
}

/* At commas and spaces that are in no parentheses or quotes. */
std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    bool is_quoted = false, is_behind_space = false;
    for (const char each : text) {
        if (each == '"') is_quoted = !is_quoted;
        if (each == '(' || each == '[') depth++;
        if (each == ')' || each == ']') depth--;
        const bool is_space = std::isspace(static_cast<unsigned char>(each)) != 0;
        if (is_quoted || depth > 0 || (each != ',' && !is_space)) {
            if (std::exchange(is_behind_space, false)) parts.emplace_back();
            parts.back() += each;
        } else if (each == ',') {
            parts.emplace_back();
            is_behind_space = false;
        } else if (!parts.back().empty()) {
            is_behind_space = true;
        }
    }
    return parts;
}

bool is_field_name(std::string_view text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::all_of(text.begin(), text.end(),
                       [](unsigned char each) { return std::isalnum(each) != 0 || each == '_'; });
}

/* "%rdi" -> "%di": the kernel has names of its own for registers, without the letter of their width. */
std::string with_kernel_registers(const std::string& text) {
    static const std::set<std::string_view> registers = {"rax", "rbx", "rcx", "rdx", "rsi",
                                                         "rdi", "rbp", "rsp", "rip"};
    std::string result;
    for (std::size_t at = 0; at < text.size(); at++) {
        result += text[at];
        if (text[at] == '%' && registers.contains(std::string_view(text).substr(at + 1, 3))) at++;
    }
    return result;
}

} // namespace

ProbeText split_arguments(const std::string& text) {
    const std::string whole = without_spaces_around(text);
    if (!whole.ends_with(')')) return {whole, ""};
    int depth = 0;
    for (std::size_t at = whole.size(); at-- > 0;) {
        if (whole[at] == ')') depth++;
        if (whole[at] != '(' || --depth != 0) continue;
        const std::string inside = whole.substr(at + 1, whole.size() - at - 2);
        if (!looks_like_arguments(inside)) break;
        return {without_spaces_around(std::string_view(whole).substr(0, at)), without_spaces_around(inside)};
    }
    return {whole, ""};
}

Result<std::string> fetch_arguments(const std::string& text) {
    if (text.empty()) return std::string();
    std::set<std::string> names;
    std::vector<std::string> arguments;
    for (const std::string& part : split_at_commas(text)) {
        if (part.empty()) return Error("({}): an argument is missing beside a comma.", text);
        const std::size_t equals = part.find('=');
        std::string name = fmt::format("arg{}", arguments.size() + 1), value = part;
        if (equals != std::string::npos && part.find_first_of("%$@\\+(") > equals) {
            name = part.substr(0, equals);
            value = part.substr(equals + 1);
        }
        if (!is_field_name(name))
            return Error("({}): \"{}\" is no name of an argument; it has letters, digits and underscores.",
                         text, name);
        if (value.empty()) return Error("({}): the argument {} has no value.", text, name);
        if (value.find("string[") != std::string::npos)
            return Error("({}): {} is an array of texts, which can not be recorded.", text, name)
                .hint("Give each text an argument of its own.");
        if (!names.insert(name).second) return Error("({}): two arguments are called {}.", text, name);
        arguments.push_back(name + "=" + with_kernel_registers(value));
    }
    return fmt::format("{}", fmt::join(arguments, " "));
}

/* [   12.3] trace_uprobe: error: Unknown type is specified
 *   Command: p:plumb_1/uprobe_f /bin/x:0x1234 n=%di:foo
 *                                                   ^ */
std::string refusal_in_log(const std::string& log, const std::string& command) {
    constexpr std::string_view mark = ": error: ", command_line = "  Command: ";
    std::istringstream lines(log);
    std::string why, found;
    for (std::string line; std::getline(lines, line);) {
        if (const std::size_t at = line.find(mark); at != std::string::npos && line.starts_with('['))
            why = line.substr(at + mark.size());
        if (line != std::string(command_line) + command) continue;
        found = why;
        std::string pointer;
        if (!std::getline(lines, pointer)) break;
        const std::size_t caret = pointer.find('^');
        if (caret == std::string::npos || caret < command_line.size()) continue;
        const std::size_t at = std::min(caret - command_line.size(), command.size() - 1);
        const std::size_t begin = command.rfind(' ', at) + 1;
        const std::size_t end = std::min(command.find(' ', begin), command.size());
        if (begin != 0)
            found +=
                fmt::format(":\n  {}\n  {:>{}}", command.substr(begin, end - begin), '^', at - begin + 1);
    }
    return found;
}

} // namespace plumb
