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

const std::string task_system = "task";

} // namespace

void TranslatedRecords::clear() {
    bytes_.clear();
    last_end_ = 0;
    count_ = 0;
}

Piece TranslatedRecords::piece() const {
    Piece piece;
    piece.records = std::span(bytes_).first(last_end_);
    piece.record_count = count_;
    piece.first_timestamp = first_timestamp_;
    piece.last_timestamp = last_timestamp_;
    return piece;
}

Translator::Translator(const std::vector<KernelEvent>& events)
    : by_id_(std::numeric_limits<uint16_t>::max() + 1u) {
    for (const KernelEvent& event : events)
        by_id_[event.id] = &event;
}

bool Translator::translate(RawPage& page, TranslatedRecords& to) {
    for (RawEvent event; page.next(event);)
        translate_event(event, to);
    return !page.is_damaged();
}

void Translator::translate_event(const RawEvent& raw, TranslatedRecords& to) {
    CommonFields common;
    seen_events_++;
    if (raw.data.size() < sizeof(common)) {
        damaged_events_++;
        return;
    }
    std::memcpy(&common, raw.data.data(), sizeof(common));
    const KernelEvent* const event = by_id_[common.type];
    if (event == nullptr) {
        unknown_events_++;
        return;
    }
    if (event->system == task_system) note(*event, raw, common.thread_id);
    if (event->is_ours) return;
    std::vector<std::byte>& bytes = to.bytes_;
    const size_t start = (bytes.size() + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    bytes.resize(start + PLUMB_RECORD_HEADER_BYTES);
    const bool is_whole = translate_payload(*event, raw.data, bytes);
    const size_t length = bytes.size() - start;
    /* Time never goes back in a ring; where a damaged page says so, its event does not count. */
    const bool is_in_order = raw.timestamp >= to.last_timestamp_;
    if (!is_whole || !is_in_order || length > PLUMB_RECORD_MAX_BYTES) {
        bytes.resize(to.last_end_);
        damaged_events_++;
        return;
    }
    const plumb_record header = {raw.timestamp, common.type, static_cast<uint16_t>(length), common.thread_id};
    std::memcpy(bytes.data() + start, &header, sizeof(header));
    if (to.count_++ == 0) to.first_timestamp_ = raw.timestamp;
    to.last_timestamp_ = raw.timestamp;
    to.last_end_ = bytes.size();
}

/* By the payload, whose fields are in the order of the description: task_newtask has pid, comm, clone_flags ...,
 * task_rename (pid,) oldcomm, newcomm ... */
void Translator::note(const KernelEvent& event, const RawEvent& raw, uint32_t by_thread_id) {
    constexpr uint64_t clone_thread_flag = 0x00010000;
    const bool is_new = event.raw_name == "task_newtask";
    if (!is_new && event.raw_name != "task_rename") return;
    scratch_.clear();
    if (!translate_payload(event, raw.data, scratch_)) return;
    ThreadNote note{raw.timestamp, by_thread_id, by_thread_id, is_new, false, ""};
    size_t at = 0;
    for (const EventField& field : event.description.fields) {
        if (at >= scratch_.size() || field.type == PLUMB_FIELD_SEQUENCE) break;
        if (field.type == PLUMB_FIELD_STRING) {
            const auto* text = reinterpret_cast<const char*>(scratch_.data() + at);
            if (field.name == "comm" || field.name == "newcomm") note.name = text;
            at += std::strlen(text) + 1;
            continue;
        }
        uint64_t value = 0;
        if (field.size > sizeof(value) || at + field.size > scratch_.size()) break;
        std::memcpy(&value, scratch_.data() + at, field.size);
        if (field.name == "pid") note.thread_id = static_cast<uint32_t>(value);
        if (field.name == "clone_flags") note.is_process = (value & clone_thread_flag) == 0;
        at += size_t{field.size} * std::max<uint16_t>(field.array_length, 1);
    }
    notes_.push_back(std::move(note));
}

} // namespace plumb
