/*
 * Reads the tables of a channel that counts (<plumb/abi/counts.h>), and adds up what those of all CPUs hold. Nothing in them is
 * believed: what can not be is left out and counted, slot by slot.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_COUNT_READER_H
#define PLUMB_CONSUMERD_CHANNEL_COUNT_READER_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"

#include <plumb/abi/counts.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

struct CountKey {
    plumb_count_key kind = PLUMB_KEY_NONE;
    std::uint64_t bits = 0; /* of a number */
    std::string text;

    auto operator<=>(const CountKey&) const = default;
};

/* What was added up: of integers exact beyond 64 bits. */
struct CountSum {
    __int128 integer = 0;
    double floating = 0;
};

struct Counts {
    std::uint64_t count = 0;
    CountSum sum;
    std::vector<std::uint64_t> buckets; /* PLUMB_COUNT_BUCKETS; empty: there is no histogram */
};

/* Of one event. */
struct CountsOfEvent {
    const ChannelEvent* event = nullptr;   /* the reader's */
    bool has_key = false;                  /* of its own, or of who writes it */
    const EventField* key_field = nullptr; /* if it is one of its own */
    const EventField* sum_field = nullptr; /* what is added up */
    const EventField* hist_field = nullptr;
    std::uint64_t count = 0; /* all of it */
    CountSum sum;
    std::map<CountKey, Counts> by_key; /* one of kind NONE: a histogram of all, or whose key is not known */
    Counts others;                     /* those that found no slot */

    bool sums_floats() const { return sum_field != nullptr && sum_field->type == PLUMB_FIELD_FLOAT; }
};

class CountReader {
public:
    /* `bytes` must outlive the reader; `counts`: as its creator wrote them. */
    static Result<CountReader> open(std::span<const std::byte> bytes, const plumb_counts& counts,
                                    ReaderOptions options = {});

    /* What is there now, of all events that are described. Each table as it was at some instant. */
    std::vector<CountsOfEvent> read();
    std::uint64_t damaged_slots() const { return damaged_slots_; } /* at the last read() */
    /* Events that could not be counted. */
    std::uint64_t not_counted() const;
    const ChannelReader& channel() const { return *reader_; }

private:
    CountReader(std::unique_ptr<ChannelReader> reader, const plumb_counts& counts);
    CountsOfEvent begin(const ChannelEvent& event) const;
    const EventField* find_field(const ChannelEvent& event, const std::string& name) const;
    plumb_count load(const std::byte* at) const;
    static void add(CountSum& sum, const CountsOfEvent& event, std::uint64_t bits);
    void add(CountsOfEvent& event, Counts& to, const plumb_count& count) const;
    void read_table(const std::byte* table, std::vector<CountsOfEvent>& events);
    void read_slot(const std::byte* table, std::uint32_t index, std::vector<CountsOfEvent>& events);
    CountsOfEvent* of_id(std::uint32_t id, std::vector<CountsOfEvent>& events);
    void damaged(const std::string& what);

    std::unique_ptr<ChannelReader> reader_;
    std::string key_, sum_, hist_;
    std::uint32_t slots_, buckets_;
    std::vector<std::uint32_t> index_of_id_; /* 1 + index in what is read; 0: not described */
    std::uint64_t damaged_slots_ = 0;
    bool is_told_ = false;
};

} // namespace plumb

#endif
