/*
 * What a killed drain of a session that is kept left of its trace, and how it is made whole: each stream file ends with the last
 * packet that the journal knows, behind it stand what was lost by then and until when the chunk tells. Who is killed over that
 * begins it again.
 *
 *   auto left = close_left_trace(journal_path);                 // and finish the folders of left->chunks: summary, last name
 *   ChannelDrainOptions options;                                // of a new chunk, beside them
 *   options.journal = journal_path;
 *   options.left = std::move(*left);
 *   auto drain = drain_live_channel(session->channel().bytes(), ...);
 *
 * In this order: the next chunk makes the journal forget what came before the last one.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_LEFT_TRACE_H
#define PLUMB_CONSUMERD_DRAIN_LEFT_TRACE_H

#include "base/result.h"
#include "consumerd/drain/drain_journal.h"
#include "consumerd/drain/drain_totals.h"

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

/* One whose folder still has the name under which it was written. */
struct LeftChunk {
    std::string directory;
    DrainTotals totals;            /* as far as known: no names of events, nor of processes */
    uint64_t began = 0, ended = 0; /* by its clock: */
    plumb_clock_page clock{};
    bool is_empty =
        false; /* it has nothing, not even metadata, and nothing of it is missing: its folder may go */
    std::vector<Error> problems; /* what could not be made whole */
};

struct LeftTrace {
    std::shared_ptr<DrainJournal> journal; /* nullptr: it says nothing yet */
    std::vector<LeftChunk> chunks;         /* the oldest first */
    /* Folders of chunks beside it that are unfinished, and not those: made, and not entered by this drain. If no other drain of the
     * same trace knows them either, they have nothing, and may go. */
    std::vector<std::string> unentered;
};

/* number() of the error is ENOENT if there is no journal, EBUSY if its drain lives, EBADMSG if it can not be believed: then only
 * the channel itself tells how far its records were taken, and the chunk stays as it is. */
/* `before` may tell the journal of further losses of the chunk that was written. */
Result<LeftTrace> close_left_trace(const std::string& journal_path,
                                   const std::function<void(DrainJournal&)>& before = {});

} // namespace plumb

#endif
