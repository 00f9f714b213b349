/* The instance of a killed recorder: which events it holds is what is switched on in it, and whatever its probes are. */
#include "base/process_names.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/tracing_instances.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <unistd.h>

namespace plumb {

/* Who cleans up has it for a moment, to look at it. */
static Result<LifeLock> take_left_instance(const std::string& path) {
    constexpr int tries_max = 200;
    constexpr useconds_t pause_us = 5000;
    for (int tries = 1;; tries++) {
        auto lock = take_tracing_instance(path);
        if (lock || lock.error().number() != EBUSY || tries == tries_max) return lock;
        usleep(pause_us);
    }
}

Result<std::unique_ptr<KernelSession>> KernelSession::adopt(std::uint64_t session_cookie) {
    const auto root = tracefs_root();
    return root ? adopt_in(*root, session_cookie, !in_first_namespace()) : root.error();
}

Result<std::unique_ptr<KernelSession>>
KernelSession::adopt_in(const std::string& root, std::uint64_t session_cookie, bool has_other_numbers) {
    const auto names = list_directory(root + "/instances");
    if (!names) return names.error();
    const auto name = std::find_if(names->begin(), names->end(), [=](const std::string& each) {
        return session_cookie != 0 && session_cookie_in(each) == session_cookie;
    });
    if (name == names->end()) return Error("Their tracing instance is gone.").as(ENOENT);
    auto lock = take_left_instance(root + "/instances/" + *name);
    if (!lock) return lock.error();
    stop_instance(root, *name);
    KernelConfig config;
    config.session_cookie = session_cookie;
    if (const auto text = read_small_file(root + "/instances/" + *name + "/buffer_size_kb")) {
        std::uint64_t kilobytes = 0;
        std::from_chars(text->data(), text->data() + text->size(), kilobytes);
        config.buffer_bytes = std::max<std::uint64_t>(kilobytes, 1) << 10;
    }
    std::unique_ptr<KernelSession> session(new KernelSession(root, *name, config));
    session->is_adopted_ = true;
    session->lock_ = std::move(*lock);
    if (Status known = session->know_layout(); !known) return known.error();
    if (has_other_numbers)
        if (Status translated = session->translate_numbers(); !translated) return translated.error();
    if (Status known = session->know_events(); !known) return known.error();
    /* What the recorder read is in its own trace; what was lost since then is in the same number as what it told. */
    for (const std::uint32_t cpu : session->cpus())
        session->leave_out(cpu, {0, 0, session->all_counts(cpu).read});
    return session;
}

Status KernelSession::know_events() {
    for (const ListedProbe& probe : list_probes(root_)) {
        if (!probe.name.starts_with(name_ + "/")) continue;
        probes_.push_back(probe.name);
        made_probes_.push_back(left_probe(probe.name.substr(name_.size() + 1), probe.place));
    }
    std::vector<std::string> names = probes_;
    const auto enabled = read_small_file(path("set_event"), std::size_t{4} << 20);
    if (!enabled) return enabled.error();
    std::istringstream lines(*enabled);
    for (std::string line; std::getline(lines, line);) {
        std::replace(line.begin(), line.end(), ':', '/');
        if (std::find(names.begin(), names.end(), line) == names.end()) names.push_back(line);
    }
    find_told_texts(names);
    for (const std::string& name : names) {
        const std::size_t slash = name.find('/');
        if (slash == std::string::npos) continue;
        auto event = described(name.substr(0, slash), name.substr(slash + 1));
        if (!event) return event.error();
        const auto filter = read_small_file(path("events/" + name + "/filter"));
        event->is_ours =
            filter && (filter->starts_with(filter_of_ours) || is_for_texts_alone(*event, *filter));
        events_.push_back(std::move(*event));
    }
    name_probes();
    return ok();
}

} // namespace plumb
