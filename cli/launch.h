/*
 * The command that `plumb record` runs: started with a changed environment, given the signals meant for it,
 * and waited for.
 *
 * All signals that matter are blocked in the recorder from before its threads start, and taken one by one by
 * SignalQueue; the command starts with the mask and handlers that the recorder was started with.
 */
#ifndef PLUMB_CLI_LAUNCH_H
#define PLUMB_CLI_LAUNCH_H

#include "base/file.h"
#include "base/result.h"
#include "cli/group_witness.h"

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

class SignalQueue {
public:
    /* Blocks the signals; before any thread is started. They stay blocked: one that is pending when the recording is over
     * would end the process before its exit status is told, and anybody can cause SIGIO. */
    SignalQueue();
    SignalQueue(const SignalQueue&) = delete;
    SignalQueue& operator=(const SignalQueue&) = delete;

    /* Once, while the process has no other threads and no command: from then on reached_group() knows. */
    void watch_group() { witness_.start(taken_); }
    /* The next signal, or nothing after the time. */
    std::optional<siginfo_t> next(std::uint64_t timeout_ns);
    /* The command has just been forked: of what waits here, nothing has reached it. */
    void command_begins();
    /* Whether the signal that was taken last was sent to the whole process group, by a terminal or by somebody, and the
     * command was there by then. The end of a terminal is told to the leader of its session alone. */
    bool reached_group(const siginfo_t& signal);
    /* Takes another one of the same number that waits already, if that asks to end: whom both were sent to directly would have
     * taken them for one. Returns whether there was one that reached the group. */
    bool takes_in_next(const siginfo_t& signal);
    /* Whether the signal says nothing to the recorder, nor to a command that was there when its group was sent it: SIGWINCH,
     * and SIGHUP where whoever started the recorder had it ignored, as nohup does. */
    bool is_for_command_alone(int signal_number) const;
    /* The recorder was stopped, and goes on. */
    void go_on() const { witness_.go_on(); }
    /* Whether somebody has made the recorder go on, and next() has yet to say so. */
    static bool is_continued();
    /* How who looks on would see that what this signal stopped has stopped, as far as we can stop so. */
    int stop_like(int signal_number) const;
    /* In the child, before exec. */
    void restore() const;

private:
    GroupWitness witness_;
    sigset_t taken_{}, ignored_on_terminal_{}, before_command_{};
    sigset_t mask_before_{};
    struct sigaction pipe_before_ {};
    struct sigaction file_size_before_ {};
    struct sigaction child_before_ {};
    struct sigaction input_before_ {};
    struct sigaction terminal_before_ {};
};

class LaunchedCommand {
public:
    /* Called before exec(). */
    struct LastSteps {
        std::function<Status(pid_t)> in_parent{}; /* while the child waits; if it fails, nothing is run */
        std::function<void()> in_child{};         /* behind all else there; async-signal-safe */
    };
    /* Makes its process, which runs the command with these variables set. */
    static Result<LaunchedCommand> start(const std::vector<std::string>& command,
                                         const std::vector<std::pair<std::string, std::string>>& environment,
                                         SignalQueue& signals, const LastSteps& last_steps);

    /* Whether its program has begun, or will not; waits for that. Until then, too, signals reach it as the command, and it may be
     * stopped: who waits for it must look after those. An error says that it could not be run, and that it is gone;
     * exit_status_for() turns it into what a shell would return. */
    Result<bool> has_begun(std::uint64_t patience_ns);
    pid_t process_id() const { return process_id_; }
    std::uint64_t began_boottime_ns() const {
        return began_boottime_ns_;
    } /* not later than the process did */
    /* Whether it has ended; asks the kernel, without waiting. */
    bool has_ended();
    void send(int signal_number) const;
    /* Whether it gets a signal when the recorder ends, as the recorder does when who started it ends. */
    bool hears_our_end() const { return hears_our_end_; }
    /* The signal that has stopped it, if it is stopped; otherwise 0. */
    int stop_signal() const;
    /* Whether it is in the recorder's process group, as it is unless it has left: then it gets what that is sent. */
    bool is_in_our_group() const;
    /* As a shell has it: its status, or 128 + the signal that ended it. Once it has ended. */
    int exit_status() const { return exit_status_; }
    /* Whether it has waited for a child that ended, or that is not known. Once it has ended. */
    bool had_children() const { return had_children_; }
    /* As whom it ended; nothing if that is not known. */
    std::optional<uid_t> ended_as() const { return ended_as_; }
    /* What ended it, if that was a signal; otherwise 0. */
    int ending_signal() const { return ending_signal_; }

private:
    LaunchedCommand(pid_t process_id, std::string name, FileDescriptor from_child)
        : process_id_(process_id), name_(std::move(name)), from_child_(std::move(from_child)) {}
    void give_up();

    pid_t process_id_;
    std::string name_;
    FileDescriptor from_child_; /* exec closes its other end; until then */
    std::uint64_t began_boottime_ns_ = 0;
    bool ended_ = false, hears_our_end_ = false, had_children_ = true;
    int exit_status_ = 0, ending_signal_ = 0;
    std::optional<uid_t> ended_as_;
};

/* 127 if a command was not found, 126 if it could not be run. */
int exit_status_for(const Error& start_error);

/* Waits for all children that have ended but this one. Whoever is the first process of a container, or a subreaper, becomes the
 * parent of processes that it has never heard of. */
void reap_children_but(pid_t process_id);

/* Whether a shell that controls jobs started the recorder: it waits for its jobs to stop, and can make them go on. */
bool is_job_of_shell();

/* Whether the kernel sent the signal: for a terminal, or since a group has lost its last parent. */
bool came_from_terminal(const siginfo_t& signal);

/* Whether it is how a process is asked to end. */
bool asks_to_end(int signal_number);

/* Whether a terminal, or who acts for one, asks the job to stop. */
bool asks_to_stop(int signal_number);
/* Does what the signal would have done, had it not been taken: the process stops, except in a group that nobody would make go
 * on. Returns when it goes on. */
void stop_by(int signal_number);

/* Ends the process as the signal ended another one, without a core: that would be of the wrong one. Returns where it does not,
 * as in the first process of a container. */
void end_by(int signal_number);

/* Whether that process sent it, or one that descends from it and is still there, and not the kernel. */
bool was_sent_by_family_of(const siginfo_t& signal, pid_t process_id);

/* Whether the kernel says that the recorder's own time is up: `ulimit -t`, a timer that it was started with. */
bool is_limit_of_ours(const siginfo_t& signal);

} // namespace plumb

#endif
