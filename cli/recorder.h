/*
 * One recording from beginning to end: session, drain, command; signals, time, and whoever is attached to;
 * then quiescence, the rest of the rings, and the summary.
 *
 * When it ends: with the command, if there is one (its exit status is passed on; traced children that outlive
 * it are named, and run on untraced); else with the last attached process, the time, or Ctrl-C. While a
 * command runs, a signal is its business: it is passed on, unless the command got it by itself, and the recording ends
 * when the command does. Several in quick succession end the recording alone. What was recorded by then is still read
 * and written; the next signal ends that too, and the trace says that it is not complete.
 */
#ifndef PLUMB_CLI_RECORDER_H
#define PLUMB_CLI_RECORDER_H

#include "base/file.h"
#include "cli/command_probes.h"
#include "cli/launch.h"
#include "cli/record_options.h"
#include "cli/record_summary.h"
#include "cli/recorder_socket.h"
#include "cli/status_line.h"
#include "cli/why_empty.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/session.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/drain/module_source.h"
#include "consumerd/kernel/executable_watch.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/line/serial_line.h"
#include "consumerd/places/other_users.h"
#include "consumerd/sink/chunk_folders.h"
#include "consumerd/sink/trace_directory.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace plumb {

class Recorder {
public:
    explicit Recorder(RecordOptions options);
    /* number() of the error: the options make no sense. No system call has such an errno. */
    static constexpr int wrong_words = -2;
    /* Returns the exit status of `plumb record`. */
    Result<int> run();
    /* After run(): what ended the command, if that was a signal which nobody here sent; otherwise 0. Who runs commands in
     * turn, as a shell, goes by that: a status of 130 is no Ctrl-C. */
    int final_signal() const;

private:
    struct TakenSignal {
        int number = 0;
        pid_t sender = 0;
        std::uint64_t taken_ns = 0;
    };
    struct Insistence {
        unsigned count = 0; /* signals in quick succession, of which this was the last: */
        TakenSignal last;
        std::uint64_t breath_began_ns = 0; /* with the first of those that counted as one */
    };

    Status check_words();
    Status prepare();
    QuiescenceOptions quiescence() const;
    Status open_session();
    void tell_of_the_dead(const std::vector<LeftChannel>& known);
    ChannelDrainOptions drain_options(const std::string& directory);
    Status open_drain(ClockCalibration calibration);
    Status open_flight_recorder(ClockCalibration calibration);
    Status open_kernel(plumb_clock_mode clock_mode);
    Status go_on_without_kernel(const Error& error);
    bool waits_for_kernel(std::uint64_t waited_ns);
    Status know_numbers();
    KernelDrainOptions kernel_drain_options();
    Status open_kernel_drain();
    Status open_kernel_by_module(plumb_clock_mode clock_mode);
    void tell_of_missing_start(const Error& why);
    bool has_kernel() const { return kernel_session_ != nullptr || by_module_.has_value(); }
    void tell_of_return_probes();
    Status limit_kernel(const std::vector<std::uint32_t>& processes);
    Status start_kernel(const std::vector<std::uint32_t>& processes);
    OwnCalls* own_calls();
    Status open_other_users(const ChannelConfig& config, const ClockCalibration& calibration);
    void join(uid_t user_id);
    void take_join(const Result<Report>& joined);
    std::uint64_t other_users_tick_ns() const;
    bool looks_for_other_users() const;
    void look_for_other_users();
    Status start_command();
    Status wait_for_program();
    bool is_reachable(std::uint32_t process_id);
    std::vector<std::uint32_t> look_for_attached();
    bool is_waited_for(std::uint32_t process_id, std::uint64_t start_ns);
    void leave_off_ended();
    Status attach();
    void attach_agents();
    void tell_of_unmatched_methods();
    void wait_for_end();
    void wait_a_turn(std::uint64_t begun_ns, std::uint64_t& look_again_ns);
    void end_as_memory_allows();
    void say_what_was_recorded();
    bool is_over();
    void handle(const siginfo_t& signal);
    void handle_behind(const siginfo_t& signal);
    bool must_stay();
    const char* how_it_goes_on();
    void stay_with_command();
    bool pass_on(const siginfo_t& signal);
    void stop_as_asked(const siginfo_t& signal);
    void stop_with_command();
    bool is_insisted_on(const siginfo_t& signal);
    void end_of_time();
    bool is_asked_to_hurry();
    bool is_sent_away();
    Result<std::string> take_snapshot();
    void take_last_snapshot();
    void note_losses_before();
    void serve_askers();
    std::string trace_path() const;
    Status open_chunks();
    Status keep_for_chunks(Drain& drain);
    std::uint64_t next_chunk_look_ns() const;
    void look_at_chunks();
    Result<std::string> rotate();
    Status make_next_sinks(const std::string& directory);
    std::uint64_t cut() const;
    void finish_chunk(DrainTotals totals, std::vector<Error> problems, std::uint64_t ended);
    void remove_old_chunks();
    void finish_last_chunk();
    DrainProgress progress() const;
    void close();
    void close_drains();
    void look_at_kernel();
    void look_whether_emptied();
    void is_disturbed(const Error& by_others);
    void tell_of_other_readers();
    Status check_channel();
    void end_truncated_users();
    void look_at_entrance();
    void look_for_refused();
    std::uint32_t programs_begun() const;
    bool has_filters() const;
    Status check_filters_at_start();
    void note_left_out(std::vector<EventDescription>& on);
    std::vector<EventDescription> kinds_on() const;
    bool is_nobody_reached() const;
    std::vector<RecordedProgram> others_recorded(const std::vector<RecordedProgram>& named) const;
    WhyEmpty find_why_empty(std::uint32_t programs_begun, const std::vector<EventDescription>& on);
    void look_at_attached();
    void entrance_is_lost(const Error& error);
    Status store();
    void not_written(const Error& error);
    void take(const Report& report);
    void take_end(const Result<Report>& ended);
    void take_found_late(const Report& joined);
    void find_reached_late();
    void note_insisted();
    void tell_of_insisted();
    bool ended_as_unseen_user();
    Result<Report> joined_for(std::uint32_t process_id, uid_t user_id);
    void find_unseen_users();
    void find_attached_ended_unseen();
    bool has_tracepoints(std::uint32_t process_id);
    void note_who_runs_on();
    std::vector<std::string> left_without_tracepoints() const;
    bool note_who_runs_on(std::set<std::uint32_t>& known);
    void add_who_runs_on();
    void find_left_running();
    std::uint64_t elapsed_ns() const;

