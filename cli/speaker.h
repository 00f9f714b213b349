/*
 * Says things from a thread of its own, so that nobody waits for who listens: a terminal is stopped by Ctrl-S, a pipe is full
 * and nobody reads it. What was said waits until it can be written; where too much waits already, nothing more is taken.
 */
#ifndef PLUMB_CLI_SPEAKER_H
#define PLUMB_CLI_SPEAKER_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace plumb {

class Speaker {
public:
    /* Does not own the descriptor. `room_bytes`: of what waits, beside the piece that is being written. */
    Speaker(int fd, std::size_t room_bytes);

    /* From any thread, and never waits, except where no thread can be started. False: there was no room, and it is left out;
     * what is said next says how many were. `has_room`: it is taken in any case. */
    bool say(std::string_view text, bool has_room = false);
    /* Whether nothing waits. */
    bool has_said_all() const;
    /* Waits until nothing waits any more. False: for so long, nothing could be written, or `is_enough`, which is asked
     * several times a second. */
    bool finish(std::uint64_t patience_ns, const std::function<bool()>& is_enough = {});
    /* The errno of the last write that failed; 0 if none has. What it was to write is left out. */
    int error_number() const;

private:
    struct Queue;
    static void speak(Queue& queue);
    static void note_what_was_left_out(Queue& queue);
    static int write_all(Queue& queue, std::string_view text);

    /* The thread's, too: it may stay in a write for as long as the process lives. */
    std::shared_ptr<Queue> queue_;
};

} // namespace plumb

#endif
