/*
 * How long a command waits for an answer of plumb-consumerd. What it asks for may take minutes; but a daemon or worker that is
 * stopped never answers. So it waits as long as those who work on it show a sign of life (they run, or come to a processor now and
 * then), says after some seconds whom it waits for, and gives up when they have shown none for a while.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_PATIENCE_H
#define PLUMB_CONSUMERD_DAEMON_PATIENCE_H

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* "it is stopped, ..." of a process that is; else what may be known of why it does not answer. */
std::string why_silent(std::uint32_t process_id);

class Patience {
public:
    using Say = std::function<void(const std::string& line)>;
    /* Short: what is asked takes no time. `say` may be empty. */
    Patience(bool is_short, Say say);

    /* Who works on it: "plumb-consumerd", "the worker of session web". Known by what it is called: another process takes its place. */
    void watch(const std::string& what, std::uint32_t process_id);
    bool is_watched(const std::string& what) const;

    /* To be called several times a second while no answer comes. An error (ETIMEDOUT): it is to be given up. */
    Status look();

private:
    struct Peer {
        std::string what;
        std::uint32_t process_id = 0;
        std::uint64_t runs = 0, sleeps = 0;
        std::uint64_t lived_ns = 0;   /* when it last showed a sign of life */
        std::uint64_t stopped_ns = 0; /* since when it is stopped; 0: it is not */
    };
    void look_at(Peer& peer, std::uint64_t now_ns);
    Error given_up(const Peer& peer) const;

    bool is_short_;
    Say say_;
    std::uint64_t begun_ns_;
    bool has_said_silent_ = false, has_said_busy_ = false;
    std::vector<Peer> peers_; /* who does the work is the last one */
};

} // namespace plumb

#endif
