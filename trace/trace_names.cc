#include "trace/trace_names.h"

#include "trace/ctf/frame_name.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace plumb {
namespace {

/* The few fields of a statedump event, by name: a newer version may have more. */
struct StatedumpFields : SkipVisitor {
    void integer(const Step& step, uint64_t value) {
        if (step.name == "pid") process_id = static_cast<uint32_t>(value);
        if (step.name == "tid") thread_id = static_cast<uint32_t>(value);
        if (step.name == "ppid") parent_process_id = static_cast<uint32_t>(value);
        if (step.name == "uid") user_id = static_cast<uint32_t>(value);
        if (step.name == "base") base = value;
        if (step.name == "size") size_bytes = value;
    }
    void text(const Step& step, std::string_view value) {
        if (step.name == "name") name = value;
        if (step.name == "executable" || step.name == "path") path = value;
        if (step.name == "build_id") build_id = value;
    }

    uint32_t process_id = 0, thread_id = 0, parent_process_id = 0, user_id = 0;
    uint64_t base = 0, size_bytes = 0;
    std::string_view name, path, build_id;
};

template <typename Record>
std::size_t index_at(const std::vector<Record>& records, int64_t time_ns) {
    const auto behind = std::upper_bound(records.begin(), records.end(), time_ns,
                                         [](int64_t time, const Record& r) { return time < r.time_ns; });
    return behind == records.begin() ? 0 : static_cast<std::size_t>(behind - records.begin()) - 1;
}

template <typename Record>
void sort_by_time(std::unordered_map<uint32_t, std::vector<Record>>& map) {
    for (auto& [id, records] : map)
        std::stable_sort(records.begin(), records.end(),
                         [](const Record& a, const Record& b) { return a.time_ns < b.time_ns; });
}

} // namespace

void TraceNames::add(const Event& event) {
    if (event.info->statedump == StatedumpKind::none) return;
    StatedumpFields fields;
    if (!visit_fields(event, fields)) return;
    switch (event.info->statedump) {
    case StatedumpKind::process:
        processes_[fields.process_id].push_back({event.time_ns, fields.process_id, fields.parent_process_id,
                                                 fields.user_id, std::string(fields.name),
                                                 std::string(fields.path)});
        main_threads_.push_back(
            {event.time_ns, fields.process_id, fields.process_id, std::string(fields.name)});
        break;
    case StatedumpKind::kernel_thread:
        if (fields.thread_id == fields.process_id)
            processes_[fields.process_id].push_back({event.time_ns, fields.process_id,
                                                     fields.parent_process_id, 0, std::string(fields.name),
                                                     ""});
        [[fallthrough]];
    case StatedumpKind::thread:
        threads_[fields.thread_id].push_back(
            {event.time_ns, fields.thread_id, fields.process_id, std::string(fields.name)});
        break;
    default:
        if (is_frame_name(fields.base)) {
            functions_.try_emplace(fields.base, fields.path);
            break;
        }
        objects_.push_back({event.time_ns, fields.process_id, fields.base, fields.size_bytes,
                            std::string(fields.build_id), std::string(fields.path)});
        break;
    }
}

/* The kernel's events tell names alone. */
void TraceNames::complete_processes() {
    for (auto& [id, records] : processes_)
        for (std::size_t i = 1; i < records.size(); i++) {
            const ProcessRecord& before = records[i - 1];
            ProcessRecord& record = records[i];
            if (!record.executable.empty() || before.executable.empty()) continue;
            record.executable = before.executable;
            if (record.parent_process_id == 0) record.parent_process_id = before.parent_process_id;
            record.user_id = before.user_id;
        }
}

/* Packets follow each other. What is before the first one was there already, but for one that takes no time: so begins who goes on
 * behind a kill, and so a stream ends that somebody else has closed. */
