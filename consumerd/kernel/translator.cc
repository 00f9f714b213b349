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

Translator::Translator(const std::vector<KernelEvent>& events, GlobalNumbers* numbers, ForkLookup* forks)
    : forks_(forks), by_id_(std::numeric_limits<uint16_t>::max() + 1u), numbers_(numbers) {
    for (const KernelEvent& event : events)
        by_id_[event.id] = &event;
}

bool Translator::translate(RawPage& page, TranslatedRecords& to, bool was_noted) {
    for (RawEvent event; page.next(event);)
        translate_event(event, to, was_noted);
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

RawEvent Translator::renumbered(const KernelEvent& event, const RawEvent& raw) {
    renumbered_.assign(raw.data.begin(), raw.data.end());
    for (const uint16_t offset : event.process_numbers) {
        uint32_t number = 0;
        if (offset + sizeof(number) > renumbered_.size()) continue;
        std::memcpy(&number, renumbered_.data() + offset, sizeof(number));
        number = numbers_->here(number, raw.timestamp);
        std::memcpy(renumbered_.data() + offset, &number, sizeof(number));
    }
    return {raw.timestamp, renumbered_};
}

uint64_t Translator::note_page(RawPage page) {
    uint64_t last = 0;
    for (RawEvent raw; page.next(raw);) {
        CommonFields common;
        last = std::max(last, raw.timestamp);
        if (raw.data.size() < sizeof(common)) continue;
        std::memcpy(&common, raw.data.data(), sizeof(common));
        const KernelEvent* const event = by_id_[common.type];
        if (event == nullptr || !has_note(*event) || (filter_ != nullptr && !is_wanted(*event, raw))) continue;
        const RawEvent here = numbers_ != nullptr ? renumbered(*event, raw) : raw;
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
    seen_events_++;
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
    if (filter_ != nullptr && !is_wanted(*event, given)) return;
    const RawEvent raw = numbers_ != nullptr ? renumbered(*event, given) : given;
    std::memcpy(&common.thread_id, raw.data.data() + offsetof(CommonFields, thread_id),
                sizeof(common.thread_id));
    if (has_note(*event) && !was_noted) note(*event, raw, common.thread_id);
    if (event->is_ours) return;
    if (own_calls_ != nullptr && is_system_call(*event) && own_calls_->has(common.thread_id, raw.timestamp))
        return;
    std::byte* const start = to.make_room(PLUMB_RECORD_HEADER_BYTES + payload_room(*event, raw.data.size()));
    const ForkProcesses processes =
        event->thread_news == ThreadNews::made ? processes_of(*event, raw) : ForkProcesses{};
    const std::byte* const end =
        translate_payload(*event, raw.data, start + PLUMB_RECORD_HEADER_BYTES, processes);
    const size_t length = end != nullptr ? static_cast<size_t>(end - start) : 0;
    /* Time never goes back in a ring; where a damaged page says so, its event does not count. */
    const bool is_in_order = raw.timestamp >= to.last_timestamp_;
    if (end == nullptr || !is_in_order || length > PLUMB_RECORD_MAX_BYTES) {
        damaged_events_++;
        return;
    }
    const plumb_record header = {raw.timestamp, common.type, static_cast<uint16_t>(length), common.thread_id};
    std::memcpy(start, &header, sizeof(header));
    if (to.count_++ == 0) to.first_timestamp_ = raw.timestamp;
    to.last_timestamp_ = raw.timestamp;
    to.last_end_ = static_cast<size_t>(end - to.bytes_.data());
}

/* By the payload, whose fields are in the order of the description: task_newtask has pid, comm, clone_flags ...,
 * task_rename (pid,) oldcomm, newcomm ... */
void Translator::note(const KernelEvent& event, const RawEvent& raw, uint32_t by_thread_id) {
    constexpr uint64_t clone_thread_flag = 0x00010000;
    const bool is_new = event.thread_news == ThreadNews::began;
    scratch_.resize(payload_room(event, raw.data.size()));
    const std::byte* const end = translate_payload(event, raw.data, scratch_.data());
    if (end == nullptr) return;
    const auto payload_bytes = static_cast<size_t>(end - scratch_.data());
    ThreadNote note{raw.timestamp, by_thread_id, by_thread_id, is_new, false, ""};
    size_t at = 0;
    for (const EventField& field : event.description.fields) {
        if (at >= payload_bytes || field.type == PLUMB_FIELD_SEQUENCE) break;
        if (field.type == PLUMB_FIELD_STRING) {
            const auto* text = reinterpret_cast<const char*>(scratch_.data() + at);
            if (field.name == "comm" || field.name == "newcomm") note.name = text;
            at += std::strlen(text) + 1;
            continue;
        }
        uint64_t value = 0;
        if (field.size > sizeof(value) || at + field.size > payload_bytes) break;
        std::memcpy(&value, scratch_.data() + at, field.size);
        if (field.name == "pid") note.thread_id = static_cast<uint32_t>(value);
        if (field.name == "clone_flags") note.is_process = (value & clone_thread_flag) == 0;
        at += size_t{field.size} * std::max<uint16_t>(field.array_length, 1);
    }
    notes_.push_back(std::move(note));
}

} // namespace plumb
