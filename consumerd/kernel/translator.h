/*
 * Turns raw pages into records: the hot path of the kernel domain. Knows nothing of files.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TRANSLATOR_H
#define PLUMB_CONSUMERD_KERNEL_TRANSLATOR_H

#include "consumerd/channel/ring_reader.h"
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/event_payload.h"
#include "consumerd/kernel/global_numbers.h"
#include "consumerd/kernel/own_calls.h"
#include "consumerd/kernel/raw_page.h"
#include "consumerd/kernel/record_filter.h"
#include "consumerd/kernel/syscall_texts.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace plumb {

/* Records of one CPU that follow each other. */
class TranslatedRecords {
public:
    explicit TranslatedRecords(uint32_t cpu = 0) : cpu_(cpu) {}
    void clear(); /* the time of the last record is kept: none may be before it */
    bool empty() const { return count_ == 0; }
    size_t bytes() const { return last_end_; }
    /* Valid until the next change. */
    Piece piece() const;

private:
    friend class Translator;
    std::byte* make_room(size_t bytes); /* behind the last record, aligned */

    std::vector<std::byte> bytes_; /* grows, never shrinks: records up to last_end_, then room */
    size_t last_end_ = 0;          /* of the last record, without what aligns the next */
    uint64_t count_ = 0;
    uint64_t first_timestamp_ = 0;
    uint64_t last_timestamp_ = 0;
    uint32_t cpu_;
};

struct TimeSpan {
    uint64_t from = 0, until = std::numeric_limits<uint64_t>::max();
    bool has(uint64_t time) const { return time >= from && time < until; }
};

/* A thread that began, or got another name, as the kernel's events task_newtask and task_rename tell. */
struct ThreadNote {
    uint64_t timestamp;
    uint32_t thread_id;
    uint32_t by_thread_id; /* who did it */
    bool is_new;
    bool is_process; /* a new one, not a thread of the one that made it */
    std::string name;
    std::string old_name; /* of one that got another; as the kernel's event says */
};

/* Of task_newtask (`is_new`) or task_rename: what a payload of that description tells. */
ThreadNote read_thread_note(const EventDescription& description, bool is_new,
                            std::span<const std::byte> payload, uint64_t timestamp, uint32_t by_thread_id);

/* Who knows whose threads they are. */
class ForkLookup {
public:
    virtual ~ForkLookup() = default;
    virtual ForkProcesses of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) = 0;
};

class Translator {
public:
    /* `events` must live as long, and so must `numbers`: what the machine's are called here; and `forks`, without which each
     * thread counts as a process of its own. `texts_marker`: of messages that tell strings of system calls (syscall_texts.h);
     * empty: there are none. */
    explicit Translator(const std::vector<KernelEvent>& events, GlobalNumbers* numbers = nullptr,
                        ForkLookup* forks = nullptr, std::string texts_marker = "");

    /* Null: all of them are wanted. */
    void filter_by(RecordFilter* filter) { filter_ = filter; }

    /* Appends the events of a page. False if part of it could not be understood: that is dropped. `was_noted`: its notes
     * were taken already. Of another time than `wanted` nothing is. */
    bool translate(RawPage& page, TranslatedRecords& to, bool was_noted = false, TimeSpan wanted = {});

    /* Only the notes of a page that is translated later; the time of its last event. */
    uint64_t note_page(RawPage page, TimeSpan wanted = {});

    /* Leaves these out; they must live as long. */
    void leave_out(const OwnCalls& calls) { own_calls_ = &calls; }

    /* Whether any event of the buffers was lost until now: then what was told of a call may be of one whose event was. */
    void ask_for_losses(const std::function<bool()>& has_lost_events) {
        texts_.ask_for_losses(has_lost_events);
        late_texts_.ask_for_losses(has_lost_events);
    }

    /* Events were lost behind the last page. */
    void forget_texts() {
        texts_.forget();
        late_texts_.forget();
    }

    std::vector<ThreadNote> take_notes() { return std::exchange(notes_, {}); }
    /* All events of the pages so far, also those that are not in the trace. */
    uint64_t seen_events() const { return seen_events_; }
    /* Of them, those that are not meant to be: what told strings of system calls, what a command's process called before it was
     * the command, and what others did. */
    uint64_t left_out_events() const { return left_out_events_; }
    /* Whether strings of system calls are told among the events. */
    bool is_told_texts() const { return telling_ != nullptr && !calls_with_texts_.empty(); }
    /* Events that were dropped: of a kind that was not asked for, or damaged. */
    uint64_t unknown_events() const { return unknown_events_; }
    uint64_t damaged_events() const { return damaged_events_; }

private:
    void translate_event(const RawEvent& given, TranslatedRecords& to, bool was_noted);
    void translate_call(const KernelEvent& event, const RawEvent& raw, uint32_t thread_id,
                        TranslatedRecords& to);
    bool take_told_text(const RawEvent& raw, uint32_t thread_id, bool is_own_call, TranslatedRecords& to);
    bool is_left_out(const KernelEvent& event, const TranslatedRecords& to, uint32_t thread_id,
                     uint32_t call) const;
    void add_late_text(const RawEvent& raw, uint32_t thread_id, const TextTag& tag, TranslatedRecords& to);
    void add(const RawEvent& raw, uint16_t id, uint32_t thread_id, std::byte* start, const std::byte* end,
             TranslatedRecords& to);

    bool is_wanted(const KernelEvent& event, const RawEvent& raw);
    /* With numbers of here; in `to`. */
    RawEvent renumbered(const KernelEvent& event, const RawEvent& raw, std::vector<std::byte>& to) const;
    ForkProcesses processes_of(const KernelEvent& event, const RawEvent& raw) const;
    void note(const KernelEvent& event, const RawEvent& raw, uint32_t by_thread_id);

    ForkLookup* forks_;
    const OwnCalls* own_calls_ = nullptr;
    std::vector<const KernelEvent*> by_id_;
    GlobalNumbers* numbers_;
    RecordFilter* filter_ = nullptr;
    std::vector<uint32_t> named_;
    std::vector<std::byte> renumbered_, renumbered_ahead_; /* the latter of pages that are looked at ahead */
    const KernelEvent* telling_ = nullptr;                 /* the event that tells texts */
    std::string texts_marker_;
    std::map<uint32_t, const KernelEvent*> calls_with_texts_; /* by their number */
    TextsOfThreads texts_, late_texts_;
    /* By CPU and thread: the call that it is in, if that has a filter and is in the trace. */
    std::unordered_map<uint64_t, uint32_t> filtered_calls_;
    std::vector<std::byte> scratch_;
    std::vector<ThreadNote> notes_;
    uint64_t seen_events_ = 0;
    uint64_t left_out_events_ = 0;
    uint64_t unknown_events_ = 0;
    uint64_t damaged_events_ = 0;
};

} // namespace plumb

#endif
