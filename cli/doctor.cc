/*
 * plumb doctor: what this machine offers, line by line, each with what to do if it is missing. Exit status 0
 * if programs can be traced here, 1 if not.
 */
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/status_line.h"

#include "consumerd/doctor/machine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace plumb {
namespace {

struct DoctorOptions {
    bool json = false;
};

const char* word_for(const MachineCheck& check) {
    switch (check.finding) {
    case Finding::good:
        return "ok";
    case Finding::limited:
        return "limited";
    case Finding::missing:
        return check.needed ? "MISSING" : "missing";
    }
    return "?";
}

/* Names of sessions are whatever a program has written there: they neither steer a terminal nor look like a line of ours. */
std::string below_each_other(const std::string& text, std::size_t column) {
    std::string shown;
    for (const char letter : without_controls(text)) {
        shown += letter;
        if (letter == '\n') shown.append(column, ' ');
    }
    return shown;
}

void print_text(const std::vector<MachineCheck>& checks) {
    constexpr std::size_t status_width = 11; /* with the blanks around it */
    std::size_t width = 0;
    for (const MachineCheck& check : checks)
        width = std::max(width, check.name.size());
    for (const MachineCheck& check : checks) {
        print_out("{:<{}}  {:<7}  {}\n", check.name, width, word_for(check),
                  below_each_other(check.found, width + status_width));
        if (!check.advice.empty())
            print_out("{:<{}}{}\n", "", width + status_width,
                      below_each_other(check.advice, width + status_width));
    }
    print_out("\n{}\n", can_trace_user_space(checks)
                            ? "Programs can be traced on this machine."
                            : "Programs can not be traced until what is MISSING above is there.");
}

void print_json(const std::vector<MachineCheck>& checks) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const MachineCheck& check : checks) {
        const char* const status = check.finding == Finding::good      ? "ok"
                                   : check.finding == Finding::limited ? "limited"
                                                                       : "missing";
        list.push_back({{"name", check.name},
                        {"status", status},
                        {"needed", check.needed},
                        {"found", check.found},
                        {"advice", check.advice}});
    }
    const nlohmann::ordered_json all = {{"can_trace", can_trace_user_space(checks)}, {"checks", list}};
    print_out("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/* What `plumb record` would take here, if it is not told otherwise. */
MachineCheck check_default_buffers() {
    MachineCheck check{"default-buffers", Finding::limited, false, {}, {}};
    const auto config = channel_config(RecordOptions{});
    const auto layout = config ? lay_out_channel(*config) : config.error();
    if (!layout) {
        check.found = layout.error().message();
        return check;
    }
    check.found = fmt::format("{} for {} rings of {} sub-buffers of {}", size_text(layout->total_bytes),
                              layout->ring_count + layout->extra_ring_count, config->subbuf_count,
                              size_text(config->subbuf_bytes));
    if (const Status possible = check_memory_for(*config); !possible)
        check.advice = possible.error().message();
    else
        check.finding = Finding::good;
    return check;
}

int run_doctor(const DoctorOptions& options) {
    std::vector<MachineCheck> checks = inspect_machine();
    checks.push_back(check_default_buffers());
    if (options.json)
        print_json(checks);
    else
        print_text(checks);
    return can_trace_user_space(checks) ? 0 : 1;
}

void add_doctor(CLI::App& app) {
    auto options = std::make_shared<DoctorOptions>();
    CLI::App* const command =
        app.add_subcommand("doctor", "Show what this machine offers, and what to do about what it lacks");
    command->add_flag("--json", options->json, "For machines: one JSON object");
    command->callback([options] { finish(run_doctor(*options)); });
}

const Command doctor_command(add_doctor, 90);

} // namespace
} // namespace plumb
