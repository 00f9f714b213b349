#include "consumerd/drain/channel_entries.h"

#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <tuple>
#include <utility>

namespace plumb {
namespace {

/* Processes whose maps are read for objects that nobody described: about 50 us each, much longer where thousands of
 * files are mapped. */
constexpr LoadedObjects::Looks looks_of_a_turn{4, 0, 10'000'000, false};
constexpr LoadedObjects::Looks looks_at_the_end{64, UINT64_MAX, 500'000'000, true};
constexpr size_t looked_for_in_a_turn = 1000;
/* Some 5 us each: of new threads, which are often named after their first event, and of those that are called otherwise later. */
constexpr size_t new_names_of_a_turn = 500;
constexpr size_t old_names_of_a_turn = 50;

bool is_older(const ChannelEntry& a, const ChannelEntry& b) {
    return a.timestamp < b.timestamp;
}

} // namespace

ChannelEntries::ChannelEntries(ChannelReader& reader, bool is_live,
                               std::function<plumb_clock_page()> clock_page,
                               std::shared_ptr<NamesFound> names_found)
    : reader_(reader),
      is_live_(is_live),
      clock_page_(std::move(clock_page)),
      names_found_(std::move(names_found)) {}

uint64_t ChannelEntries::clock_now() const {
    return read_clock(reader_.geometry().clock_mode);
}

/* What is only looked after, and no record needs, gives way where memory runs out. */
template <typename Step>
void ChannelEntries::as_memory_allows(const Step& step) {
    try {
        step();
    } catch (const std::bad_alloc&) {
        without_memory_++;
        thread_names_ = {};
    }
}

void ChannelEntries::take_entries() {
    std::vector<ChannelEntry> taken = reader_.take_new_entries();
    std::stable_sort(taken.begin(), taken.end(), is_older);
    as_memory_allows([&] { held_entries_.reserve(held_entries_.size() + taken.size()); });
    for (ChannelEntry& entry : taken) {
        note_entry(entry);
        as_memory_allows([&] { held_entries_.push_back(std::move(entry)); });
    }
}

/* Writing comes last: it may take long, and what was found out must not be older than its date by then. */
Status ChannelEntries::write(Sink& sink, bool all) try {
    const uint64_t now = clock_now();
    std::vector<ChannelEntry> ready = look_for_new(now, all);
    std::vector<ChannelEntry> names = std::exchange(held_names_, {});
    std::vector<ChannelEntry> changed = what_changed(now, all);
    Status written = write_new(sink, ready, std::move(names), now, all);
    const Status changes_written = changed.empty() ? ok() : sink.write_entries(changed);
    if (changes_written) note_written(changed);
    return written ? changes_written : written;
} catch (const std::bad_alloc&) {
    entries_seen_.reset();
    throw;
}

/* What is younger than `now`, which is before the look at the table, is held back until the next one: then whoever was
 * overlooked, and comes late into a stream that may not go back, has still no record that is older than the place he gets
 * there. So nothing is written there that is dated later. A clock that is set back tells nothing of that kind. */
bool ChannelEntries::is_ready(const ChannelEntry& entry, uint64_t now, bool all) const {
    return all || !is_live_ || reader_.geometry().clock_mode == PLUMB_CLOCK_REALTIME ||
           entry.timestamp <= now;
}

std::vector<ChannelEntry> ChannelEntries::look_for_new(uint64_t now, bool all) {
    entries_seen_ = reader_.entries_added(); /* before the look: what comes meanwhile makes it another one */
    take_entries();
    std::vector<ChannelEntry> ready;
    std::copy_if(held_entries_.begin(), held_entries_.end(), std::back_inserter(ready),
                 [=, this](const ChannelEntry& entry) { return is_ready(entry, now, all); });
    if (ready.empty()) return ready;
    newest_taken_ = now;
    if (names_found_) name_as_found(ready, now);
    as_memory_allows([&] {
        for (const ChannelEntry& entry : ready)
            thread_names_.note(entry, boottime_of(entry.timestamp));
    });
    return ready;
}

/* `names`: that were held. */
Status ChannelEntries::write_new(Sink& sink, const std::vector<ChannelEntry>& ready,
                                 std::vector<ChannelEntry> names, uint64_t now, bool all) {
    if (ready.empty() && names.empty()) return ok();
    const size_t held = names.size();
    names.insert(names.end(), ready.begin(), ready.end());
    std::vector<ChannelEntry> to_write = names;
    std::stable_sort(to_write.begin(), to_write.end(), is_older);
    if (Status written = sink.write_entries(to_write); !written) {
        entries_seen_.reset(); /* tried again */
        names.resize(held);
        held_names_.insert(held_names_.begin(), names.begin(), names.end());
        return written;
    }
    note_written(to_write);
    if (ready.empty()) return ok();
    as_memory_allows([&] {
        for (const ChannelEntry& entry : ready)
            recycler_.note(entry);
    });
    names_found_.reset();
    std::erase_if(held_entries_, [=, this](const ChannelEntry& entry) { return is_ready(entry, now, all); });
    return ok();
}

/* Entries of threads whose names nobody looked after since they were written, and all at once: as they are called now, they
 * are in all that is read here, as far as anybody knows; of those that have ended, as they were found to be before. */
void ChannelEntries::name_as_found(std::vector<ChannelEntry>& entries, uint64_t now) {
    const auto key_of = [](const ChannelEntry& entry) {
        return std::tuple(entry.process_id, entry.thread_id, entry.timestamp);
    };
    NamesFound found;
    std::map<std::pair<uint32_t, uint32_t>, ChannelEntry*> newest; /* numbers are used again */
    for (ChannelEntry& entry : entries) {
        if (entry.type == PLUMB_ENTRY_THREAD) {
            newest[{entry.process_id, entry.thread_id}] = &entry;
            if (const auto before = names_found_->find(key_of(entry)); before != names_found_->end()) {
                entry.name = before->second;
                found.insert(*before);
            }
        }
        thread_names_.note(entry, boottime_of(entry.timestamp));
    }
    for (const ChannelEntry& changed : thread_names_.changed([now] { return now; }, SIZE_MAX).changed) {
        const auto place = newest.find({changed.process_id, changed.thread_id});
        if (place == newest.end()) continue;
        ChannelEntry& entry = *place->second;
        if (!is_same_process(entry.thread_id, boottime_of(entry.timestamp))) continue;
        entry.name = found[key_of(entry)] = changed.name;
    }
    *names_found_ = std::move(found);
}

Status ChannelEntries::introduce_writers(Sink& sink) try {
    if (entries_seen_ == reader_.entries_added()) return ok();
    const uint64_t now = clock_now();
    std::vector<ChannelEntry> ready = look_for_new(now, false);
    return write_new(sink, ready, std::exchange(held_names_, {}), now, false);
} catch (const std::bad_alloc&) {
    entries_seen_.reset();
    throw;
}

/* What has just been asked for is as of now. But as of the look at the table if anybody has come since, by exec() too: he is
 * written behind what is dated here, with the time of his own. */
uint64_t ChannelEntries::date_of_answers(uint64_t now) const {
    const uint64_t asked = clock_now(); /* before the counter: who comes behind that has no older record */
    const uint64_t added = reader_.entries_added();
    const auto has_come = [asked, now](const ChannelEntry& entry) {
        return entry.timestamp > now && entry.timestamp <= asked;
    };
    const bool is_known = added != 0 && entries_seen_ == added && asked > now &&
                          std::none_of(held_entries_.begin(), held_entries_.end(), has_come);
    return is_known ? asked : now;
}

/* Names and objects of those who do not tell of them. They are given a turn to do so. */
std::vector<ChannelEntry> ChannelEntries::what_changed(uint64_t now, bool all) {
    if (!is_live_) return {};
    const uint64_t last_turn = std::exchange(turn_began_, now);
    const size_t names = newest_taken_ > asked_until_ ? new_names_of_a_turn : old_names_of_a_turn;
    if (!names_are_asked_) names_asked_since_ = last_turn;
    ThreadNames::Round round = thread_names_.changed([this] { return clock_now(); }, all ? SIZE_MAX : names);
    names_are_asked_ = !round.is_done;
    if (round.is_done) asked_until_ = names_asked_since_;
    std::vector<ChannelEntry> changed = std::move(round.changed);
    const uint64_t date = date_of_answers(now);
    /* No name is shown before it was given, nor where it was not any more: beside who has come meanwhile it has to wait for him. */
    if (date == now && !all) held_names_ = std::exchange(changed, {});
    LoadedObjects::Looks looks = all ? looks_at_the_end : looks_of_a_turn;
    if (!all) looks.begun_until = last_turn;
    for (ChannelEntry& object : loaded_objects_.found(date, monotonic_now_ns(), looks)) {
        objects_++;
        changed.push_back(std::move(object));
    }
    loaded_objects_.forget_gone(looked_for_in_a_turn);
    return changed;
}

uint64_t ChannelEntries::boottime_of(uint64_t timestamp) const {
    const uint64_t suspended_ns = boottime_now_ns() - read_clock(PLUMB_CLOCK_MONOTONIC);
    return clock_to_monotonic_ns(clock_page_(), timestamp) + suspended_ns;
}

void ChannelEntries::note_entry(const ChannelEntry& entry) {
    newest_ = std::max(newest_, entry.timestamp);
    as_memory_allows([&] {
        loaded_objects_.note(entry, boottime_of(entry.timestamp));
        note_writer(entry);
    });
}

void ChannelEntries::note_writer(const ChannelEntry& entry) {
    objects_ += entry.is_loaded_object() ? 1 : 0;
    count(seen_writers_, entry, boottime_of(entry.timestamp));
}

void ChannelEntries::count(SeenWriters& writers, const ChannelEntry& entry, uint64_t boottime_ns) {
    if (entry.type == PLUMB_ENTRY_THREAD) writers.add_thread(entry.process_id, entry.thread_id);
    if (entry.type == PLUMB_ENTRY_PROCESS)
        writers.add_process({entry.process_id, entry.name, entry.path, boottime_ns});
}

void ChannelEntries::note_written(const std::vector<ChannelEntry>& entries) {
    if (!known_entries_) return;
    as_memory_allows([&] {
        for (const ChannelEntry& entry : entries) {
            known_entries_->note(entry);
            chunk_objects_ += entry.is_loaded_object() ? 1 : 0;
            count(chunk_writers_, entry, boottime_of(entry.timestamp));
        }
    });
}

Status ChannelEntries::take_over(Sink& sink, uint64_t since) {
    const uint64_t now = clock_now();
    const bool keeps_them = known_entries_.has_value();
    if (!keeps_them) keep_for_chunks();
    std::vector<ChannelEntry> ready = look_for_new(now, false);
    for (const ChannelEntry& entry : ready) {
        known_entries_->note(entry);
        recycler_.note(entry);
    }
    std::erase_if(held_entries_,
                  [=, this](const ChannelEntry& entry) { return is_ready(entry, now, false); });
    Status written = begin_chunk(sink, since);
    if (!keeps_them) known_entries_.reset();
    return written;
}

/* What could not be written of it is nowhere else in the chunk. */
Status ChannelEntries::begin_chunk(Sink& sink, uint64_t since) {
    chunk_writers_ = {};
    chunk_objects_ = 0;
    std::vector<ChannelEntry> entries = known_entries_->at(since);
    for (const ChannelEntry& entry : entries) {
        chunk_objects_ += entry.is_loaded_object() ? 1 : 0;
        count(chunk_writers_, entry, boottime_of(entry.timestamp));
    }
    return entries.empty() ? ok() : sink.write_entries(entries);
}

void ChannelEntries::add_chunk_to(DrainTotals& totals) const {
    chunk_writers_.add_to(totals);
    totals.objects = chunk_objects_;
}

void ChannelEntries::recycle() {
    if (is_live_) recycler_.pass(reader_);
}

void ChannelEntries::add_to(DrainTotals& totals) const {
    seen_writers_.add_to(totals);
    totals.objects = objects_;
    if (without_memory_ != 0) add_counts(totals.not_described, {{"no_memory", without_memory_}});
    if (known_entries_) add_if_any(totals.not_described, "not_repeated", known_entries_->left_out());
}

} // namespace plumb
