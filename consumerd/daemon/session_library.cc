/* libplumb-control: the functions of <plumb/session.h>, over the same client as the command's. */
#include "consumerd/daemon/client.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/trigger.h"

#include <plumb/session.h>

#include <cerrno>
#include <new>
#include <string>

struct plumb_control {
    std::string error, answer;
};

namespace {

using plumb::Json;

std::string text(const char* words) {
    return words != nullptr ? words : "";
}

/* No exception leaves the library. */
template <typename Request>
int ask(plumb_control* control, const char* command, const Request& request) {
    if (control == nullptr) return -EINVAL;
    try {
        control->error.clear();
        control->answer.clear();
        const plumb::Result<Json> asked = request();
        const auto answer = asked ? plumb::ask_daemon(command, *asked) : asked;
        if (answer) {
            control->answer = plumb::text_of(*answer);
            return 0;
        }
        control->error = answer.error().message();
        const int number = answer.error().number();
        return number > 0 ? -number : -EIO;
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    } catch (const std::exception&) {
        return -EIO;
    }
}

int ask_of(plumb_control* control, const char* command, const char* name) {
    return ask(control, command, [=]() -> plumb::Result<Json> { return Json{{"session", text(name)}}; });
}

int change(plumb_control* control, const char* command, const char* name, const plumb_session_rule* rules,
           std::size_t count) {
    return ask(control, command, [=]() -> plumb::Result<Json> {
        Json request = {{"session", text(name)}, {"rules", Json::array()}};
        if (count == 0) request["all"] = true;
        for (std::size_t i = 0; i < count; i++) {
            Json rule = {{"event", text(rules[i].event)}};
            if (rules[i].filter != nullptr) rule["filter"] = rules[i].filter;
            if (rules[i].log_level != nullptr) rule["log_level"] = rules[i].log_level;
            if (rules[i].executable != nullptr) rule["executable"] = rules[i].executable;
            if (rules[i].cgroup != nullptr) rule["cgroup"] = rules[i].cgroup;
            if (rules[i].process_id != 0) rule["process"] = rules[i].process_id;
            request["rules"].push_back(std::move(rule));
        }
        return request;
    });
}

plumb::Result<Json> description_of(const char* name, const plumb_session_options& options) {
    const auto output = plumb::output_from_root(text(options.output), text(name));
    if (!output) return output.error();
    Json object = {{"format", 1}, {"name", text(name)}, {"output", *output}};
    const auto put_text = [&](const char* key, const char* value) {
        if (value != nullptr) object[key] = value;
    };
    const auto put_number = [&](const char* key, std::uint64_t value) {
        if (value != 0) object[key] = value;
    };
    put_text("mode", options.mode);
    put_text("clock", options.clock);
    put_text("context", options.context);
    put_number("subbuf_bytes", options.subbuf_bytes);
    put_number("subbuf_count", options.subbuf_count);
    put_number("block_timeout_ns", options.block_timeout_ns);
    put_number("rotate_period_ns", options.rotate_period_ns);
    put_number("rotate_bytes", options.rotate_bytes);
    put_number("keep_chunks", options.keep_chunks);
    put_number("keep_bytes", options.keep_bytes);
    object["rings_on_demand"] = options.rings_on_demand != 0;
    object["plain"] = options.plain != 0;
    object["seccomp"] = options.seccomp != 0;
    if (options.buffers != nullptr) object["buffers"] = options.buffers;
    object["all_users"] = options.all_users != 0;
    if (options.user_count != 0)
        object["users"] = std::vector<std::uint32_t>(options.users, options.users + options.user_count);
    if (options.kernel_event_count != 0) {
        Json kernel = {{"events", Json::array()}};
        for (std::size_t i = 0; i < options.kernel_event_count; i++)
            kernel["events"].push_back(text(options.kernel_events[i]));
        if (options.kernel_buffer_bytes != 0) kernel["buffer_bytes"] = options.kernel_buffer_bytes;
        kernel["file_names"] = options.no_file_names == 0;
        kernel["open_files"] = options.statedump_files != 0;
        object["kernel"] = std::move(kernel);
    }
    return object;
}

plumb::Result<Json> trigger_of(const plumb_session_trigger& words) {
    plumb::Trigger trigger;
    trigger.name = text(words.name);
    if (plumb::Status read = plumb::read_cause(text(words.cause), trigger); !read) return read.error();
    for (std::size_t i = 0; i < words.action_count; i++)
        if (plumb::Status read = plumb::read_action(text(words.actions[i]), trigger); !read)
            return read.error();
    if (words.at_most != 0) trigger.at_most = words.at_most;
    trigger.every_ns = words.every_ns;
    const auto checked = plumb::read_trigger(plumb::trigger_as_json(trigger, false));
    if (!checked) return checked.error();
    return plumb::trigger_as_json(*checked, false);
}

} // namespace

