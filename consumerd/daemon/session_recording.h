/*
 * What a worker does for its session: the session itself, the drain of its channel, and the chunks or snapshots that it writes.
 *
 * A recording survives its worker: whatever is to be known is in the description (written before it is made true, so that who
 * comes next makes it true), in the channel, and in the state file. So everything here begins with one of two: a session that was
 * never made, or one that is taken over.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_SESSION_RECORDING_H
#define PLUMB_CONSUMERD_DAEMON_SESSION_RECORDING_H

#include "base/trace_folders.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/session.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/death_watch.h"
#include "consumerd/daemon/event_count.h"
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/session_kernel.h"
#include "consumerd/daemon/waiting_chunks.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/left_trace.h"
#include "consumerd/places/other_users.h"
#include "consumerd/sink/chunk_folders.h"
#include "consumerd/sink/trace_directory.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace plumb {

class SessionRecording {
public:
    using Log = std::function<void(const std::string&)>;
    /* Makes the session, or takes it over, as its description says. `folder` must stay. */
    static Result<std::unique_ptr<SessionRecording>> begin(const DaemonFolder& folder,
                                                           SessionDescription description, Log log);
    /* One that was to be destroyed, in the middle of which its worker died, or whose worker can not begin: it is ended as far as that
     * is possible. Returns what was wrong. */
    static std::vector<std::string> finish_ending(const DaemonFolder& folder, SessionDescription description,
                                                  Log log);
    ~SessionRecording();

    /* The answers say who could not follow. */
    Result<Json> enable(const std::vector<Rule>& rules);
    /* Those of these patterns; where `which` says more of a rule than that, only those that have it. */
    Result<Json> disable(const std::vector<Rule>& which, bool all);
    Result<Json> start();
    Result<Json> stop();
    /* {"directory": ...}: what was ended, or taken. */
    Result<Json> rotate();
    Result<Json> snapshot();
    /* Removes what was recorded so far. */
    Result<Json> clear();
    Result<Json> add_trigger(Trigger trigger);
    Result<Json> remove_trigger(const std::string& name);
    Json triggers() const; /* and how often each has fired */
    Json status() const;
    /* Nothing is left but the trace. */
    Result<Json> end();
    /* The same where nobody could ask for it any more, since the daemon's folder was taken away: it is told in what is written. */
    void end_cut_off();
    /* Goes, and leaves everything to the next worker. */
    void leave();

    const SessionDescription& description() const { return description_; }

    /* What is to be done now and then; returns in how long it is to be called again at the latest. */
    std::uint64_t look();
    /* Becomes readable when a process has died whose death matters; -1: none does. */
    int deaths_fd() const { return deaths_ ? deaths_->fd() : -1; }
    /* A signal was sent to us, SIGCHLD among them. */
    void signalled(int number);
    void children_ended();

