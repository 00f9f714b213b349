/*
 * What a drain remembers, and says, of a trace that can not be written: its disk is full, its quota used up, its file
 * system read-only, its directory gone. One line when that begins, one when it is over. A full disk has room for one
 * small packet after the other while larger ones fail, so it is over only when nothing has failed for a while; and that
 * while doubles each time, so that a disk which is full every few seconds does not fill a terminal either.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_WRITE_FAILURES_H
#define PLUMB_CONSUMERD_DRAIN_WRITE_FAILURES_H

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace plumb {

class WriteFailures {
public:
    /* `log` may be empty. */
    explicit WriteFailures(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
    void tell_by(std::function<void(const std::string&)> log) { log_ = std::move(log); }

    /* Something could not be written, with so many events (0: it is tried again, or can be missed). */
    void failed(const Error& error, uint64_t events, uint64_t now_ns);
    /* So many more events are lost by what failed. */
    void count(uint64_t events) { events_ += events; }
    /* Something was written. */
    void succeeded(uint64_t now_ns) {
        if (is_failing_) look_whether_over(now_ns);
    }
    bool is_failing() const { return is_failing_; }
    /* How often something could not be written, and why the last time. */
    uint64_t times() const { return times_; }
    const std::optional<Error>& last() const { return last_; }

    const std::optional<Error>& first() const { return first_; }
    uint64_t events() const { return events_; }
    /* What the end of a recording has to say: success, or that `trace` is not complete, by how much, and why. */
    Status verdict(const std::string& trace) const;
    /* The cause alone, "No space left on device"; empty if nothing failed. */
    std::string cause() const;

private:
    void look_whether_over(uint64_t now_ns);

    std::function<void(const std::string&)> log_;
    std::optional<Error> first_, last_;
    uint64_t times_ = 0;
    bool is_failing_ = false;
    uint64_t events_ = 0;
    uint64_t events_said_ = 0;
    uint64_t last_ns_ = 0;
    uint64_t quiet_ns_ = 2'000'000'000;
};

} // namespace plumb

#endif
