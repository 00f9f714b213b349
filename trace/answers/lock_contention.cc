#include "trace/answers/lock_contention.h"

#include <algorithm>
#include <optional>

namespace plumb {
namespace {

struct LockFields : SkipVisitor {
    LockFields(const Step* address_step, const Step* waited_step, const Step* caller_step)
        : address_step_(address_step), waited_step_(waited_step), caller_step_(caller_step) {}
    void integer(const Step& step, uint64_t value) {
        if (&step == address_step_) address = value;
        if (&step == waited_step_) waited_ns = value;
        if (&step == caller_step_) caller = value;
    }
    uint64_t address = 0, waited_ns = 0, caller = 0;

private:
    const Step* address_step_;
    const Step* waited_step_;
    const Step* caller_step_;
};

const Step* find_step(const Plan& plan, std::string_view name) {
    for (const Step& step : plan.steps)
        if (step.kind == StepKind::integer && step.name == name) return &step;
    return nullptr;
}

} // namespace

const char* lock_kind_name(LockKind kind) {
    switch (kind) {
    case LockKind::rwlock:
        return "rwlock";
    case LockKind::spin:
        return "spin";
    default:
        return "mutex";
    }
}

LockContention::LockContention(TraceReader& reader) : reader_(reader) {
    for (const EventInfo* info : reader.event_infos())
        meanings_.push_back(meaning_of(*info));
}

LockContention::Meaning LockContention::meaning_of(const EventInfo& info) {
    Meaning meaning;
    for (const LockKind kind : {LockKind::mutex, LockKind::rwlock, LockKind::spin}) {
        const std::string lock = lock_kind_name(kind);
        const std::string prefix = "pthread:" + lock + "_";
        if (!info.name.starts_with(prefix)) continue;
        const std::string what = info.name.substr(prefix.size());
        meaning.kind = kind;
        meaning.address = find_step(info.fields, lock);
        meaning.waited_ns = find_step(info.fields, "waited_ns");
        meaning.caller = find_step(info.fields, "caller");
        if (meaning.address == nullptr) return {};
        if (what == "wait") meaning.action = Action::wait;
        if (what == "acquired") meaning.action = Action::acquired;
        if (what == "released") meaning.action = Action::released;
    }
    return meaning;
}

void LockContention::acquire(Lock& lock, const Event& event, uint64_t waited_ns) {
    LockUse& use = lock.use;
    ++use.acquired_count;
    if (waited_ns > 0) ++use.contended_count;
    use.waited_ns += waited_ns;
    use.max_waited_ns = std::max(use.max_waited_ns, waited_ns);
    const auto place = std::lower_bound(lock.threads.begin(), lock.threads.end(), event.thread_id);
    if (place == lock.threads.end() || *place != event.thread_id) lock.threads.insert(place, event.thread_id);
    for (Holder& holder : lock.holders)
        if (holder.thread_id == event.thread_id) {
            ++holder.depth;
            return;
        }
    /* Who holds it alone ends all other holds: their end was lost. */
    if (use.kind != LockKind::rwlock) lock.holders.clear();
    lock.holders.push_back({event.thread_id, 1, event.time_ns});
}

void LockContention::release(Lock& lock, const Event& event) {
    ++lock.use.released_count;
    const auto holder = std::find_if(lock.holders.begin(), lock.holders.end(),
                                     [&](const Holder& h) { return h.thread_id == event.thread_id; });
    if (holder == lock.holders.end() || --holder->depth > 0) return;
    const auto held_ns = static_cast<uint64_t>(std::max<int64_t>(event.time_ns - holder->since_ns, 0));
    lock.use.held_ns += held_ns;
    lock.use.max_held_ns = std::max(lock.use.max_held_ns, held_ns);
    lock.holders.erase(holder);
}

void LockContention::add(const Event& event) {
    const Meaning& meaning = meanings_[event.info->index];
    if (meaning.action == Action::none) return;
    LockFields fields(meaning.address, meaning.waited_ns, meaning.caller);
    if (!visit_fields(event, fields)) return;
    ++lock_events_;
    const uint32_t process_id = reader_.process_id_of(event);
    Lock& lock = locks_[{process_id, fields.address}];
    lock.use.kind = meaning.kind;
    lock.use.process_id = process_id;
    lock.use.address = fields.address;
    if (meaning.action == Action::wait) {
        if (meaning.caller != nullptr) ++lock.callers[fields.caller];
    } else if (meaning.action == Action::acquired) {
        acquire(lock, event, fields.waited_ns);
    } else {
        release(lock, event);
    }
}

std::vector<LockUse> LockContention::result() const {
    std::vector<LockUse> uses;
    for (const auto& [key, lock] : locks_) {
        LockUse use = lock.use;
        use.thread_count = lock.threads.size();
        for (const auto& [caller, count] : lock.callers)
            if (count > use.busiest_caller_count ||
                (count == use.busiest_caller_count && caller < use.busiest_caller)) {
                use.busiest_caller = caller;
                use.busiest_caller_count = count;
            }
        uses.push_back(use);
    }
    std::sort(uses.begin(), uses.end(), [](const LockUse& a, const LockUse& b) {
        if (a.waited_ns != b.waited_ns) return a.waited_ns > b.waited_ns;
        if (a.acquired_count != b.acquired_count) return a.acquired_count > b.acquired_count;
        return std::pair(a.process_id, a.address) < std::pair(b.process_id, b.address);
    });
    return uses;
}

} // namespace plumb
