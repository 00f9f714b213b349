#include "consumerd/kernel/syscall_arguments.h"

#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

/* Data of a length that another argument has. */
bool is_text_data(const std::string& call, std::string_view field) {
    static const std::set<std::string> calls = {"write", "pwrite64", "mq_timedsend"};
    return calls.contains(call) && (field == "buf" || field == "u_msg_ptr");
}

/* What the kernel only reads is `const`, but for some old calls, among buffers that it fills. */
bool is_text_without_const(const std::string& call, std::string_view field) {
    static const std::set<std::pair<std::string, std::string_view>> known = {
        {"mount", "dev_name"}, {"mount", "dir_name"}, {"mount", "type"},
        {"umount", "name"},    {"utime", "filename"}, {"utimes", "filename"}};
    return known.contains({call, field});
}

/* `envp` is another one, which nobody wants in every trace: it has secrets. */
bool is_text_list(const std::string& call, std::string_view field) {
    return (call == "execve" || call == "execveat") && field == "argv";
}

std::optional<std::uint32_t> number_behind_key(std::string_view line, std::string_view key) {
    const std::size_t at = line.find(key);
    std::uint32_t number = 0;
    if (at == std::string_view::npos) return {};
    const auto [end, wrong] =
        std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number);
    return wrong == std::errc() ? std::optional(number) : std::nullopt;
}

} // namespace

/* Lines such as "	field:const char * filename;	offset:24;	size:8;	signed:0;". Arguments stand behind the number of
 * the call, each in eight bytes. */
std::vector<TextArgument> text_arguments_of(const std::string& call, const std::string& format) {
    constexpr std::uint32_t first_offset = 16, argument_bytes = 8;
    constexpr std::string_view key = "\tfield:", constant = "const ", pointer = "char * ",
                               list = "char *const * ";
    std::vector<TextArgument> found;
    std::istringstream lines(format);
    for (std::string line; std::getline(lines, line);) {
        std::string_view rest = line;
        if (!rest.starts_with(key)) continue;
        rest.remove_prefix(key.size());
        const bool is_const = rest.starts_with(constant);
        if (is_const) rest.remove_prefix(constant.size());
        const bool is_list = is_const && rest.starts_with(list);
        if (!is_list && !rest.starts_with(pointer)) continue;
        rest.remove_prefix(is_list ? list.size() : pointer.size());
        const std::string_view name = rest.substr(0, rest.find(';'));
        const auto offset = number_behind_key(rest, "offset:");
        if (is_list && !is_text_list(call, name)) continue;
        if (is_const ? is_text_data(call, name) : !is_text_without_const(call, name)) continue;
        if (!offset || *offset < first_offset) continue;
        const std::uint32_t index = (*offset - first_offset) / argument_bytes;
        if (index < syscall_arguments_max)
            found.push_back({static_cast<std::uint8_t>(index), std::string(name), is_list});
    }
    return found;
}

std::optional<std::uint32_t> syscall_number(const std::string& call) {
    /* Younger than the headers of Debian 12. From 424 on they are the same on every processor. */
    static const std::map<std::string, std::uint32_t> younger = {
        {"uretprobe", 335},         {"uprobe", 336},
        {"cachestat", 451},         {"fchmodat2", 452},
        {"map_shadow_stack", 453},  {"futex_wake", 454},
        {"futex_wait", 455},        {"futex_requeue", 456},
        {"statmount", 457},         {"listmount", 458},
        {"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460},
        {"lsm_list_modules", 461},  {"mseal", 462},
        {"setxattrat", 463},        {"getxattrat", 464},
        {"listxattrat", 465},       {"removexattrat", 466},
        {"open_tree_attr", 467},    {"file_getattr", 468},
        {"file_setattr", 469}};
    static const std::map<std::string, std::uint32_t> numbers = [] {
        std::map<std::string, std::uint32_t> all = younger;
        for (const SyscallNumber& each : syscall_numbers)
            all[each.name] = each.number;
        return all;
    }();
    /* tracefs names a call by the function that it is, the headers as it was called first. */
    static const std::map<std::string, std::string> other_names = {
        {"newstat", "stat"},   {"newlstat", "lstat"},      {"newfstat", "fstat"},
        {"newuname", "uname"}, {"sendfile64", "sendfile"}, {"umount", "umount2"}};
    const auto other = other_names.find(call);
    const std::string& name = other == other_names.end() ? call : other->second;
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

} // namespace plumb
