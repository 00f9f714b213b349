#include "consumerd/daemon/patience.h"

#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

/* Until it is said whom it waits for: one that shows no life, and one that is at work. The daemon itself answers for a worker
 * that does not say how it is, a moment earlier. */
constexpr std::uint64_t said_silent_ns = 3'500'000'000, said_busy_ns = 15'000'000'000;
/* Until it is given up: who is stopped may be so for a moment, by a debugger; and a disk may take long for one call. */
constexpr std::uint64_t short_stopped_ns = 5'000'000'000, short_silent_ns = 10'000'000'000;
constexpr std::uint64_t long_stopped_ns = 10'000'000'000, long_silent_ns = 60'000'000'000;

bool is_stopped(char state) {
    return state == 'T' || state == 't';
}

} // namespace

std::string why_silent(std::uint32_t process_id) {
    const auto status = process_status(process_id);
    const char state = status ? status->state : '?';
    if (state == 'T') return fmt::format("it is stopped, and `kill -CONT {}` has it go on", process_id);
    if (state == 't') return "a debugger has stopped it";
    if (state == 'D') return "it waits for a disk or a device";
    if (state == '?') return "nothing is known of its state";
    return fmt::format("its state is {}", state);
}

Patience::Patience(bool is_short, Say say)
    : is_short_(is_short), say_(std::move(say)), begun_ns_(read_clock(PLUMB_CLOCK_MONOTONIC)) {}

bool Patience::is_watched(const std::string& what) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.what == what; });
}

void Patience::watch(const std::string& what, std::uint32_t process_id) {
    if (process_id == 0) return; /* of another process-id namespace: nothing can be known of it */
    std::erase_if(peers_, [&](const Peer& peer) { return peer.what == what; });
    Peer peer;
    peer.what = what;
    peer.process_id = process_id;
    peer.lived_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    peers_.push_back(std::move(peer));
}

void Patience::look_at(Peer& peer, std::uint64_t now_ns) {
    const auto status = process_status(peer.process_id);
    if (!status || status->state == 'Z' || status->state == 'X') { /* whoever comes next is another one */
        peer.process_id = 0;
        return;
    }
    const bool stopped = is_stopped(status->state);
    if (!stopped)
        peer.stopped_ns = 0;
    else if (peer.stopped_ns == 0)
        peer.stopped_ns = now_ns;
    std::uint64_t runs = 0;
    for (const std::uint32_t thread : thread_ids(peer.process_id))
        if (const auto thread_run = thread_runs(peer.process_id, thread)) runs += thread_run->run_ns;
    if (!stopped && (runs != peer.runs || status->sleeps != peer.sleeps)) peer.lived_ns = now_ns;
    peer.runs = runs;
    peer.sleeps = status->sleeps;
}

Error Patience::given_up(const Peer& peer) const {
    return Error("{} (process {}) does not answer: {}.", peer.what, peer.process_id,
                 why_silent(peer.process_id))
        .hint("It is not waited for any longer. What was asked of it is not done if it had not begun with "
              "that.")
        .as(ETIMEDOUT);
}

Status Patience::look() {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    for (Peer& peer : peers_)
        look_at(peer, now_ns);
    std::erase_if(peers_, [](const Peer& peer) { return peer.process_id == 0; });
    if (peers_.empty()) return ok();
    const std::uint64_t stopped_limit_ns = is_short_ ? short_stopped_ns : long_stopped_ns,
                        silent_limit_ns = is_short_ ? short_silent_ns : long_silent_ns;
    const Peer* silent = nullptr;
    std::uint64_t lived_ns = 0;
    for (const Peer& peer : peers_) {
        lived_ns = std::max(lived_ns, peer.lived_ns);
        if (peer.stopped_ns == 0) continue;
        silent = &peer;
        if (now_ns - peer.stopped_ns >= stopped_limit_ns) return given_up(peer);
    }
    if (silent == nullptr && now_ns - std::min(lived_ns, now_ns) >= said_silent_ns) silent = &peers_.back();
    if (now_ns - std::min(lived_ns, now_ns) >= silent_limit_ns) return given_up(peers_.back());
    const std::uint64_t waited_ns = now_ns - begun_ns_;
    if (silent != nullptr && waited_ns >= said_silent_ns && !std::exchange(has_said_silent_, true) && say_)
        say_(fmt::format("{} (process {}) does not answer: {}.", silent->what, silent->process_id,
                         why_silent(silent->process_id)));
    if (silent == nullptr && waited_ns >= said_busy_ns && !std::exchange(has_said_busy_, true) && say_)
        say_(fmt::format("{} (process {}) is still at work on it.", peers_.back().what,
                         peers_.back().process_id));
    return ok();
}

} // namespace plumb
