#include "consumerd/kernel/translator.h"

#include <plumb/abi/record.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace plumb {
namespace {

/* Every event of the kernel begins with these. */
struct CommonFields {
    uint16_t type;
    uint8_t flags;
    uint8_t preempt_count;
    uint32_t thread_id;
};
static_assert(sizeof(CommonFields) == 8);

bool is_system_call(const KernelEvent& event) {
    return event.system == "syscalls" || event.system == "raw_syscalls";
}

bool has_note(const KernelEvent& event) {
    return event.thread_news == ThreadNews::began || event.thread_news == ThreadNews::renamed;
}

constexpr std::string_view told_prefix = "sys_enter_"; /* of events with texts */

} // namespace

void TranslatedRecords::clear() {
    last_end_ = 0;
    count_ = 0;
}

std::byte* TranslatedRecords::make_room(size_t bytes) {
    constexpr size_t least_growth = size_t{64} << 10;
    const size_t start = (last_end_ + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    if (bytes_.size() < start + bytes) bytes_.resize(std::max(start + bytes, bytes_.size() + least_growth));
    /* What aligns it, and more that it will overwrite. */
    std::memset(bytes_.data() + last_end_, 0, PLUMB_RECORD_ALIGNMENT);
    return bytes_.data() + start;
}

Piece TranslatedRecords::piece() const {
    Piece piece;
    piece.records = std::span(bytes_).first(last_end_);
    piece.record_count = count_;
    piece.first_timestamp = first_timestamp_;
    piece.last_timestamp = last_timestamp_;
    return piece;
}

/* Fields are in the order of the description: task_newtask has pid, comm, clone_flags ..., task_rename (pid,) oldcomm,
 * newcomm ... */
ThreadNote read_thread_note(const EventDescription& description, bool is_new,
                            std::span<const std::byte> payload, uint64_t timestamp, uint32_t by_thread_id) {
    constexpr uint64_t clone_thread_flag = 0x00010000;
    ThreadNote note{timestamp, by_thread_id, by_thread_id, is_new, false, "", ""};
    size_t at = 0;
    for (const EventField& field : description.fields) {
        if (at >= payload.size() || field.type == PLUMB_FIELD_SEQUENCE) break;
        if (field.type == PLUMB_FIELD_STRING) {
            const auto* const text = reinterpret_cast<const char*>(payload.data() + at);
            const size_t length = strnlen(text, payload.size() - at);
            if (field.name == "comm" || field.name == "newcomm") note.name.assign(text, length);
            if (field.name == "oldcomm") note.old_name.assign(text, length);
            at += length + 1;
            continue;
        }
        uint64_t value = 0;
        if (field.size > sizeof(value) || at + field.size > payload.size()) break;
        std::memcpy(&value, payload.data() + at, field.size);
        if (field.name == "pid") note.thread_id = static_cast<uint32_t>(value);
        if (field.name == "clone_flags") note.is_process = (value & clone_thread_flag) == 0;
        at += size_t{field.size} * std::max<uint16_t>(field.array_length, 1);
    }
    return note;
}

Translator::Translator(const std::vector<KernelEvent>& events, GlobalNumbers* numbers, ForkLookup* forks,
                       std::string texts_marker)
    : forks_(forks),
      by_id_(std::numeric_limits<uint16_t>::max() + 1u),
      numbers_(numbers),
      texts_marker_(std::move(texts_marker)) {
    for (const KernelEvent& event : events) {
        by_id_[event.id] = &event;
        if (!texts_marker_.empty() && event.system == "bpf_trace" && event.raw_name == "bpf_trace_printk")
            telling_ = &event;
        if (event.told_texts.empty()) continue;
        if (const auto number = syscall_number(event.raw_name.substr(told_prefix.size())))
            calls_with_texts_[*number] = &event;
    }
}

bool Translator::translate(RawPage& page, TranslatedRecords& to, bool was_noted, TimeSpan wanted) {
    for (RawEvent event; page.next(event);) {
        if (wanted.has(event.timestamp))
            translate_event(event, to, was_noted);
        else
            left_out_events_++;
        seen_events_++; /* behind it: where memory runs out, it is missing */
    }
    return !page.is_damaged();
}

bool Translator::is_wanted(const KernelEvent& event, const RawEvent& raw) {
    named_.clear();
    for (const uint16_t offset : event.process_numbers) {
        uint32_t number = 0;
        if (offset + sizeof(number) > raw.data.size()) continue;
        std::memcpy(&number, raw.data.data() + offset, sizeof(number));
        named_.push_back(number);
    }
    return filter_->wants(named_, raw.timestamp);
}

RawEvent Translator::renumbered(const KernelEvent& event, const RawEvent& raw,
                                std::vector<std::byte>& to) const {
    to.assign(raw.data.begin(), raw.data.end());
    for (const uint16_t offset : event.process_numbers) {
        uint32_t number = 0;
        if (offset + sizeof(number) > to.size()) continue;
        std::memcpy(&number, to.data() + offset, sizeof(number));
        number = numbers_->here(number, raw.timestamp);
        std::memcpy(to.data() + offset, &number, sizeof(number));
    }
    return {raw.timestamp, to};
}

uint64_t Translator::note_page(RawPage page, TimeSpan wanted) {
    uint64_t last = 0;
    for (RawEvent raw; page.next(raw);) {
        CommonFields common;
        if (!wanted.has(raw.timestamp)) continue;
        last = std::max(last, raw.timestamp);
        if (raw.data.size() < sizeof(common)) continue;
        std::memcpy(&common, raw.data.data(), sizeof(common));
        const KernelEvent* const event = by_id_[common.type];
        if (event == nullptr || !has_note(*event)) continue;
        const RawEvent here = numbers_ != nullptr ? renumbered(*event, raw, renumbered_ahead_) : raw;
        std::memcpy(&common.thread_id, here.data.data() + offsetof(CommonFields, thread_id),
                    sizeof(common.thread_id));
        note(*event, here, common.thread_id);
    }
    return last;
}

/* Both threads, as the event has them. */
ForkProcesses Translator::processes_of(const KernelEvent& event, const RawEvent& raw) const {
    ForkProcesses threads;
    if (raw.data.size() < event.least_bytes) return threads;
    std::memcpy(&threads.of_parent, raw.data.data() + event.parent_at, sizeof(threads.of_parent));
    std::memcpy(&threads.of_child, raw.data.data() + event.child_at, sizeof(threads.of_child));
    return forks_ == nullptr ? threads : forks_->of_fork(threads.of_parent, threads.of_child, raw.timestamp);
}

void Translator::translate_event(const RawEvent& given, TranslatedRecords& to, bool was_noted) {
    CommonFields common;
    if (given.data.size() < sizeof(common)) {
        damaged_events_++;
        return;
    }
    std::memcpy(&common, given.data.data(), sizeof(common));
    const KernelEvent* const event = by_id_[common.type];
    if (event == nullptr) {
        unknown_events_++;
        return;
    }
    const bool is_told = has_note(*event) && !was_noted;
    const bool is_anothers = filter_ != nullptr && !is_wanted(*event, given);
    if (is_anothers) left_out_events_++;
    if (is_anothers && !is_told) return;
    const RawEvent raw = numbers_ != nullptr ? renumbered(*event, given, renumbered_) : given;
    std::memcpy(&common.thread_id, raw.data.data() + offsetof(CommonFields, thread_id),
                sizeof(common.thread_id));
    /* Whoever runs another program may run a wanted one next, or start one that does: under the name that is told now. */
    if (is_told) note(*event, raw, common.thread_id);
    if (is_anothers) return;
    const bool is_own_call = own_calls_ != nullptr && (event == telling_ || is_system_call(*event)) &&
                             own_calls_->has(common.thread_id, raw.timestamp);
    if (event == telling_ && take_told_text(raw, common.thread_id, is_own_call, to)) return;
    if (event->is_ours) return;
    if (is_own_call && event != telling_) {
        left_out_events_++;
        return;
    }
    if (!event->told_texts.empty()) return translate_call(*event, raw, common.thread_id, to);
    std::byte* const start = to.make_room(PLUMB_RECORD_HEADER_BYTES + payload_room(*event, raw.data.size()));
    const ForkProcesses processes =
        event->thread_news == ThreadNews::made ? processes_of(*event, raw) : ForkProcesses{};
    const std::byte* const end =
        translate_payload(*event, raw.data, start + PLUMB_RECORD_HEADER_BYTES, processes);
    add(raw, common.type, common.thread_id, start, end, to);
}

/* `start` to `end` is in the room behind the last record; nullptr: it was damaged. */
void Translator::add(const RawEvent& raw, uint16_t id, uint32_t thread_id, std::byte* start,
                     const std::byte* end, TranslatedRecords& to) {
    const size_t length = end != nullptr ? static_cast<size_t>(end - start) : 0;
    /* Time never goes back in a ring; where a damaged page says so, its event does not count. */
    const bool is_in_order = raw.timestamp >= to.last_timestamp_;
    if (end == nullptr || !is_in_order || length > PLUMB_RECORD_MAX_BYTES) {
        damaged_events_++;
        return;
    }
    const plumb_record header = {raw.timestamp, id, static_cast<uint16_t>(length), thread_id};
    std::memcpy(start, &header, sizeof(header));
    if (to.count_++ == 0) to.first_timestamp_ = raw.timestamp;
    to.last_timestamp_ = raw.timestamp;
    to.last_end_ = static_cast<size_t>(end - to.bytes_.data());
}

static uint64_t cpu_and_thread(uint32_t cpu, uint32_t thread_id) {
    return uint64_t{cpu} << 32 | thread_id;
}

/* A program tells of all calls, and the kernel's filter leaves the events of some out: what is told late is of the call that was told of
 * last, which has an event or not. Where the thread has been moved to another CPU meanwhile that is not known, and its string stays
 * unread. */
bool Translator::is_left_out(const KernelEvent& event, const TranslatedRecords& to, uint32_t thread_id,
                             uint32_t call) const {
    if (!event.has_filter) return false;
    const auto found = filtered_calls_.find(cpu_and_thread(to.cpu_, thread_id));
    return found == filtered_calls_.end() || found->second != call;
}

/* What is told of a call stands before it. */
void Translator::translate_call(const KernelEvent& event, const RawEvent& raw, uint32_t thread_id,
                                TranslatedRecords& to) {
    uint32_t call = 0;
    if (raw.data.size() >= event.call_offset + sizeof(call))
        std::memcpy(&call, raw.data.data() + event.call_offset, sizeof(call));
    const TextsOfCall texts = texts_.take(to.cpu_, thread_id, call, raw.timestamp);
    constexpr size_t threads_max = 65'536; /* most have ended since */
    if (filtered_calls_.size() >= threads_max) filtered_calls_.clear();
    if (event.has_filter) filtered_calls_[cpu_and_thread(to.cpu_, thread_id)] = call;
    const size_t room = payload_room(event, raw.data.size(), &texts);
    std::byte* const start = to.make_room(PLUMB_RECORD_HEADER_BYTES + room);
    add(raw, event.id, thread_id, start,
        translate_payload(event, raw.data, start + PLUMB_RECORD_HEADER_BYTES, {}, &texts), to);
}

/* False if it is somebody else's message. */
bool Translator::take_told_text(const RawEvent& raw, uint32_t thread_id, bool is_own_call,
                                TranslatedRecords& to) {
    scratch_.resize(payload_room(*telling_, raw.data.size()));
    if (translate_payload(*telling_, raw.data, scratch_.data()) == nullptr) return false;
    const auto told = told_text(reinterpret_cast<const char*>(scratch_.data()), texts_marker_);
    if (!told) return false;
    left_out_events_++;
    if (is_own_call) return true;
    if (!told->tag.is_late) {
        texts_.add(to.cpu_, thread_id, *told, raw.timestamp);
        filtered_calls_.erase(cpu_and_thread(to.cpu_, thread_id)); /* the next one begins */
        return true;
    }
    const bool is_whole = late_texts_.add(to.cpu_, thread_id, *told, raw.timestamp).is_whole(told->tag.index);
    if (is_whole) add_late_text(raw, thread_id, told->tag, to);
    return true;
}

/* Which call, which argument, and the text: strings one after the other, as late_text_event() says. */
void Translator::add_late_text(const RawEvent& raw, uint32_t thread_id, const TextTag& tag,
                               TranslatedRecords& to) {
    const TextsOfCall texts = late_texts_.take(to.cpu_, thread_id, tag.call, raw.timestamp);
    const auto call = calls_with_texts_.find(tag.call);
    if (call == calls_with_texts_.end() || by_id_[late_text_id] == nullptr) return;
    const KernelEvent& event = *call->second;
    const auto argument = std::find_if(event.told_texts.begin(), event.told_texts.end(),
                                       [&](const TextArgument& each) { return each.index == tag.index; });
    if (argument == event.told_texts.end()) return;
    if (is_left_out(event, to, thread_id, tag.call)) return;
    const std::string_view parts[] = {std::string_view(event.raw_name).substr(told_prefix.size()),
                                      argument->name, texts.text(tag.index)};
    size_t room = PLUMB_RECORD_HEADER_BYTES;
    for (const std::string_view part : parts)
        room += part.size() + 1;
    std::byte* const start = to.make_room(room);
    std::byte* end = start + PLUMB_RECORD_HEADER_BYTES;
    for (const std::string_view part : parts) {
        std::memcpy(end, part.data(), part.size());
        end[part.size()] = std::byte{0};
        end += part.size() + 1;
    }
    add(raw, late_text_id, thread_id, start, end, to);
    left_out_events_--;
}

void Translator::note(const KernelEvent& event, const RawEvent& raw, uint32_t by_thread_id) {
    scratch_.resize(payload_room(event, raw.data.size()));
    const std::byte* const end = translate_payload(event, raw.data, scratch_.data());
    if (end == nullptr) return;
    const auto payload = std::span(scratch_).first(static_cast<size_t>(end - scratch_.data()));
    notes_.push_back(read_thread_note(event.description, event.thread_news == ThreadNews::began, payload,
                                      raw.timestamp, by_thread_id));
}

} // namespace plumb