    RecordOptions options_;
    std::shared_ptr<SerialLine> line_; /* with --to alone */
    std::mutex hurry_mutex_;
    std::optional<TraceDirectory> directory_; /* before what writes there */
    SignalQueue signals_;
    StatusLine status_;
    RecordSummary summary_;
    std::optional<Session> session_;
    std::unique_ptr<Drain> drain_;
    std::vector<KernelSelector> kernel_selectors_;
    std::unique_ptr<KernelSession> kernel_session_; /* before kernel_drain_, which uses it */
    struct KernelByModule {
        ModuleEvents events;
        UserDirectory directory;
        Channel channel;
    };
    std::optional<KernelByModule> by_module_; /* likewise */
    std::unique_ptr<Drain> kernel_drain_;
    std::unique_ptr<ExecutableWatch> executable_watch_; /* uses kernel_session_, too */
    std::set<std::uint32_t> asleep_; /* processes that slept when they were switched on or off (plumb.ko) */
    std::unique_ptr<OtherUsers> other_users_; /* only of root */
    std::uint64_t next_look_ns_ = 0;
    std::uint64_t next_counts_look_ns_ = 0; /* at what the kernel counts */
    std::uint64_t kernel_begun_ns_ = 0;
    std::optional<std::uint64_t> begun_ns_; /* where it is not known by the end of attaching */
    std::uint64_t enabled_generation_ = 0;  /* of the state: what is to be recorded is on from then */
    /* Of a flight recorder, which has no drains: */
    std::optional<ClockCalibration> calibration_;
    std::optional<RecorderSocket> socket_; /* also where there are chunks */
    bool others_ask_ = false;              /* for a snapshot or a chunk, and were left for the next turn */
    std::uint32_t snapshots_tried_ = 0;
    std::vector<RingPlace> ring_places_; /* up to which the last snapshot went */
    bool is_left_ =
        false; /* what a flight recorder holds is in no trace, and stays behind for `plumb extract` */
    std::shared_ptr<NamesFound> names_found_ = std::make_shared<NamesFound>();
    std::optional<LaunchedCommand> command_;
    std::map<std::uint32_t, std::uint64_t> attached_; /* process id -> when it started */
    std::vector<std::pair<std::uint32_t, std::uint64_t>>
        insisted_;                                /* with --seccomp: who had a filter, likewise */
    std::set<std::uint32_t> without_tracepoints_; /* of these; empty if all are */
    std::set<std::uint32_t> switched_off_;        /* who lived when the recording ended */
    std::vector<TracedName> runs_on_;             /* likewise, of those that the command has started */
    std::set<std::uint32_t> left_off_;            /* the same: they have ended */
    std::vector<std::uint32_t>
        without_methods_; /* of these: JVMs in which a pattern of --jvm-methods matched nothing */
    std::vector<RecordedProgram> attached_programs_; /* of these, where not all of their events are wanted */
    CommandProbes probes_;
    /* Where the trace is in chunks: */
    ChunkOptions chunk_options_;
    std::optional<ChunkFolders> chunks_;
    std::unique_ptr<Sink> next_sink_, next_kernel_sink_;
    std::uint64_t chunk_began_ = 0;      /* by the clock of records */
    std::uint64_t next_rotation_ns_ = 0; /* by time */
    std::uint64_t not_rotated_ns_ = 0;   /* when it could not be; 0: it could */
    FileDescriptor chunk_summary_space_;
    std::uint64_t duration_ns_ = 0; /* 0: no limit */
    std::uint64_t started_ns_ = 0;
    std::uint64_t stop_asked_ns_ = 0; /* when the time was up; 0: not yet */
    FileDescriptor summary_space_;
    std::unique_ptr<char[]> closing_room_;
    std::uint64_t turns_without_memory_ = 0;
    bool has_write_failures_ = false;
    std::string lost_entrance_; /* why programs that start do not find the session */
    bool has_told_of_waiting_ = false;
    TakenSignal last_sent_to_group_, last_of_terminal_, asked_to_stop_;
    Insistence by_keys_, by_others_;
    bool end_asked_ = false;
    bool is_closing_ = false;
    std::uint64_t end_signalled_ns_ = 0; /* when a signal asked for the end; 0: none has */
    bool is_hurried_ = false;
};

} // namespace plumb

#endif
