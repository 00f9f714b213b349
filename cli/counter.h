/*
 * One counting from beginning to end: a session whose channel counts, a command or processes that run, what is shown meanwhile, and
 * the result. Nothing has to be drained, so this is less than a recording (recorder.h), whose rules for the end it has:
 * the command's end, its own time, or signals, which are the command's while it runs; several in quick succession end
 * the counting alone.
 */
#ifndef PLUMB_CLI_COUNTER_H
#define PLUMB_CLI_COUNTER_H

#include "cli/command_probes.h"
#include "cli/counts_shown.h"
#include "cli/launch.h"
#include "cli/stat_options.h"
#include "cli/why_empty.h"
#include "consumerd/channel/count_reader.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/control/session.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

class Counter {
public:
    explicit Counter(StatOptions options);
    /* Returns the exit status of `plumb stat`. */
    Result<int> run();
    /* number() of the error: the options make no sense. */
    static constexpr int wrong_words = -2;
    /* After run(): what ended the command, if that was a signal which nobody here sent; otherwise 0. */
    int final_signal() const;

private:
    Status check_words();
    Status prepare();
    Status open_session();
    Status look_at_attached();
    Status start_command();
    void wait_for_end();
    std::uint64_t next_look_ns() const;
    bool is_over();
    void end_of_time();
    void handle(const siginfo_t& signal);
    void stop_as_asked(const siginfo_t& signal);
    bool is_insisted_on(const siginfo_t& signal);
    CountsTaken take();
    void show_meanwhile();
    void draw(const std::string& text);
    void close();
    Status say_result();
    WhyEmpty why_nothing() const;
    std::vector<LeftOut> left_out() const;
    void take_report(const Result<Report>& report);
    std::uint64_t elapsed_ns() const;

    StatOptions options_;
    SignalQueue signals_; /* before any thread */
    std::optional<Session> session_;
    std::optional<CountReader> reader_;
    std::optional<LaunchedCommand> command_;
    std::map<std::uint32_t, std::uint64_t> attached_; /* process id -> its start */
    CommandProbes probes_;
    FileDescriptor output_;
    CountsTaken taken_;
    CountsSince since_;
    StatResult result_;
    bool has_nowhere_ = false; /* a field that no event has */
    bool could_never_match_ = false;
    std::uint64_t started_ns_ = 0, duration_ns_ = 0, interval_ns_ = 0, next_shown_ns_ = 0;
    std::uint64_t stop_asked_ns_ = 0; /* when the time was up; 0: not yet */
    bool is_redrawn_ = false;         /* on a terminal that is ours alone */
    std::size_t lines_drawn_ = 0;
    bool end_asked_ = false;
    int last_signal_ = 0;
    unsigned signal_count_ = 0;
    std::uint64_t last_signal_ns_ = 0;
};

} // namespace plumb

#endif
