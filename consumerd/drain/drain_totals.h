/*
 * What a drain can say about its work: while it runs (a few numbers for a status line), and afterwards, with
 * every loss under the name of its cause.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_DRAIN_TOTALS_H
#define PLUMB_CONSUMERD_DRAIN_DRAIN_TOTALS_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* While it runs. */
struct DrainProgress {
    uint64_t events = 0;                        /* written to the trace */
    uint64_t events_discarded = 0;              /* lost one by one, whatever the cause */
    uint64_t subbufs_lost = 0;                  /* lost as a whole: overwritten, damaged */
    uint64_t bytes = 0;                         /* of the trace */
    uint64_t chunk_events = 0, chunk_bytes = 0; /* of the chunk that is written, where there are several */
    uint64_t damaged_records = 0;               /* of events_discarded */
    uint64_t damaged_subbufs = 0;               /* of subbufs_lost */
    uint64_t events_not_written = 0;            /* of events_discarded: the trace's disk took them not */
};

struct NamedCount {
    std::string name;
    uint64_t count;
};

/* Nothing if it did not happen. To what another drain counted by that name. */
void add_if_any(std::vector<NamedCount>& to, std::string name, uint64_t count);
/* By name. */
void add_counts(std::vector<NamedCount>& to, const std::vector<NamedCount>& from);

struct TracedName {
    uint32_t process_id;
    std::string name;
    std::string executable;
    uint64_t introduced_boottime_ns = 0; /* when it said who it is: it has been there since before */
};

/* How good the conversion of timestamps is. */
struct ClockQuality {
    std::string clock;       /* "tsc", "mono", "boot", "real" */
    std::string rate_source; /* "kernel", "cpuid", "measured", "nanoseconds" */
    uint64_t frequency_hz = 0;
    uint64_t baseline_ns = 0;        /* 0: the rate was not refined */
    uint64_t uncertainty_ns = 0;     /* of the base pair */
    uint64_t worst_deviation_ns = 0; /* of any pair read during the session from the line used */
    int64_t apart_ns = 0;            /* how far the cycle counter went ahead of CLOCK_MONOTONIC, or back */
};
/* For a person, if the two went apart; else empty. */
std::string went_apart_text(const ClockQuality& clock);

/* In the totals' `missed`. */
inline constexpr const char* missed_probe_hits_name =
    "hits of probes were missed by the kernel, of whichever process";

struct DrainTotals {
    DrainProgress progress;
    uint64_t packets = 0;
    std::vector<NamedCount> events;    /* "provider:event", most frequent first */
    std::vector<TracedName> processes; /* in the order of their first entry */
    uint64_t further_processes = 0;    /* that there was no room to name */
    uint64_t threads = 0;
    uint64_t objects = 0;
    /* Causes that happened. Events that are missing: */
    std::vector<NamedCount> events_lost;
    /* Sub-buffers that are missing, each with a number of events nobody knows: */
    std::vector<NamedCount> subbufs_lost;
    std::string write_error; /* why events were not written: "No space left on device"; empty if all were */
    uint64_t kernel_events_read =
        0; /* by the kernel's own per-CPU statistics, without what is not meant to be in the trace */
    /* Events that are missing by numbers that no stream tells: pages, or of whichever process. */
    std::vector<NamedCount> missed;
    /* Kinds of events that the channel had no room for, and processes that had no clock any more: nothing of them was
     * recorded. */
    std::vector<NamedCount> not_switched_on;
    /* Processes, threads and objects that the channel had no room to describe ("refused_entry_slots"), and how often the
     * drain had no memory for them, or for their events ("no_memory"): events are there without a name. */
    std::vector<NamedCount> not_described;
    /* Events that are there, but shortened; damage found: */
    std::vector<NamedCount> notes;
    ClockQuality clock;
};

/* Of several drains that write one trace. */
void add_progress(DrainProgress& to, const DrainProgress& from);
void add_totals(DrainTotals& to, const DrainTotals& from);
/* What has been counted since. Of the lists, processes are those of `now`; threads and objects, too. */
DrainTotals totals_since(const DrainTotals& before, const DrainTotals& now);

} // namespace plumb

#endif