private:
    SessionRecording(const DaemonFolder& folder, SessionDescription description, Log log)
        : folder_(folder),
          description_(std::move(description)),
          log_(std::move(log)),
          waiting_chunks_(
              folder.sessions().path_of_file(DaemonFolder::waiting_chunks_file(description_.name)),
              description_.output) {}

    Status open();
    /* What could not be made. */
    void undo();
    Status open_directory();
    Status open_session(ChannelConfig config);
    Result<Session> adopt(std::uint64_t cookie) const;
    /* Returns what was left of other places. */
    Result<std::map<std::string, LeftTrace>> open_drain();
    /* The chunks that the worker before us left, made whole; what the drains need of them, by the folder of their place. */
    Result<std::map<std::string, LeftTrace>> close_left_chunks();
    /* Of a place's folder; of our own, without. */
    std::string journal_path(const std::string& folder = {}) const {
        return directory_->path() + "/" + journal_name + (folder.empty() ? "" : "-" + folder);
    }
    Result<std::map<std::string, LeftTrace>> close_left_journals(std::vector<LeftChunk>& chunks);
    QuiescenceOptions quiescence() const;
    Status store() const;
    void store_taken_back();
    std::vector<Rule> rules() const;
    std::vector<Rule> rules_off_since() const;
    Status note_rules_off(std::vector<Rule> off);
    /* Makes `next` the rules, on disk and, if the session is started, in the state. */
    Result<Report> change_rules(std::vector<DescribedRule> next, const std::vector<Rule>& added,
                                const std::vector<Rule>& removed);
    Result<Report> switch_on(bool is_on);
    Status check_filters_for(const std::vector<Rule>& added) const;
    std::vector<std::string> patterns_of_nobody(const std::vector<Rule>& added) const;
    Json answer_of(const Report& report, const std::vector<Unreachable>& in_vain = {}) const;
    std::vector<Unreachable> named_in_vain() const;
    std::vector<Unreachable> named_in_vain_for_long() const;
    static Json unreachable_as_json(std::vector<Unreachable> all, const std::vector<Unreachable>& in_vain);
    ChannelDrainOptions drain_options(const std::string& directory);
    void tell_without_journal(const std::string& journal);
    void leave_off_ended();
    void look_at_entrance();
    void give_up(const Error& why);
    void begins_anew(const Error& problem);
    void tell_left(std::uint64_t cookie);
    Error go_on(const Error& why);

    Result<std::string> end_chunk();
    bool finish_chunk(DrainTotals totals, const std::vector<Error>& at_end, std::uint64_t ended);
    void note_problems(const std::vector<Error>& problems);
    /* Its folder's name; of the rest of `chunk`, where it is does not matter. */
    WaitingChunk ended_chunk(const std::string& folder, const LeftChunk& chunk) const;
    Status store_and_rename(const WaitingChunk& chunk);
    Status describe_lost(const std::string& path, const WaitingChunk& chunk) const;
    Status finish_summed(const WaitingChunk& sum);
    void wait_for_room(WaitingChunk chunk, const Error& why);
    void load_waiting_chunks();
    void finish_waiting_chunks();
    void give_up_waiting_chunks();
    std::string waiting_text(const WaitingChunk& chunk) const;
    void look_at_chunks(std::uint64_t now_ns);
    void remove_old_chunks();
    Result<std::string> take_snapshot();
    bool take_last_snapshot();
    void finish_left_snapshot();
    void end_drain();
    void sample(std::uint64_t now_ns);
    Json processes_as_status() const;
    void add_processes(const StateFile& state, Json& list) const;
    Json places_as_status() const;
    std::string damage() const;
    bool is_own_damaged() const;
    void tell_damage();
    void tell_unknown_providers();

    Status open_kernel();
    Status start_kernel(std::map<std::string, LeftTrace>& left);
    void take_kernel_problems();

    /* Other places than ours: session_places.cc. */
    struct AwaitedPlace {
        DescribedPlace words;
        std::optional<LeftTrace> left;
        std::string told; /* why it could not be taken over so far */
    };
    std::vector<std::string> journal_folders() const;
    Status note_place(const UserPlace& place, const std::string& folder);
    void forget_place(const UserPlace& place);
    OtherUsers::Options place_options();
    Status open_places(std::map<std::string, LeftTrace> left);
    void take_over_places();
    void give_up_places();
    void join_places(bool is_late);
    void take_joined(const Result<Report>& joined, bool is_late);
    Report tell_places();
    std::uint64_t look_at_places();
    void look_for_unseen_users(bool is_at_end);
    std::set<uid_t> take_unseen_users();
    DrainProgress progress() const; /* of all places */

    /* What a worker has of a trigger. */
    struct ArmedTrigger {
        std::optional<EventCount> count{};
        pid_t command = 0; /* that runs */
        bool has_failed_to_store = false;
    };
    void tell(const std::string& line);
    Status open_deaths();
    Status open_trigger(Trigger& trigger);
    Result<Report> arm_trigger(const Trigger& trigger, bool is_on);
    void arm_triggers(bool is_on);
    void open_triggers();
    static void give_up_count(const Trigger& trigger);
    void end_trigger(const Trigger& trigger);
    void end_triggers();
    Json trigger_status(const Trigger& trigger) const;
    void keep_causes(bool is_any_new);
    void note_deaths();
    void look_for_processes();
    void watch_anew();
    void note_fill();
    void note_events();
    void serve(Trigger& trigger);
    void fire(const Trigger& trigger, std::uint64_t causes,
              const std::optional<Trigger::Progress::Dead>& death);
    bool has_ended(const std::string& trigger, pid_t command) const;
    std::uint64_t look_at_triggers();

    const DaemonFolder& folder_;
    SessionDescription description_;
    Log log_;
    std::optional<TraceDirectory> directory_; /* before what writes there */
    std::optional<Session> session_;
    std::optional<ClockCalibration> calibration_; /* of a flight recorder */
    std::shared_ptr<NamesFound> names_found_ = std::make_shared<NamesFound>();
    std::optional<ChunkFolders> chunks_;
    WaitingChunks waiting_chunks_;
    std::vector<Error> chunk_problems_; /* of the one that is written: for its summary */
    bool entrance_is_lost_ = false, channel_was_shortened_ = false, channel_is_closed_ = false;
    std::vector<Error> lasting_problems_; /* of each chunk from now on */
    std::uint64_t next_finish_ns_ = 0;
    std::unique_ptr<Drain> drain_;
    std::unique_ptr<OtherUsers> places_; /* what is recorded besides */
    std::unique_ptr<KernelPart> kernel_;
    std::vector<AwaitedPlace> awaited_places_;
    ContainerSearch containers_;
    bool unseen_began_ = false; /* they are looked for */
    std::set<uid_t> unseen_users_;
    std::vector<Unreachable> late_;                            /* found late */
    std::map<std::string, ArmedTrigger> armed_;                /* by name */
    std::vector<std::pair<std::string, pid_t>> left_commands_; /* of triggers that were removed */
    std::optional<DeathWatch> deaths_;
    std::uint64_t chunk_began_ = 0, chunk_began_ns_ = 0; /* by the clock of records, and by ours */
    std::uint64_t next_rotation_ns_ = 0;
    bool has_failed_to_rotate_ = false;
    bool must_store_again_ = false; /* the file says what was taken back */
    bool is_gone_ = false;
    bool is_cut_off_ = false; /* there is nowhere to store anything for who comes next, nor anybody */
    std::vector<Unreachable> unreachable_; /* at the last change */
    std::vector<std::string> problems_;    /* the last ones */
    /* For the rate: how many events there were, and when. */
    std::uint64_t sampled_ns_ = 0, sampled_events_ = 0;
    double events_per_s_ = 0;
    std::uint64_t begun_ns_ = 0;
};

} // namespace plumb

#endif
