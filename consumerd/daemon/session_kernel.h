/*
 * The kernel's events of a session that is kept: an instance of tracefs that bears the session's cookie and records by itself, and the
 * drain that writes them into the folder `kernel` of each chunk.
 *
 * The instance goes on while no worker lives, as far as its buffers have room; the next worker takes it over as it runs. What was
 * chosen in it is described before (DescribedKernel::is_made): one that was not finished is made anew.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_SESSION_KERNEL_H
#define PLUMB_CONSUMERD_DAEMON_SESSION_KERNEL_H

#include "base/result.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/drain/left_trace.h"
#include "consumerd/kernel/kernel_session.h"

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

class KernelPart {
public:
    static constexpr const char* folder = "kernel"; /* in each chunk; and of its journal */

    struct Options {
        std::uint64_t cookie = 0;
        plumb_clock_mode clock = PLUMB_CLOCK_NONE;
        std::string staged_path; /* of what was read and is not written yet */
        std::function<void(const std::string&)> log;
    };
    /* Makes the instance, or takes it over; nothing is read yet. `words.is_made` says then that it is made, and is to be stored. */
    static Result<std::unique_ptr<KernelPart>> open(DescribedKernel& words, Options options);
    ~KernelPart();

    /* Of the worker before us, if it was killed: what it had read and nobody has. */
    void settle_left(DrainJournal& journal);
    /* For people: what could not be had as it was asked for, or is lost. */
    std::vector<std::string> take_problems() { return std::exchange(problems_, {}); }

    /* In a chunk; `of_programs`: whose clock and names are those of all. It records from then on, if it is to. */
    Status start(const std::string& directory, const std::string& journal, std::optional<LeftTrace> left,
                 const Drain& of_programs, bool is_started);
    Status switch_on(bool is_on);
    /* Whether somebody else has changed it. */
    void look();

    Status make_next_sink(const std::string& directory);
    void announce_cut(std::uint64_t at) { drain_->announce_cut(at); }
    /* Adds to what programs' part of the chunk came to. */
    void rotate(const std::string& directory, std::uint64_t at, Drain::Chunk& of_programs,
                std::vector<Error>& problems);
    /* The rest, at the end of the session; nothing is recorded any more. */
    /* `of_chunk`: the problems of the last chunk. */
    void finish(const plumb_clock_page& clock, DrainTotals& totals, std::vector<Error>& problems,
                std::vector<Error>& of_chunk);
    /* With the instance. */
    Status remove();
    /* Everything stays for the next worker. */
    void leave();

    DrainProgress progress() const { return drain_ ? drain_->progress() : DrainProgress(); }
    Json status() const;

private:
    KernelPart(DescribedKernel words, Options options)
        : words_(std::move(words)), options_(std::move(options)) {}
    Status make();
    Status take_over();
    Status open_staged();
    void leave_out_own();
    void problem(const std::string& text);

    DescribedKernel words_;
    Options options_;
    std::unique_ptr<KernelSession> session_; /* before drain_, which uses it */
    std::shared_ptr<StagedPages> staged_;
    bool was_staged_ = false; /* by the worker before us */
    bool is_taken_over_ = false, is_on_ = false;
    std::unique_ptr<Drain> drain_;
    std::unique_ptr<Sink> next_sink_;
    std::vector<std::string> problems_;
};

} // namespace plumb

#endif
