/*
 * Reads a channel that nobody vouches for: a live mapping that traced programs write at this moment, or the
 * dead bytes of a snapshot, a core file or a killed recorder. One reader for all of them; the records
 * themselves are walked ring by ring by ring_reader.h.
 *
 * What always holds:
 *  - nothing outside the given bytes is touched, whatever the bytes say;
 *  - what is decided from was copied first, so it cannot change between check and use;
 *  - the geometry is taken once, when the channel is opened; later changes to the header have no effect;
 *  - whatever cannot be used is counted by name and costs only itself.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_CHANNEL_READER_H
#define PLUMB_CONSUMERD_CHANNEL_CHANNEL_READER_H

#include "base/result.h"
#include "consumerd/channel/channel_geometry.h"
#include "consumerd/channel/writer_numbers.h"
#include "consumerd/clock/wall_clock_steps.h"
#include "consumerd/event/channel_event.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/frame_name.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace plumb {

/* What was found damaged, and is therefore missing. */
enum class Damage : uint8_t {
    records,   /* records that make no sense, each left out by itself */
    subbufs,   /* sub-buffers: cut short where the next record cannot be found */
    positions, /* positions of rings that cannot be */
    events,    /* event descriptions */
    entries,   /* process, thread and object entries */
    header,    /* what stands in the header for good */
    clock,     /* the clock page of a channel whose recorder is gone */
    losses,    /* counters of what was lost */
    counts,    /* slots of tables of counts */
};
constexpr size_t damage_kinds = 9;
/* "damaged_records" ... */
const char* damage_name(Damage kind);

/* A process, thread or object entry. */
struct ChannelEntry {
    plumb_entry_type type;
    uint64_t timestamp;            /* cycles */
    uint32_t process_id;           /* what the trace calls it */
    uint32_t thread_id;            /* the same */
    uint32_t own_process_id;       /* what it calls itself */
    uint32_t own_thread_id;        /* the same */
    uint32_t space;                /* inode of its process-id namespace, if that is not ours; else 0 */
    uint32_t parent_process_id;    /* process */
    uint32_t user_id;              /* process */
    std::string name;              /* process, thread */
    std::string path;              /* process: its executable; object: its file */
    uint64_t base;                 /* object */
    uint64_t bytes;                /* object */
    std::vector<uint8_t> build_id; /* object */
    uint32_t slot;                 /* where it stands in the channel */
    uint64_t slot_value;           /* 0: it does not */

    /* And not the name of a function in made code. */
    bool is_loaded_object() const { return type == PLUMB_ENTRY_OBJECT && !PLUMB_IS_FRAME_NAME(base); }
};

struct ReaderOptions {
    /* Live: written now, so no record can be newer than the clock, and what is damaged must be mended for those who
     * go on writing. The first of the reader's bytes then; else nullptr. */
    std::byte* shared = nullptr;
    /* Told about damage, one line each time; repeated damage of one kind is told only so often. */
    std::function<void(const std::string&)> log;
    /* How CLOCK_REALTIME is read against CLOCK_MONOTONIC; for tests. */
    std::function<int64_t()> realtime_offset = realtime_offset_ns;
    /* Live: the header as its creator wrote it, where writers have had time to damage it since. */
    std::optional<plumb_channel_header> made_as{};
    /* A channel that counts (count_reader.h): who wants records has nothing of it. */
    bool of_counts = false;
};

/* No clock of a machine gets there, and nanoseconds since 1970 still fit where readers keep them. */
inline constexpr uint64_t newest_of_all = std::numeric_limits<uint64_t>::max() / 4;

class ChannelReader {
public:
    /* `bytes` must outlive the reader; their number is the mapping's real size, not what the header says. */
    static Result<ChannelReader> open(std::span<const std::byte> bytes, ReaderOptions options = {});

    const ChannelGeometry& geometry() const { return geometry_; }
    bool is_live() const { return options_.shared != nullptr; }
    /* A whole copy, or the last one tried if its writer died in the middle. Of a channel whose recorder is gone: checked,
     * and mended. */
    plumb_clock_page clock_page() const { return mended_clock_ ? *mended_clock_ : copy_of_clock_page(); }

    /* The channel's clock as the reader's processor has it, in cycles; newest_of_all where it can not be known: of a dead
     * channel, and of a clock that can be set. */
    uint64_t now() const;
    /* No record or entry can be newer, in cycles. */
    static uint64_t newest_possible(uint64_t now);

    /* Looks for descriptions that were added since; returns how many. */
    size_t scan_events();
    /* In the order in which they were found. */
    const std::deque<ChannelEvent>& events() const { return events_; }
    /* By id; looks into the table again if it is not known yet. nullptr: there is none. */
    const ChannelEvent* find_event(uint32_t id);

