#include "cli/list_kernel.h"

#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/output.h"
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/syscall_arguments.h"
#include "consumerd/kernel/tracefs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<KernelSelector>> selectors_of(const std::vector<std::string>& patterns) {
    std::vector<KernelSelector> selectors;
    for (const std::string& pattern : patterns) {
        auto selector = KernelSelector::parse(pattern);
        if (!selector) return selector.error();
        selectors.push_back(std::move(*selector));
    }
    return selectors;
}

/* Only patterns that leave out: all others. */
bool is_wanted(const std::vector<KernelSelector>& selectors, const TracefsEvent& event) {
    bool any_included = false, included = false;
    for (const KernelSelector& selector : selectors) {
        const bool matches = selector.matches(event.system, event.name);
        if (selector.exclude && matches) return false;
        any_included |= !selector.exclude;
        included |= !selector.exclude && matches;
    }
    return included || !any_included;
}

bool any_is_system_alone(const std::vector<KernelSelector>& selectors) {
    return std::any_of(selectors.begin(), selectors.end(), [](const KernelSelector& selector) {
        return selector.text.find(':') == std::string::npos;
    });
}

std::string format_path(const std::string& root, const TracefsEvent& event) {
    return fmt::format("{}/events/{}/{}/format", root, event.system, event.name);
}

void print_fields(const KernelEvent& event) {
    print_out("        in the trace: {}\n", without_controls(event.description.name));
    for (const EventField& field : event.description.fields)
        print_out("        {}: {}\n", without_controls(field.name), without_controls(field.type_name()));
}

Json json_of(const TracefsEvent& event, const KernelEvent& parsed) {
    Json fields = Json::array();
    for (const EventField& field : parsed.description.fields)
        fields.push_back({{"name", field.name}, {"type", field.type_name()}});
    return {{"event", event.system + ":" + event.name},
            {"name_in_trace", parsed.description.name},
            {"fields", std::move(fields)}};
}

/* As a recording knows them that may tell strings of system calls. */
void know_texts(FormatParser& parser, const std::string& root, const std::vector<TracefsEvent>& events) {
    if (const auto strings = read_small_file(root + "/printk_formats", std::size_t{16} << 20))
        parser.know_constant_strings(*strings);
    constexpr std::string_view entry_prefix = "sys_enter_";
    TextArguments calls;
    for (const TracefsEvent& event : events) {
        if (event.system != "syscalls" || !event.name.starts_with(entry_prefix)) continue;
        const std::string call = event.name.substr(entry_prefix.size());
        const auto format = read_small_file(format_path(root, event));
        if (!format || !syscall_number(call)) continue;
        if (auto arguments = text_arguments_of(call, *format); !arguments.empty())
            calls.emplace(call, std::move(arguments));
    }
    parser.know_told_texts(std::move(calls));
}

} // namespace

int list_kernel_events(const std::vector<std::string>& patterns, bool verbose, bool json) {
    const auto selectors = selectors_of(patterns);
    if (!selectors) return complain(selectors.error());
    const auto root = tracefs_root();
    if (!root) return complain(root.error());
    auto events = list_tracefs_events(*root);
    if (!events) return complain(events.error());
    std::erase_if(*events, [&](const TracefsEvent& event) { return !is_wanted(*selectors, event); });
    FormatParser parser;
    if (verbose || json) know_texts(parser, *root, *events);
    Json list = Json::array();
    int status = 0;
    std::size_t shown = 0;
    for (const TracefsEvent& event : *events) {
        shown++;
        if (!json) print_out("    {}:{}\n", without_controls(event.system), without_controls(event.name));
        if (!json && !verbose) continue;
        const auto format = read_small_file(format_path(*root, event));
        const auto parsed =
            format ? parser.parse(event.system, *format) : Result<KernelEvent>(format.error());
        if (!parsed)
            status = complain(parsed.error());
        else if (json)
            list.push_back(json_of(event, *parsed));
        else
            print_fields(*parsed);
    }
    if (json)
        print_out("{}\n",
                  Json{{"events", std::move(list)}}.dump(2, ' ', false, Json::error_handler_t::replace));
    else if (shown == 0)
        print_error("plumb: the kernel has no such events.{}\n",
                    any_is_system_alone(*selectors)
                        ? " A name without a colon is that of a system: write syscalls:openat, '*:openat'."
                        : "");
    return status;
}

} // namespace plumb
