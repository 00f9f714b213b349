#include "consumerd/drain/left_trace.h"

#include "base/trace_folders.h"
#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/kill_point.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace plumb {
namespace {

bool is_directory(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

LeftChunk left_chunk(const DrainJournal& journal, const JournalChunk& chunk) {
    LeftChunk left;
    left.directory = journal.directory() + "/" + chunk.folder_name();
    left.totals = chunk.totals(journal.shape().is_kernel);
    left.began = chunk.began;
    left.ended = chunk.ended;
    /* Where it could not be described, the line of an earlier chunk is near enough. */
    left.clock = chunk.clock.frequency_hz != 0 ? chunk.clock : journal.clock().page;
    return left;
}

/* Nothing of a ring is in the current chunk before its state says so. */
StreamPlace place_in(const JournalRing& state, const JournalChunk& chunk) {
    return state.chunk == chunk.number ? state.stream : StreamPlace{};
}

class Closing {
public:
    Closing(const DrainJournal& journal, CtfWriter& writer, LeftChunk& left)
        : journal_(journal), chunk_(journal.current()), writer_(writer), left_(left) {}

    void cut_back() {
        const JournalStatedump dump = journal_.statedump();
        note(writer_.go_on_with_statedump(dump.chunk == chunk_.number ? dump.stream : StreamPlace{}));
        for (uint32_t ring = 0; ring < journal_.shape().all_rings(); ring++) {
            note(writer_.go_on(ring, place_in(journal_.ring(ring), chunk_)));
            pass(KillPoint::left_cut);
        }
    }

    /* Until when the chunk tells: what is in none of its streams then is in the next one. */
    uint64_t end() const { return std::max(writer_.last_timestamp(), chunk_.began); }

    void close() {
        for (uint32_t ring = 0; ring < journal_.shape().all_rings(); ring++) {
            const JournalRing state = journal_.ring(ring);
            if (state.chunk == chunk_.number)
                note(writer_.write_losses(ring, state.events_lost, state.subbufs_lost, chunk_.began, end()));
        }
        note(writer_.complete(end()));
        for (uint32_t ring = 0; ring < journal_.shape().all_rings(); ring++)
            note(writer_.close(ring));
        note(writer_.close_statedump());
    }

private:
    void note(const Status& status) {
        if (!status) left_.problems.push_back(status.error());
    }

    const DrainJournal& journal_;
    const JournalChunk chunk_;
    CtfWriter& writer_;
    LeftChunk& left_;
};

TraceIdentity identity_of(const JournalShape& shape, const JournalChunk& chunk) {
    TraceIdentity identity;
    identity.domain = shape.is_kernel ? "kernel" : "ust";
    identity.folder = shape.folder;
    identity.is_compact = shape.is_compact;
    identity.uuid = chunk.uuid;
    return identity;
}

LeftChunk close_current(const DrainJournal& journal) {
    const JournalShape& shape = journal.shape();
    const JournalChunk chunk = journal.ended_current(journal.current().began);
    LeftChunk left = left_chunk(journal, chunk);
    auto writer = CtfWriter::open_left(left.directory, identity_of(shape, chunk), shape.ring_count,
                                       shape.extra_ring_count);
    if (!writer) {
        left.problems.push_back(writer.error());
        return left;
    }
    Closing closing(journal, **writer, left);
    closing.cut_back();
    left.ended = closing.end();
    left.is_empty = chunk.bytes == 0 && journal.clock().chunk != chunk.number && chunk.events_lost == 0 &&
                    chunk.subbufs_lost == 0;
    if (left.is_empty) return left;
    closing.close();
    pass(KillPoint::left_closed);
    left.totals.packets = (*writer)->packets();
    left.totals.progress.bytes = left.totals.progress.chunk_bytes = (*writer)->bytes();
    return left;
}

std::vector<std::string> unentered_beside(const DrainJournal& journal) {
    std::vector<std::string> found;
    const auto names = list_directory(journal.directory());
    if (!names) return found;
    for (const std::string& name : *names)
        if (is_chunk_folder(name) && name.ends_with(unfinished_end) &&
            name != journal.current().folder_name() && name != journal.previous().folder_name())
            found.push_back(journal.directory() + "/" + name);
    return found;
}

} // namespace

Result<LeftTrace> close_left_trace(const std::string& journal_path,
                                   const std::function<void(DrainJournal&)>& before) {
    auto journal = DrainJournal::open(journal_path);
    if (!journal) return journal.error();
    LeftTrace left;
    if ((*journal)->current().number == 0) return left;
    if (before) before(**journal);
    left.journal = std::move(*journal);
    const auto is_there = [&](const JournalChunk& chunk) {
        return chunk.number != 0 && is_directory(left.journal->directory() + "/" + chunk.folder_name());
    };
    const JournalChunk previous = left.journal->previous();
    if (is_there(previous) && previous.folder_name() != left.journal->current().folder_name())
        left.chunks.push_back(left_chunk(*left.journal, previous));
    if (is_there(left.journal->current())) left.chunks.push_back(close_current(*left.journal));
    left.unentered = unentered_beside(*left.journal);
    return left;
}

} // namespace plumb
