#include "trace/answers/lock_contention.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace plumb {
namespace {

const Step* find_step(const Plan& plan, std::string_view name) {
    for (const Step& step : plan.steps)
        if (step.kind == StepKind::integer && step.name == name) return &step;
    return nullptr;
}

const Step* find_text(const Plan& plan, std::string_view name) {
    for (const Step& step : plan.steps)
        if ((step.kind == StepKind::string || step.kind == StepKind::text) && step.name == name) return &step;
    return nullptr;
}

} // namespace

const char* lock_kind_name(LockKind kind) {
    switch (kind) {
    case LockKind::rwlock:
        return "rwlock";
    case LockKind::spin:
        return "spin";
    case LockKind::monitor:
        return "monitor";
    case LockKind::synchronizer:
        return "synchronizer";
    default:
        return "mutex";
    }
}

std::string synchronizer_name(std::string_view class_name) {
    for (const std::string_view package : {"java.util.concurrent.locks.", "java.util.concurrent."})
        if (class_name.starts_with(package)) class_name.remove_prefix(package.size());
    for (const auto& [inner, meaning] : {std::pair<std::string_view, const char*>{"$NonfairSync", ""},
                                         {"$FairSync", " (fair)"},
                                         {"$Sync", ""}})
        if (class_name.ends_with(inner))
            return std::string(class_name.substr(0, class_name.size() - inner.size())) + meaning;
    return std::string(class_name);
}

struct LockContention::Fields : SkipVisitor {
    explicit Fields(const Meaning& meaning) : meaning_(meaning) {}
    void integer(const Step& step, uint64_t value) {
        if (&step == meaning_.address) address = value;
        if (&step == meaning_.waited_ns) waited_ns = value;
        if (&step == meaning_.caller) caller = value;
        if (&step == meaning_.mode) mode = value;
        if (&step == meaning_.nature) nature = value;
        if (&step == meaning_.synchronizer) synchronizer = value;
    }
    void text(const Step& step, std::string_view value) {
        if (&step == meaning_.class_name) class_name = value;
        if (&step == meaning_.owner_name) owner_name = value;
    }
    std::string_view class_name, owner_name;
    uint64_t address = 0, waited_ns = 0, caller = 0, mode = 0, nature = 0, synchronizer = 0;

private:
    const Meaning& meaning_;
};

LockContention::LockContention(TraceReader& reader) : reader_(reader) {
    for (const auto& layout : reader.layouts()) {
        const std::size_t first = meanings_.size();
        std::array<bool, lock_kinds> has_waits{};
        for (const auto& info : layout->events()) {
            meanings_.push_back(meaning_of(*info));
            if (meanings_.back().action == Action::wait)
                has_waits[static_cast<std::size_t>(meanings_.back().kind)] = true;
        }
        for (std::size_t i = first; i < meanings_.size(); ++i)
            meanings_[i].has_waits = has_waits[static_cast<std::size_t>(meanings_[i].kind)];
    }
}

LockContention::Meaning LockContention::meaning_of(const EventInfo& info) {
    static constexpr std::pair<std::string_view, Action> actions[] = {
        {"init", Action::made},          {"wait", Action::wait},         {"acquired", Action::acquired},
        {"lock_failed", Action::failed}, {"released", Action::released}, {"unlock_failed", Action::refused}};
    if (info.name.starts_with("jvm:")) return meaning_of_java(info);
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
        meaning.mode = find_step(info.fields, "mode");
        meaning.nature = find_step(info.fields, "kind");
        if (meaning.address == nullptr) return {};
        for (const auto& [name, action] : actions)
            if (what == name) meaning.action = action;
    }
    return meaning;
}

LockContention::Meaning LockContention::meaning_of_java(const EventInfo& info) {
    static constexpr std::tuple<std::string_view, LockKind, Action> events[] = {
        {"jvm:monitor_contended_enter", LockKind::monitor, Action::wait},
        {"jvm:monitor_contended_entered", LockKind::monitor, Action::acquired},
        {"jvm:park", LockKind::synchronizer, Action::wait},
        {"jvm:parked", LockKind::synchronizer, Action::acquired}};
    Meaning meaning;
    for (const auto& [name, kind, action] : events) {
        if (info.name != name) continue;
        meaning.kind = kind;
        meaning.action = action;
    }
    meaning.address = find_step(info.fields, meaning.kind == LockKind::monitor ? "monitor" : "blocker");
    meaning.waited_ns = find_step(info.fields, "waited_ns");
    meaning.class_name = find_text(info.fields, "class_name");
    meaning.owner_name = find_text(info.fields, "owner_name");
    meaning.synchronizer = find_step(info.fields, "synchronizer");
    return meaning.address == nullptr ? Meaning{} : meaning;
}

/* Whether what a thread parks for is something that others hold. It is not where it waits for something to happen: in a condition, as
 * an idle thread of a pool, for a result or a latch. */
bool LockContention::is_lock(const Meaning& meaning, const Fields& fields) {
    if (meaning.kind != LockKind::synchronizer) return true;
    if (fields.class_name == "java.util.concurrent.locks.StampedLock") return true;
    return fields.synchronizer != 0 && fields.class_name != "java.util.concurrent.CountDownLatch$Sync";
}

