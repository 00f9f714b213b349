#include "trace/show/late_texts.h"

#include <string>

namespace plumb {

LateTextFinder::LateTextFinder(TraceReader ahead) : ahead_(std::move(ahead)) {
    for (const EventInfo* info : ahead_.event_infos())
        kinds_.push_back(info->name.starts_with(syscall_entry_start)  ? Kind::entry
                         : info->name.starts_with(syscall_exit_start) ? Kind::exit
                         : info->name == syscall_late_text            ? Kind::late_text
                                                                      : Kind::other);
}

const LateTexts* LateTextFinder::of(const Event& entry) {
    const Call call{entry.time_ns, {ahead_.recording_of(entry), entry.thread_id}};
    told_.erase(told_.begin(), told_.lower_bound({entry.time_ns, {}}));
    read_until_over(call);
    if (is_open(call)) return &open_.find(call.thread)->second.texts; /* the trace has ended */
    const auto told = told_.find(call);
    return told == told_.end() ? nullptr : &told->second;
}

void LateTextFinder::read_until_over(const Call& call) {
    if (!is_started_) ahead_.skip_before(call.entry_ns);
    is_started_ = true;
    while (!is_at_end_ && (ahead_ns_ <= call.entry_ns || is_open(call))) {
        const Event* const event = ahead_.next();
        if (event == nullptr)
            is_at_end_ = true;
        else
            take(*event);
    }
}

void LateTextFinder::take(const Event& event) {
    ahead_ns_ = event.time_ns;
    const Kind kind = kinds_[event.info->index];
    if (kind == Kind::other) return;
    const Thread thread(ahead_.recording_of(event), event.thread_id);
    if (kind == Kind::late_text) {
        const auto call = open_.find(thread);
        if (call != open_.end()) (void)call->second.texts.add(event, call->second.name);
        return;
    }
    close(thread);
    if (kind == Kind::entry)
        open_.insert_or_assign(thread,
                               OpenCall{event.time_ns,
                                        std::string_view(event.info->name).substr(syscall_entry_start.size()),
                                        {}});
}

bool LateTextFinder::is_open(const Call& call) const {
    const auto open = open_.find(call.thread);
    return open != open_.end() && open->second.entry_ns == call.entry_ns;
}

void LateTextFinder::close(const Thread& thread) {
    const auto open = open_.find(thread);
    if (open == open_.end()) return;
    if (!open->second.texts.empty())
        told_.insert_or_assign(Call{open->second.entry_ns, thread}, std::move(open->second.texts));
    open_.erase(open);
}

} // namespace plumb
