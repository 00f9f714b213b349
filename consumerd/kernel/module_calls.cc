#include "consumerd/kernel/module_calls.h"

#include "base/file.h"
#include "consumerd/kernel/syscall_arguments.h"
#include "consumerd/kernel/tracefs.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

constexpr std::string_view entry_begin = "sys_enter_", exit_begin = "sys_exit_";
/* In which programs give arguments to a call. */
constexpr std::uint16_t call_registers[PLUMB_CALL_ARGUMENTS_MAX] = {PLUMB_REGISTER_DI, PLUMB_REGISTER_SI,
                                                                    PLUMB_REGISTER_DX, PLUMB_REGISTER_R8 + 2,
                                                                    PLUMB_REGISTER_R8, PLUMB_REGISTER_R8 + 1};

plumb_kernel_fetch fetch_of(const EventField& field, std::uint16_t register_number) {
    plumb_kernel_fetch fetch{};
    fetch.source = PLUMB_FETCH_REGISTER;
    fetch.number = register_number;
    fetch.size = field.size;
    fetch.type = PLUMB_FIELD_INTEGER;
    if (field.type == PLUMB_FIELD_STRING) {
        fetch.type = PLUMB_FIELD_STRING;
        fetch.depth = 1;
        fetch.flags = PLUMB_FETCH_USER(0);
    }
    return fetch;
}

bool is_of_register(const EventField& field) {
    return field.type == PLUMB_FIELD_INTEGER || field.type == PLUMB_FIELD_ENUM ||
           field.type == PLUMB_FIELD_STRING;
}

bool name_texts(const EventDescription& description, plumb_kernel_probe& late) {
    for (std::size_t i = 0; i < description.fields.size(); i++) {
        const EventField& field = description.fields[i];
        if (field.type != PLUMB_FIELD_STRING) continue;
        if (field.name.size() >= sizeof(late.names[i])) return false;
        std::copy(field.name.begin(), field.name.end(), late.names[i]);
    }
    return true;
}

/* A list of strings is an address here. */
TextArguments told_texts_of_call(const std::string& call, const std::string& format) {
    auto texts = text_arguments_of(call, format);
    std::erase_if(texts, [](const TextArgument& text) { return text.is_list; });
    return {{call, std::move(texts)}};
}

} // namespace

std::optional<ModuleCall> module_call(const std::string& name, const std::string& format, bool file_names) {
    const bool is_entry = name.starts_with(entry_begin);
    if (!is_entry && !name.starts_with(exit_begin)) return {};
    const std::string call = name.substr(is_entry ? entry_begin.size() : exit_begin.size());
    const auto number = syscall_number(call);
    if (!number) return {};
    FormatParser parser;
    if (is_entry && file_names) parser.know_told_texts(told_texts_of_call(call, format));
    auto event = parser.parse("syscalls", format);
    if (!event) return {};
    const auto& fields = event->description.fields;
    if (fields.size() > PLUMB_CALL_ARGUMENTS_MAX ||
        !std::all_of(fields.begin(), fields.end(), is_of_register))
        return {};
    ModuleCall made{name, std::move(event->description), {}, {}};
    made.description.provider = "syscalls";
    made.request.flags = PLUMB_PROBE_CALL | (is_entry ? 0 : PLUMB_PROBE_RETURN);
    made.request.offset = *number;
    for (std::uint32_t& i = made.request.fetch_count; i < made.description.fields.size(); i++)
        made.request.fetches[i] = fetch_of(made.description.fields[i],
                                           is_entry ? call_registers[i] : std::uint16_t{PLUMB_REGISTER_AX});
    const bool has_text =
        std::any_of(made.description.fields.begin(), made.description.fields.end(),
                    [](const EventField& field) { return field.type == PLUMB_FIELD_STRING; });
    plumb_kernel_probe late = made.request;
    if (!has_text || call.size() >= sizeof(late.symbol) || !name_texts(made.description, late)) return made;
    late.flags |= PLUMB_PROBE_RETURN | PLUMB_PROBE_LATE;
    std::copy(call.begin(), call.end(), late.symbol);
    made.late = late;
    return made;
}

Result<ModuleCalls> module_calls(bool file_names) {
    const auto root = tracefs_root();
    if (!root) return root.error();
    const std::string folder = *root + "/events/syscalls";
    const auto names = list_directory(folder);
    if (!names) return names.error().hint("The kernel was built without CONFIG_FTRACE_SYSCALLS.");
    ModuleCalls calls;
    for (const std::string& name : *names) {
        const auto format = read_small_file(folder + "/" + name + "/format");
        if (!format) continue;
        if (auto call = module_call(name, *format, file_names))
            calls.all.push_back(std::move(*call));
        else
            calls.left_out.push_back(name);
    }
    return calls;
}

} // namespace plumb