void TraceNames::join_named_times() {
    std::sort(named_times_.begin(), named_times_.end(),
              [](const NamedTime& a, const NamedTime& b) { return a.from_ns < b.from_ns; });
    std::vector<NamedTime> joined;
    for (const NamedTime& time : named_times_)
        if (!joined.empty() && time.from_ns <= joined.back().until_ns)
            joined.back().until_ns = std::max(joined.back().until_ns, time.until_ns);
        else
            joined.push_back(time);
    const auto takes_no_time = [](const NamedTime& time) { return time.from_ns == time.until_ns; };
    if (!joined.empty() && !takes_no_time(joined.front()))
        joined.front().from_ns = std::numeric_limits<int64_t>::min();
    std::erase_if(joined, takes_no_time);
    named_times_ = std::move(joined);
}

/* The place of the first one that is not over by then. */
std::size_t TraceNames::named_time_behind(int64_t time_ns) const {
    const auto found =
        std::lower_bound(named_times_.begin(), named_times_.end(), time_ns,
                         [](const NamedTime& named, int64_t time) { return named.until_ns < time; });
    return static_cast<std::size_t>(found - named_times_.begin());
}

bool TraceNames::is_named_at(int64_t time_ns) const {
    const std::size_t place = named_time_behind(time_ns);
    return place < named_times_.size() && named_times_[place].from_ns <= time_ns;
}

/* In the order of time, and behind a gap once more, also if a program has told of the same within the gap. Objects that are told at one place one after the other are one as long as they
 * are the same. */
void TraceNames::leave_out_repeated() {
    const auto is_same_thread = [this](const ThreadRecord& a, const ThreadRecord& b) {
        return a.process_id == b.process_id && a.name == b.name &&
               named_time_behind(a.time_ns) == named_time_behind(b.time_ns) &&
               is_named_at(a.time_ns) == is_named_at(b.time_ns);
    };
    const auto is_same_process = [](const ProcessRecord& a, const ProcessRecord& b) {
        return a.parent_process_id == b.parent_process_id && a.user_id == b.user_id && a.name == b.name &&
               a.executable == b.executable;
    };
    for (auto& [id, records] : threads_)
        records.erase(std::unique(records.begin(), records.end(), is_same_thread), records.end());
    for (auto& [id, records] : processes_)
        records.erase(std::unique(records.begin(), records.end(), is_same_process), records.end());
    std::stable_sort(objects_.begin(), objects_.end(),
                     [](const ObjectRecord& a, const ObjectRecord& b) { return a.time_ns < b.time_ns; });
    std::map<std::pair<uint32_t, uint64_t>, const ObjectRecord*> last;
    std::vector<ObjectRecord> kept;
    /* What a process had before exec() is not the new program's, though it lies where that one's does. */
    for (const ObjectRecord& object : objects_) {
        const ObjectRecord*& before = last[{object.process_id, object.base}];
        const bool is_repeated = before != nullptr && before->path == object.path &&
                                 before->build_id == object.build_id &&
                                 before->size_bytes == object.size_bytes &&
                                 before->time_ns >= find_image(object.process_id, object.time_ns).from_ns;
        before = &object;
        if (!is_repeated) kept.push_back(object);
    }
    objects_ = std::move(kept);
}

void TraceNames::finish(uint32_t first_number) {
    std::erase_if(main_threads_, [this](const ThreadRecord& t) { return threads_.contains(t.thread_id); });
    for (ThreadRecord& thread : main_threads_)
        threads_[thread.thread_id].push_back(std::move(thread));
    main_threads_.clear();
    join_named_times();
    sort_by_time(threads_);
    sort_by_time(processes_);
    complete_processes();
    if (has_repetitions_) leave_out_repeated();
    std::stable_sort(objects_.begin(), objects_.end(), [](const ObjectRecord& a, const ObjectRecord& b) {
        return std::pair(a.process_id, a.time_ns) < std::pair(b.process_id, b.time_ns);
    });
    next_number_ = first_number;
    for (auto& [id, records] : threads_)
        for (ThreadRecord& record : records)
            record.number = next_number_++;
}

const std::string& TraceNames::function_named(uint64_t frame) const {
    static const std::string none;
    const auto found = functions_.find(function_of_frame_name(frame));
    return found == functions_.end() ? none : found->second;
}