#pragma GCC visibility push(default)

plumb_control* plumb_control_open(void) {
    return new (std::nothrow) plumb_control;
}

void plumb_control_close(plumb_control* control) {
    delete control;
}

const char* plumb_control_error(const plumb_control* control) {
    return control != nullptr ? control->error.c_str() : "There is no control: memory ran out.";
}

const char* plumb_control_answer(const plumb_control* control) {
    return control != nullptr ? control->answer.c_str() : "";
}

int plumb_session_create(plumb_control* control, const char* name, const plumb_session_options* options) {
    return ask(control, "create", [=]() -> plumb::Result<Json> {
        auto described = description_of(name, options != nullptr ? *options : plumb_session_options{});
        if (!described) return described.error();
        return Json{{"description", std::move(*described)}};
    });
}

int plumb_session_enable(plumb_control* control, const char* name, const plumb_session_rule* rules,
                         std::size_t count) {
    return change(control, "enable", name, rules, count);
}

int plumb_session_disable(plumb_control* control, const char* name, const plumb_session_rule* rules,
                          std::size_t count) {
    return change(control, "disable", name, rules, count);
}

int plumb_session_start(plumb_control* control, const char* name) {
    return ask_of(control, "start", name);
}

int plumb_session_stop(plumb_control* control, const char* name) {
    return ask_of(control, "stop", name);
}

int plumb_session_rotate(plumb_control* control, const char* name) {
    return ask_of(control, "rotate", name);
}

int plumb_session_snapshot(plumb_control* control, const char* name) {
    return ask_of(control, "snapshot", name);
}

int plumb_session_clear(plumb_control* control, const char* name) {
    return ask_of(control, "clear", name);
}

int plumb_session_destroy(plumb_control* control, const char* name) {
    return ask_of(control, "destroy", name);
}

int plumb_session_status(plumb_control* control, const char* name) {
    if (name != nullptr) return ask_of(control, "status", name);
    return ask(control, "status", []() -> plumb::Result<Json> { return Json::object(); });
}

int plumb_session_add_trigger(plumb_control* control, const char* name,
                              const plumb_session_trigger* trigger) {
    return ask(control, "add-trigger", [=]() -> plumb::Result<Json> {
        auto checked = trigger_of(trigger != nullptr ? *trigger : plumb_session_trigger{});
        if (!checked) return checked.error().as(EINVAL);
        return Json{{"session", text(name)}, {"trigger", std::move(*checked)}};
    });
}

int plumb_session_remove_trigger(plumb_control* control, const char* name, const char* trigger) {
    return ask(control, "remove-trigger", [=]() -> plumb::Result<Json> {
        return Json{{"session", text(name)}, {"trigger", text(trigger)}};
    });
}

int plumb_session_triggers(plumb_control* control, const char* name) {
    return ask_of(control, "triggers", name);
}

int plumb_session_save(plumb_control* control, const char* name) {
    return ask_of(control, "save", name);
}

int plumb_session_load(plumb_control* control, const char* description) {
    return ask(control, "create", [=]() -> plumb::Result<Json> {
        auto object = plumb::parse_message(text(description));
        if (!object) return object.error();
        return Json{{"description", std::move(*object)}};
    });
}

#pragma GCC visibility pop
