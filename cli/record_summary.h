/*
 * What a recording came to, for people (text on standard error) and for machines (JSON, on standard output
 * with
 * --json and always in the trace's summary.json).
 */
#ifndef PLUMB_CLI_RECORD_SUMMARY_H
#define PLUMB_CLI_RECORD_SUMMARY_H

#include "base/result.h"
#include "cli/why_empty.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/quiescence.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/event/unknown_providers.h"
#include "consumerd/line/serial_line.h"
#include "consumerd/sink/chunk_folders.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace plumb {

/* A summary is of one chunk alone. */
struct ChunkOfSummary {
    std::uint64_t number;
    std::string path;              /* where it will be; its files are in `directory` meanwhile */
    std::int64_t begin_ns, end_ns; /* since 1970 */
};

struct RecordSummary {
    std::string directory;
    std::optional<ChunkOfSummary> chunk;
    std::vector<std::string> chunks; /* names, of those that are there; oldest first */
    RemovedChunks removed_chunks;    /* of those before them */
    std::vector<std::string>
        snapshots; /* of a flight recorder: directories, oldest first; the last is `directory` */
    std::string name;
    std::string sent_to; /* a line; empty: the trace is in the directory */
    std::vector<std::string> command;
    std::optional<int> exit_status; /* of the command */
    std::uint64_t duration_ns = 0;
    ChannelConfig channel;
    DrainTotals totals;
    DrainTotals before; /* of what is lost, not whole or not described: in snapshots before the last one */
    std::vector<Unreachable> unreachable;
    std::vector<Unreachable> reached_late; /* with the reason why not before */
    std::set<uid_t>
        unseen_users; /* of whom programs began and ended before they were found: perhaps the command's */
    std::vector<Disturbed> disturbed;
    std::vector<TracedName> left_running;           /* traced processes that outlived the recording */
    std::vector<TracedName> ended_since;            /* likewise, but not for long */
    std::vector<std::string> problems;              /* why the trace is not complete */
    std::string filter;                             /* what was recorded of what, if not all */
    std::vector<LeftOut> left_out;                  /* events that lack what a filter asks for */
    std::vector<UnknownProvider> unknown_providers; /* of tracepoints that were wanted */
    WhyEmpty why_empty;                             /* if it is, and nothing else says why */

    /* Whether all was recorded that could be reached, and written; what rings had no room for is counted, and does not
     * change it. */
    bool is_complete() const {
        const auto is_unwritten = [](const NamedCount& lost) { return lost.name.ends_with("not_written"); };
        return problems.empty() && totals.not_switched_on.empty() &&
               std::none_of(totals.events_lost.begin(), totals.events_lost.end(), is_unwritten);
    }
};

/* A line for those that lack the same. */
std::string left_out_text(const std::vector<LeftOut>& left_out);
std::string summary_text(const RecordSummary& summary);
std::string summary_json(const RecordSummary& summary);
Status store_summary(const RecordSummary& summary);
/* The last thing that goes over a line. */
Status send_summary(SerialLine& line, const RecordSummary& summary);

} // namespace plumb

#endif