ThreadSpan TraceNames::find_thread(uint32_t thread_id, int64_t time_ns) const {
    const auto found = threads_.find(thread_id);
    if (found == threads_.end()) return {};
    const std::vector<ThreadRecord>& records = found->second;
    const std::size_t index = index_at(records, time_ns);
    ThreadSpan span;
    span.thread = &records[index];
    if (index > 0) span.from_ns = records[index].time_ns;
    if (index + 1 < records.size()) span.until_ns = records[index + 1].time_ns;
    return span;
}

ThreadSpan TraceNames::find_named_thread(uint32_t thread_id, int64_t time_ns) const {
    constexpr int64_t never = std::numeric_limits<int64_t>::max();
    const std::size_t place = named_time_behind(time_ns);
    ThreadSpan span;
    if (place == named_times_.size() || time_ns < named_times_[place].from_ns) {
        if (place > 0) span.from_ns = named_times_[place - 1].until_ns + 1;
        if (place < named_times_.size()) span.until_ns = named_times_[place].from_ns;
        return span;
    }
    const NamedTime& named = named_times_[place];
    span.from_ns = named.from_ns;
    span.until_ns = named.until_ns == never ? never : named.until_ns + 1;
    const auto found = threads_.find(thread_id);
    if (found == threads_.end()) return span;
    const auto is_before = [](const ThreadRecord& record, int64_t time) { return record.time_ns < time; };
    const auto is_behind = [](int64_t time, const ThreadRecord& record) { return time < record.time_ns; };
    const std::vector<ThreadRecord>& all = found->second;
    const auto first = std::lower_bound(all.begin(), all.end(), named.from_ns, is_before);
    const auto end = std::upper_bound(first, all.end(), named.until_ns, is_behind);
    if (first == end) return span;
    const auto next = std::upper_bound(first, end, time_ns, is_behind);
    const auto at = next == first ? first : next - 1;
    span.thread = &*at;
    if (at != first) span.from_ns = at->time_ns;
    if (at + 1 != end) span.until_ns = (at + 1)->time_ns;
    return span;
}

const ProcessRecord* TraceNames::find_process(uint32_t process_id, int64_t time_ns) const {
    const auto found = processes_.find(process_id);
    if (found == processes_.end()) return nullptr;
    return &found->second[index_at(found->second, time_ns)];
}

ProcessImage TraceNames::find_image(uint32_t process_id, int64_t time_ns) const {
    const auto found = processes_.find(process_id);
    if (found == processes_.end()) return {};
    const std::vector<ProcessRecord>& records = found->second;
    const std::size_t index = index_at(records, time_ns);
    ProcessImage image;
    image.process = &records[index];
    const auto is_another = [&](const ProcessRecord& record) {
        return record.executable != records[index].executable;
    };
    for (std::size_t i = index; i-- > 0 && image.from_ns == std::numeric_limits<int64_t>::min();)
        if (is_another(records[i])) image.from_ns = records[i + 1].time_ns;
    const auto next =
        std::find_if(records.begin() + static_cast<std::ptrdiff_t>(index), records.end(), is_another);
    if (next != records.end()) image.until_ns = next->time_ns;
    const auto is_same = [&](const ProcessRecord& record) {
        return !is_another(record) && record.parent_process_id == records[index].parent_process_id;
    };
    std::size_t first = index, behind = index + 1;
    while (first > 0 && is_same(records[first - 1]))
        first--;
    while (behind < records.size() && is_same(records[behind]))
        behind++;
    image.begun_ns = records[first].time_ns;
    if (first > 0) image.same_from_ns = records[first].time_ns;
    if (behind < records.size()) image.same_until_ns = records[behind].time_ns;
    return image;
}

std::span<const ObjectRecord> TraceNames::objects_of(uint32_t process_id) const {
    const auto [first, last] = std::equal_range(
        objects_.begin(), objects_.end(), ObjectRecord{0, process_id, 0, 0, {}, {}},
        [](const ObjectRecord& a, const ObjectRecord& b) { return a.process_id < b.process_id; });
    return {first, last};
}

} // namespace plumb
