/* plumb status [SESSION]: the sessions of plumb-consumerd, and how they are. */
#include "base/number_text.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/session_commands.h"
#include "consumerd/daemon/client.h"
#include "consumerd/daemon/session_description.h"

#include <plumb/abi/state.h>

#include <fmt/format.h>

#include <memory>

namespace plumb {
namespace {

constexpr std::size_t processes_shown = 20;

std::string text_of_member(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? escaped(found->get<std::string>()) : std::string();
}

std::uint64_t number_of(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

double fraction_of(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

void line(const char* what, const std::string& text) {
    print_out("    {:<11} {}\n", *what == '\0' ? std::string() : fmt::format("{}:", what), text);
}

void print_rules(const Json& session) {
    const char* what = "rules";
    for (const Json& each : session.value("rules", Json::array())) {
        const auto rule = read_rule(each);
        line(what, rule ? without_controls(rule_text(*rule)) : std::string("?"));
        what = "";
    }
    if (session.value("rules", Json::array()).empty() && !session.contains("kernel"))
        line(what, "none yet: plumb enable adds some");
}

void print_processes(const Json& session) {
    const Json list = session.value("processes", Json::array());
    std::size_t shown = 0;
    for (const Json& each : list) {
        if (shown++ == processes_shown) break;
        line(shown == 1 ? "processes" : "",
             fmt::format("{}  {}  {}", number_of(each, "pid"), text_of_member(each, "name"),
                         counted(number_of(each, "events"), "event")));
    }
    if (list.size() > processes_shown) line("", fmt::format("and {} more", list.size() - processes_shown));
    for (const Json& each : session.value("unreachable", Json::array()))
        line("unreachable", fmt::format("{}  {}", number_of(each, "pid"), text_of_member(each, "reason")));
}

void print_counts(const Json& session) {
    if (text_of_member(session, "mode") == "overwrite")
        line("snapshots", with_commas(number_of(session, "snapshots")));
    else
        line("events",
             fmt::format("{}, {:.1f} a second, {} on disk", with_commas(number_of(session, "events")),
                         fraction_of(session, "events_per_s"), size_text(number_of(session, "bytes"))));
    const char* what = "lost";
    const Json lost = session.value("lost_by_cause", Json::object());
    for (const auto& [cause, count] : lost.items()) {
        if (!count.is_number_unsigned()) continue;
        line(what, fmt::format("{} {}", counted(count.get<std::uint64_t>(), "event"), escaped(cause)));
        what = "";
    }
}

void print_kernel(const Json& session) {
    if (!session.contains("kernel")) return;
    const Json kernel = session.value("kernel", Json::object());
    const char* what = "kernel";
    for (const Json& each : kernel.value("events", Json::array())) {
        line(what, each.is_string() ? escaped(each.get<std::string>()) : std::string("?"));
        what = "";
    }
    line("",
         fmt::format(
             "{}, {} unread in {} of {}, {} lost", counted(number_of(kernel, "events_recorded"), "event"),
             with_commas(number_of(kernel, "events_unread")), counted(number_of(kernel, "cpus"), "buffer"),
             size_text(number_of(kernel, "buffer_bytes")), with_commas(number_of(kernel, "events_lost"))));
}

void print_places(const Json& session) {
    const char* what = "others";
    for (const Json& each : session.value("places", Json::array())) {
        line(what, fmt::format("user {}  {}  {}, {} lost", number_of(each, "user"),
                               text_of_member(each, "path"), counted(number_of(each, "events"), "event"),
                               with_commas(number_of(each, "events_lost"))));
        what = "";
    }
    for (const Json& each : session.value("reached_late", Json::array()))
        line("found late", fmt::format("{}  {}", number_of(each, "pid"), text_of_member(each, "reason")));
}

void print_buffers(const Json& session) {
    const Json buffers = session.value("buffers", Json::object()),
               memory = session.value("memory", Json::object());
    line("buffers",
         fmt::format("{} of {}, the fullest {:.1f}% full; {} of memory, the worker {}",
                     counted(number_of(buffers, "rings"), "ring"),
                     size_text(number_of(buffers, "ring_bytes")), fraction_of(buffers, "fullest_percent"),
                     size_text(number_of(memory, "channel_bytes")),
                     size_text(number_of(memory, "worker_bytes"))));
}

void print_session(const Json& session) {
    const std::string name = text_of_member(session, "name");
    if (const std::string problem = text_of_member(session, "problem"); !problem.empty()) {
        print_out("{}  {}\n", name, problem);
    } else {
        print_out("{}  {}  {}  {}\n", name, session.value("started", false) ? "started" : "stopped",
                  text_of_member(session, "mode"), text_of_member(session, "output"));
        print_rules(session);
        print_processes(session);
        print_counts(session);
        print_kernel(session);
        print_places(session);
        print_buffers(session);
        for (const Json& each : session.value("triggers", Json::array()))
            line("trigger", trigger_line(each));
        for (const Json& each : session.value("problems", Json::array()))
            if (each.is_string()) line("problem", without_controls(each.get<std::string>()));
    }
    if (const std::uint64_t restarts = number_of(session, "worker_restarts"); restarts != 0)
        line("worker", fmt::format("started again {}: {}", counted(restarts, "time"),
                                   text_of_member(session, "worker_last_end")));
}

void print_status(const Json& answer) {
    const auto sessions = answer.find("sessions");
    if (sessions == answer.end()) return print_session(answer);
    if (sessions->empty()) print_out("There is no session: `plumb create` makes one.\n");
    for (const Json& session : *sessions)
        print_session(session);
}

void add_status(CLI::App& app) {
    auto words = std::make_shared<SessionWords>();
    CLI::App* const command = app.add_subcommand("status", "Show the sessions, and how they are");
    command->add_option("SESSION", words->session, "One of them; default: all")
        ->check(is_name(sizeof(plumb_session::name) - 1));
    add_json(*command, words->json);
    command->footer(
        "Of each: rules, processes that have such events, events a second, losses by cause, how full "
        "its buffers\nare, memory, and whether its worker had to be started again. plumb list shows "
        "what else records.");
    command->callback([words] {
        const Json request = words->session.empty() ? Json::object() : Json{{"session", words->session}};
        const auto answer = ask_daemon("status", request, say_error);
        if (!answer) return finish(complain(answer.error()));
        if (words->json)
            put_out(answer->dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        else
            print_status(*answer);
        finish(0);
    });
}

const Command status_command(add_status, 16);

} // namespace
} // namespace plumb
