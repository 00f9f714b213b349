/*
 * What is missing from a trace, and why: one line for each cause, with what to do about it.
 */
#ifndef PLUMB_CLI_LOSSES_H
#define PLUMB_CLI_LOSSES_H

#include "base/result.h"
#include "consumerd/drain/drain_totals.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* Among the events that the kernel counts as lost are strings of system calls; the note that counts both. */
inline constexpr const char* texts_note = "kernel_lost_with_texts";

/* "7 events not_written (the trace could not be written: No space left on device)". `noun`: event or sub-buffer. `notes`: of
 * the same totals. */
std::string loss_text(const NamedCount& lost, const std::string& noun, const std::string& write_error,
                      const std::vector<NamedCount>& notes);

/* "3 hits of probes were missed by the kernel, of whichever process" */
std::string missed_text(const NamedCount& missed);

/* Of which nothing was recorded: kinds of events that the session had no room for, processes without a clock. */
std::string not_switched_on_text(const NamedCount& missing);

/* Events that are there, but shortened; the note that counts them. */
inline constexpr const char* cut_note = "cut";
std::string cut_text(std::uint64_t count);

/* Processes, threads or objects that there was no room to describe. */
std::string not_described_text(const NamedCount& missing);

/* "12.3 MiB, 50 losses and events of the kernel": what a killed recorder has not written. */
std::string left_text(std::uint64_t unread_bytes, std::uint64_t untold_losses, bool has_kernel_events);

/* What their recorders knew of the traces that are read, from the summary.json of each. */
struct RecordedLosses {
    std::vector<std::string> lost;  /* which the streams count, too */
    std::vector<std::string> other; /* which they can not: never written, not whole, why it is not complete */
    std::vector<std::string>
        without_summary; /* for a person; of Plumb's own traces that nobody writes any more */
    std::vector<std::string> missing_files; /* or such that are shorter than they were */
    std::vector<std::string> why_empty;     /* where there is no event to show */
    bool is_known = false;                  /* each trace has a summary */
    /* How many were written, and of each kind, if that can be compared with what is read: all traces are whole, and were opened
     * whole. */
    std::optional<std::uint64_t> events;
    std::map<std::string, std::uint64_t> events_by_name;
    bool are_names_known = true; /* not of what was written by who was killed */
};
RecordedLosses recorded_losses(const std::string& opened, const TraceReader& reader);

/* Opens it to be shown. `is_written`: somebody wrote to it then, and so there may be more since. */
Result<TraceReader> open_trace(const std::string& path, bool& is_written);
/* To who is shown that. */
extern const char* const still_written_text;

/* What was read where nothing was left out. */
struct EventsRead {
    std::uint64_t events = 0;
    std::map<std::string, std::uint64_t> by_name; /* if anybody has counted that */
};
/* What of it is not as it was written; empty: nothing, or nobody knows. */
std::string count_that_differs(const RecordedLosses& recorded, const EventsRead& read);

/* What is missing from the part of a trace, or of several, that was read, for a person. */
std::vector<std::string> missing_from(const std::string& opened, const TraceReader& reader,
                                      bool is_read_to_its_end = true);

} // namespace plumb

#endif
