// The storm's own counts, kept apart from everything that is tested: each thread, and each handler that runs in it,
// numbers its events here, and says before and behind each of them how far it got. A trace is exact when it holds every
// event that its writer finished, once, and none that was not begun.
#pragma once

#include <atomic>
#include <cstdint>

namespace plumb::storm {

// What the checker has to know about a writer.
enum WriterFlag : uint32_t {
    writer_was_copied = 1, // by a fork in the middle of its event: the child may finish that event, too
    writer_is_inside = 2,  // of another process-id namespace: process and thread are numbers there
    writer_is_nobody = 4,  // of user 65534
};

struct Writer {
    std::atomic<uint64_t> started;  // events begun: the next sequence number
    std::atomic<uint64_t> finished; // events whose plumb_trace() returned
    uint32_t process;
    uint32_t thread;
    uint32_t act;
    std::atomic<uint32_t> flags;
};

constexpr uint32_t writers_max = 1u << 20;

struct Board {
    std::atomic<uint32_t> writer_count;
    std::atomic<uint32_t> stop; // nurseries start nobody any more
    uint32_t padding[14];
    Writer writers[writers_max];
};

// An observer's note of how far the writers of a board were at one moment: this, then `writer_count` numbers, of events
// begun where it is the first of a session, of events finished where it is the last.
struct SnapshotHeader {
    uint64_t monotonic_ns;
    uint64_t writer_count;
};

// Maps the board's file, which is made by who is first. Ends the program if that fails.
Board* open_board(const char* path);

} // namespace plumb::storm
