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

/* Locked, and as it is. */
Result<std::unique_ptr<KernelSession>> KernelSession::open_left(const std::string& root,
                                                                const KernelConfig& config) {
    const auto names = list_directory(root + "/instances");
    if (!names) return names.error();
    const auto name = std::find_if(names->begin(), names->end(), [&](const std::string& each) {
        return config.session_cookie != 0 && session_cookie_in(each) == config.session_cookie;
    });
    if (name == names->end()) return Error("Their tracing instance is gone.").as(ENOENT);
    auto lock = take_left_instance(root + "/instances/" + *name);
    if (!lock) return lock.error();
    std::unique_ptr<KernelSession> session(new KernelSession(root, *name, config));
    session->is_adopted_ = true;
    session->lock_ = std::move(*lock);
    session->know_buffer_size();
    return session;
}

void KernelSession::know_buffer_size() {
    const auto text = read_small_file(path("buffer_size_kb"));
    if (!text) return;
    std::uint64_t kilobytes = 0;
    std::from_chars(text->data(), text->data() + text->size(), kilobytes);
    config_.buffer_bytes = std::max<std::uint64_t>(kilobytes, 1) << 10;
}

Result<std::unique_ptr<KernelSession>>
KernelSession::adopt_in(const std::string& root, std::uint64_t session_cookie, bool has_other_numbers) {
    KernelConfig config;
    config.session_cookie = session_cookie;
    auto opened = open_left(root, config);
    if (!opened) return opened;
    KernelSession* const session = opened->get();
    stop_instance(root, session->name_);
    if (Status known = session->know_layout(); !known) return known.error();
    if (has_other_numbers)
        if (Status translated = session->translate_numbers(); !translated) return translated.error();
    if (Status known = session->know_events(); !known) return known.error();
    /* What the recorder read is in its own trace; what was lost since then is in the same number as what it told. */
    for (const std::uint32_t cpu : session->cpus())
        session->leave_out(cpu, {0, 0, session->all_counts(cpu).read});
    return opened;
}

/* What died with its process are the programs that read strings. Others can not take their place: they would run behind the events of
 * the calls, whose turn comes in the order in which they were made, and their strings would be taken for the next call's. */
Result<std::unique_ptr<KernelSession>> KernelSession::take_over(const KernelConfig& config) {
    const auto root = tracefs_root();
    if (!root) return root.error();
    auto opened = open_left(*root, config);
    if (!opened) return opened;
    KernelSession* const session = opened->get();
    if (Status known = session->know_layout(); !known) return known.error();
    if (Status known = session->know_events(); !known) return known.error();
    session->know_filters();
    session->is_adopted_ = false;
    const bool had_texts = std::any_of(session->events_.begin(), session->events_.end(),
                                       [](const KernelEvent& event) { return event.id == late_text_id; });
    if (had_texts)
        session->texts_problem_ = Error("What reads them ended with the worker that had begun with it.");
    return opened;
}

void KernelSession::remove_kept(std::uint64_t session_cookie) {
    const auto root = tracefs_root();
    if (!root) return;
    KernelConfig config;
    config.session_cookie = session_cookie;
    auto left = open_left(*root, config);
    if (!left) return;
    for (const ListedProbe& probe : list_probes(*root))
        if (probe.name.starts_with((*left)->name_ + "/")) (*left)->probes_.push_back(probe.name);
    (void)(*left)->remove();
}

/* Of those that are recorded, whether there is one. */
void KernelSession::know_filters() {
    for (const KernelEvent& event : events_) {
        auto filter = read_small_file(path("events/" + event.system + "/" + event.raw_name + "/filter"));
        if (!filter || event.is_ours || filter->starts_with("none")) continue;
        filters_[event.system + "/" + event.raw_name].push_back(std::move(*filter));
    }
}

Status KernelSession::know_events() {
    for (const ListedProbe& probe : list_probes(root_)) {
        if (!probe.name.starts_with(name_ + "/")) continue;
        probes_.push_back(probe.name);
        made_probes_.push_back(left_probe(probe.name.substr(name_.size() + 1), probe.place, probe.arguments));
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
        event->has_filter = filter && !filter->starts_with("none") && !event->is_ours;
        events_.push_back(std::move(*event));
    }
    name_probes();
    return ok();
}

} // namespace plumb