    /* How long a record of this event must be: its one length, or one of the two marks below. */
    uint32_t record_length(uint16_t id) const { return record_length_[id]; }
    /* That of all, 65536 of them; until the next event is found. */
    const uint32_t* record_lengths() const { return record_length_.data(); }
    static constexpr uint32_t length_unknown = 0x10000; /* neither is a 16-bit number, so none matches */
    static constexpr uint32_t length_varies = 0x10001;

    /* Another number than before: entries were added, at any rate those of who wrote a record that was read before. Stays
     * 0 where programs have a runtime that does not count. */
    uint64_t entries_added() const;
    /* Entries that were added since the last call. */
    std::vector<ChannelEntry> take_new_entries();
    /* Records were taken: those who wrote them have an entry by now, if they have one at all. */
    void records_taken() { writers_are_known_ = entries_are_known_ = false; }
    /* What the trace calls the writer of one of those records, whose thread id is tagged, and which is of that time. */
    uint32_t number_of_writer(uint32_t tagged, uint64_t time);
    /* Writers without an entry get a number each, up to so many; further ones share one. */
    static constexpr size_t unnamed_writers_max = 4096;
    static constexpr uint32_t any_further_writer = PLUMB_TAG_UNKNOWN << PLUMB_TAG_SHIFT;
    /* Live only: gives an entry's slot and block back to writers, unless the slot holds something else by now. */
    void free_entry(uint32_t slot, uint64_t slot_value);

    uint64_t lost(uint32_t ring, plumb_loss cause) const;
    uint64_t refused(plumb_refusal what) const;
    uint64_t conditions_refused() const;
    uint64_t left_off() const; /* processes and objects */

    const plumb_ring_control& ring_control(uint32_t ring) const;
    const std::byte* ring_data(uint32_t ring) const;
    /* Live only. */
    plumb_ring_control& shared_control(uint32_t ring) const;
    /* Live only: puts back what the creator wrote into the header, for programs that attach later. */
    void mend_header();

    /* How far the clock was set back while records of it were written: CLOCK_REALTIME of a live channel; else 0. */
    uint64_t clock_set_back() { return wall_clock_ ? wall_clock_->look() : 0; }

    void report_damage(Damage kind, const std::string& what);
    /* The same in two steps: whether it is still to be told, and telling it. */
    bool count_damage(Damage kind);
    void tell_damage(Damage kind, const std::string& what);
    const std::array<uint64_t, damage_kinds>& damage() const { return damage_; }

private:
    /* Up to the clock page, the header never changes. */
    static constexpr size_t fixed_header_bytes = offsetof(plumb_channel_header, clock);
    ChannelReader(std::span<const std::byte> bytes, ChannelGeometry geometry, ReaderOptions options);
    plumb_clock_page copy_of_clock_page() const;
    std::optional<uint64_t> some_timestamp() const;
    void check_clock();
    uint64_t load_slot(uint64_t table_offset, uint32_t index) const;
    bool is_in_heap(uint64_t slot) const;
    bool copy_from_heap(uint64_t slot, size_t limit_bytes, std::vector<std::byte>& out) const;
    bool take_event(uint32_t id);
    void look_for_entries();
    void read_new_entries(std::vector<ChannelEntry>& found);
    void translate(ChannelEntry& entry);
    void look_for_writers();

    std::span<const std::byte> bytes_;
    ChannelGeometry geometry_;
    ReaderOptions options_;
    std::optional<WallClockSteps> wall_clock_;
    std::optional<plumb_clock_page> mended_clock_;
    WriterNumbers numbers_;
    std::unordered_map<uint32_t, uint32_t> process_of_writer_; /* tagged numbers, of thread entries */
    bool writers_are_known_ = false, entries_are_known_ = false;
    uint64_t entries_looked_at_ = 0;
    std::vector<ChannelEntry> new_entries_; /* that nobody has taken yet */
    size_t unnamed_writers_ = 0;
    std::deque<ChannelEvent> events_;
    std::vector<const ChannelEvent*> event_by_id_;
    std::vector<uint32_t> record_length_; /* for every 16-bit id, so that no index needs a check */
    std::vector<bool> event_is_bad_;
    std::vector<uint64_t> entry_taken_; /* by slot: what it held when its entry was taken; 0: nothing */
    std::vector<uint64_t> entry_freed_; /* by slot: what was stored when it was last freed */
    std::array<uint64_t, damage_kinds> damage_{};
    std::array<std::byte, fixed_header_bytes> fixed_header_{}; /* as it was when the channel was opened */
};

} // namespace plumb

#endif
