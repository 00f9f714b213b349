/*
 * Who writes into a channel: the entries in which processes, threads and objects tell of themselves, and what is found out
 * of them besides (names that were changed, objects that nobody told of). A trace has them in a stream of their own, in the
 * order of their times, each in front of the records that need it.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_CHANNEL_ENTRIES_H
#define PLUMB_CONSUMERD_DRAIN_CHANNEL_ENTRIES_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"
#include "consumerd/channel/loaded_objects.h"
#include "consumerd/channel/thread_names.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/known_entries.h"
#include "consumerd/drain/seen_writers.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace plumb {

class ChannelEntries {
public:
    /* `reader` and what `clock_page` needs must stay. `is_live`: its writers may be at work, and are asked for by /proc.
     * `names_found`: of a live snapshot, else nullptr. */
    ChannelEntries(ChannelReader& reader, bool is_live, std::function<plumb_clock_page()> clock_page,
                   std::shared_ptr<NamesFound> names_found);

    /* In each turn, before its records; `all`: at the end, when nobody comes any more. */
    Status write(Sink& sink, bool all);
    /* Those that have come since, before records that may be theirs. */
    Status introduce_writers(Sink& sink);
    /* Gives the entries of who is gone back to writers. */
    void recycle();
    /* From now on what is written is kept, for a trace of several chunks. */
    void keep_for_chunks() { known_entries_.emplace(); }
    /* Once, before write(): those that are there are in a chunk that another drain has written, and are told again in this one,
     * which begins at that time. */
    Status take_over(Sink& sink, uint64_t since);
    /* A chunk begins, with the records behind that time: all that may be of it is written again. */
    Status begin_chunk(Sink& sink, uint64_t since);
    /* Of this chunk alone. */
    void add_chunk_to(DrainTotals& totals) const;
    /* The time of the newest one; 0: there was none. */
    uint64_t newest() const { return newest_; }
    void add_to(DrainTotals& totals) const;

private:
    uint64_t clock_now() const;
    bool is_ready(const ChannelEntry& entry, uint64_t now, bool all) const;
    std::vector<ChannelEntry> look_for_new(uint64_t now, bool all);
    Status write_new(Sink& sink, const std::vector<ChannelEntry>& ready, std::vector<ChannelEntry> names,
                     uint64_t now, bool all);
    std::vector<ChannelEntry> what_changed(uint64_t now, bool all);
    uint64_t date_of_answers(uint64_t now) const;
    void take_entries();
    void name_as_found(std::vector<ChannelEntry>& entries, uint64_t now);
    template <typename Step>
    void as_memory_allows(const Step& step);
    void note_written(const std::vector<ChannelEntry>& entries);
    static void count(SeenWriters& writers, const ChannelEntry& entry, uint64_t boottime_ns);
    void note_entry(const ChannelEntry& entry);
    void note_writer(const ChannelEntry& entry);
    uint64_t boottime_of(uint64_t timestamp) const;

    ChannelReader& reader_;
    bool is_live_;
    std::function<plumb_clock_page()> clock_page_;
    std::vector<ChannelEntry> held_entries_;
    std::vector<ChannelEntry>
        held_names_; /* found in the last turn; written in the order of time with those who came then */
    std::optional<uint64_t>
        entries_seen_; /* of those that writers have counted: all that were are written, or held */
    uint64_t newest_ = 0;
    uint64_t newest_taken_ = 0; /* when the last entries were taken */
    uint64_t asked_until_ = 0;  /* those that were taken up to then may have got other names since */
    uint64_t names_asked_since_ = 0;
    bool names_are_asked_ = false; /* some of them: the rest in the next turns */
    uint64_t turn_began_ = 0;
    ThreadNames thread_names_;
    std::shared_ptr<NamesFound> names_found_; /* until names are given by it */
    LoadedObjects loaded_objects_;
    EntryRecycler recycler_;
    SeenWriters seen_writers_;
    uint64_t objects_ = 0;
    std::optional<KnownEntries> known_entries_;
    SeenWriters chunk_writers_;
    uint64_t chunk_objects_ = 0;
    uint64_t without_memory_ = 0; /* how often something could not be looked after */
};

} // namespace plumb

#endif