/* A trace without events of waiting has the times alone. */
bool LockContention::ends_wait(Lock& lock, const Meaning& meaning, uint32_t thread_id, uint64_t waited_ns) {
    const bool waited = lock.waiting.erase(thread_id) > 0 || (!meaning.has_waits && waited_ns > 0);
    if (!waited) return false;
    ++lock.use.contended_count;
    lock.use.waited_ns += waited_ns;
    lock.use.max_waited_ns = std::max(lock.use.max_waited_ns, waited_ns);
    return true;
}

void LockContention::acquire(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields) {
    const uint32_t thread = event.thread_id;
    ++lock.use.acquired_count;
    const bool waited = ends_wait(lock, meaning, thread, fields.waited_ns);
    const auto place = std::lower_bound(lock.threads.begin(), lock.threads.end(), thread);
    if (place == lock.threads.end() || *place != thread) lock.threads.insert(place, thread);
    if (is_known_by_waits(meaning.kind)) return; /* when it is given up is in no event */
    constexpr uint64_t mode_read = 0;
    if (meaning.kind == LockKind::rwlock && fields.mode == mode_read)
        lock.holds.acquire_shared(thread, event.time_ns);
    else
        lock.holds.acquire_alone(thread, event.time_ns, !waited && meaning.kind == LockKind::mutex);
}

void LockContention::fail(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields) {
    if (ends_wait(lock, meaning, event.thread_id, fields.waited_ns)) ++lock.use.in_vain_count;
    lock.holds.settle(event.thread_id);
}

/* As pthread_mutexattr_settype() has them: normal, recursive, errorcheck, adaptive. */
static LockNature nature_of(LockKind kind, uint64_t value) {
    if (kind != LockKind::mutex || value == 0 || value == 3) return LockNature::plain;
    return value == 1 ? LockNature::recursive : value == 2 ? LockNature::checked : LockNature::unknown;
}

void LockContention::wait(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields) {
    if (meaning.caller != nullptr) {
        Caller& caller = lock.callers[fields.caller];
        ++caller.count;
        caller.last_ns = event.time_ns;
    }
    if (!fields.owner_name.empty()) ++lock.owners[std::string(fields.owner_name)];
    lock.waiting.insert(event.thread_id);
    lock.holds.settle(event.thread_id);
}

void LockContention::apply(Lock& lock, const Meaning& meaning, const Event& event, const Fields& fields) {
    const uint32_t thread = event.thread_id;
    switch (meaning.action) {
    case Action::none:
        break;
    case Action::made:
        lock.holds.reset(nature_of(meaning.kind, fields.nature));
        lock.waiting.clear();
        break;
    case Action::wait:
        wait(lock, meaning, event, fields);
        break;
    case Action::acquired:
        acquire(lock, meaning, event, fields);
        break;
    case Action::failed:
        fail(lock, meaning, event, fields);
        break;
    case Action::released:
        ++lock.use.released_count;
        lock.holds.release(thread, event.time_ns);
        break;
    case Action::refused:
        if (lock.use.released_count > 0) --lock.use.released_count;
        lock.holds.refuse(thread);
        break;
    }
}

void LockContention::add(const Event& event) {
    const Meaning& meaning = meanings_[event.info->index];
    if (meaning.action == Action::none) return;
    Fields fields(meaning);
    const bool is_readable = visit_fields(event, fields);
    if (is_readable && !is_lock(meaning, fields)) return;
    ++lock_events_;
    if (!is_readable) {
        ++unreadable_;
        return;
    }
    const uint32_t process_id = reader_.process_id_of(event);
    Lock& lock = locks_[{reader_.recording_of(event), process_id, fields.address}];
    lock.use.kind = meaning.kind;
    lock.use.names = &reader_.names_of(event);
    lock.use.process_id = process_id;
    lock.use.address = fields.address;
    lock.use.last_ns = event.time_ns;
    if (lock.use.class_name.empty()) lock.use.class_name = fields.class_name;
    apply(lock, meaning, event, fields);
}

std::vector<LockUse> LockContention::result() const {
    std::vector<LockUse> uses;
    for (const auto& [key, lock] : locks_) {
        LockUse use = lock.use;
        use.held = lock.holds.times();
        use.thread_count = lock.threads.size();
        for (const auto& [address, caller] : lock.callers)
            if (caller.count > use.busiest_caller_count ||
                (caller.count == use.busiest_caller_count && address < use.busiest_caller)) {
                use.busiest_caller = address;
                use.busiest_caller_count = caller.count;
                use.busiest_caller_ns = caller.last_ns;
            }
        for (const auto& [owner, count] : lock.owners)
            if (count > use.busiest_owner_count) {
                use.busiest_owner = owner;
                use.busiest_owner_count = count;
            }
        uses.push_back(std::move(use));
    }
    std::sort(uses.begin(), uses.end(), [](const LockUse& a, const LockUse& b) {
        if (a.waited_ns != b.waited_ns) return a.waited_ns > b.waited_ns;
        if (a.acquired_count != b.acquired_count) return a.acquired_count > b.acquired_count;
        return std::pair(a.process_id, a.address) < std::pair(b.process_id, b.address);
    });
    return uses;
}

} // namespace plumb
