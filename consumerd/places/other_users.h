/*
 * Programs of other users in one recording, as root: services that change their user, `setpriv` before exec, a process
 * that is named by -p. A program looks for the state and for channels in the directory of the user that it runs as, so
 * each user gets a session there, with the same name, rules and cookie, and a channel that belongs to that user; what is
 * written there goes into a folder of its own, `ust-UID`, of the one trace. Likewise where plumb.ko is loaded, for those that
 * look in /dev/shm all the same (consumerd/control/directory_keeper.h), our own ones, too: `ust-UID-shm`; and for those in
 * containers, which have a /dev/shm of their own: `ust-UID-in-NAMESPACE`, by the number of the mount namespace.
 *
 * That directory, and all in it, is the user's to change: nothing there is believed, no link is followed, and no process
 * is signalled that is not really the user's and does not really use that state.
 */
#ifndef PLUMB_CONSUMERD_PLACES_OTHER_USERS_H
#define PLUMB_CONSUMERD_PLACES_OTHER_USERS_H

#include "base/result.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/container_places.h"
#include "consumerd/control/session.h"
#include "consumerd/control/state.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/places/unseen_programs.h"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* A user by name or number. */
Result<uid_t> parse_user(const std::string& text);

/* Of a trace with programs of several places: where those of this one are, which is not the recorder's own. */
std::string folder_of(const UserPlace& place);
std::string folder_in_container(uid_t user_there, std::uint64_t mount_namespace);
/* "Programs of user 1000", with the place where they look if there are several: for messages. */
std::string programs_at(const UserPlace& place);
/* As whom a process runs now; nothing if it has gone. */
std::optional<uid_t> user_of(std::uint32_t process_id);

/* Kinds of events that were on in some program of a channel's user. */
void add_kinds_on(const Channel& channel, std::vector<EventDescription>& kinds);

class OtherUsers {
public:
    struct Options {
        ChannelConfig config;
        std::vector<Rule> rules;
        std::uint64_t cookie = 0;
        QuiescenceOptions quiescence;
        ChannelDrainOptions drain;    /* of the recorder's own user */
        bool flight_recorder = false; /* they are not recorded then: join() says so */
        bool in_chunks = false;
        /* Of a session that is kept (config.is_kept): where the journal of such a folder is; and what is to be done before anything
         * is made at a place, so that who comes next finds it. */
        std::function<std::string(const std::string& folder)> journal{};
        std::function<Status(const UserPlace&, const std::string& folder)> before_joining{};
        std::function<void(const UserPlace&)> after_leaving{}; /* nothing is left there */
        std::vector<Rule> rules_off_since{}; /* of sessions that are taken over: Session::set_rules() */
    };
    OtherUsers(Options options, const ClockCalibration& calibration)
        : options_(std::move(options)), calibration_(calibration) {}

    using EachReport = std::function<void(const Result<Report>&)>;
    /* Begins to record a user's programs; nothing happens if that is done already. */
    Result<Report> join(uid_t user_id, bool for_whoever_comes = false);
    /* Those of ours that look elsewhere than the recorder's session is: if there are any that `is_meant`, or, with `is_open`,
     * for whoever comes. */
    Result<Report> join_own(const std::function<bool(std::uint32_t)>& is_meant, bool is_open);
    /* Begins to record where a process looks, if that is in a container's /dev/shm; which programs there, the rules say. */
    Result<Report> join_container_of(std::uint32_t process_id);
    /* Programs of the session's own user that have changed their user since look in that user's directory. */
    void join_changed(const StateFile& own_state, const EachReport& each);
    /* Goes on with what another one of these, which was killed, recorded at a place, in that folder. `left`: of its trace. The rules become
     * these. number() of the error as Session::adopt_in() has it. */
    Result<Report> take_over(const UserPlace& place, const std::string& folder,
                             std::optional<LeftTrace> left);
    /* From now on, whoever there is: all users, and those in containers. join_later() finds them. */
    void open_for_everybody() { is_open_for_everybody_ = true; }
    /* Looks whether programs, of ours or of users that are recorded whoever comes, can be by now where nobody could when the
     * recording began, as before /dev/shm was mounted or plumb.ko loaded. `each` as below. */
    void join_later(const EachReport& each);
    /* The trace's directory, if it is another one by now. */
    void goes_to(const std::string& directory) { options_.drain.directory = directory; }
    /* Joins the users of processes that the session launched and that have changed their user since. `each` is given what
     * came of it, once for each user. */
    void join_launched(const EachReport& each);
    /* From now on: users of whom programs have begun, and ended before they were recorded. */
    void look_for_unseen_programs() { unseen_.emplace(); }
    /* Nobody is to be recorded, as while a session is stopped. */
    void leave_unseen_programs() { unseen_.reset(); }
    std::set<uid_t> unseen_users() const;
    /* Those of them who were found since: each time that they are asked for, once. */
    std::set<uid_t> take_unseen_users() { return unseen_ ? unseen_->take_found() : std::set<uid_t>(); }
    bool is_unseen(std::uint32_t process_id) const { return unseen_ && unseen_->has(process_id); }
    std::uint32_t unseen_programs_of(uid_t user_id) const;
    std::optional<uid_t> was_unseen_as(std::uint32_t process_id) const;
    /* Why a user's programs are not recorded, if that was tried. */
    std::optional<std::string> why_not(uid_t user_id) const;
    /* Whether the user's programs are recorded, or were. */
    bool records(uid_t user_id) const;
    /* Whether the process has tracepoints, by the state of a user who was joined. */
    bool has(std::uint32_t process_id) const;

    /* These rules are not to be followed any more. */
    void leave_off(const std::vector<Rule>& rules);
    /* These, and no others, are from now on. */
    void set_rules(std::vector<Rule> rules, const EachReport& each);

    /* As Session::hold_filtered(). */
    std::uint64_t hold_filtered();

    /* Ends the recording of those whose channel a program of theirs has shortened, and of nobody else: from such a channel
     * nothing more comes. join_later() makes another one. Why is what it returns; finish() tells it once more. */
    std::vector<Error> end_truncated(const EachReport& each);
    /* As Session::check_entrance(), of each; told once of each. */
    std::vector<Error> check_entrances();

    /* As Session::processes_without_slot(), of all. */
    std::uint32_t processes_without_slot() const;
    /* As Session::programs_begun(), of all. */
    std::uint32_t programs_begun() const;
    /* Kinds of events that were on in their programs. */
    void add_kinds_on(std::vector<EventDescription>& kinds) const;
    DrainProgress progress() const;
    /* As Drain::rotate(), of all: the next chunk is made ready; then that begins, and this one's totals are had once. */
    Status make_next_sinks(const std::string& directory);
    void announce_cut(std::uint64_t at);
    void rotate(const std::string& directory, std::uint64_t at, std::vector<Error>& problems);
    DrainTotals take_chunk_totals() { return std::exchange(chunk_totals_, {}); }
    /* Likewise, behind finish(): what of it could not be written. */
    std::vector<Error> take_chunk_problems() { return std::exchange(chunk_problems_, {}); }
    /* The first half of end(), for sessions that are kept: nobody writes any more, and finish() removes them. */
    void close(const EachReport& each);
    /* Of sessions that are kept: goes, and leaves them to who takes over. */
    void leave();
    /* One after the other: where its programs look, its session, and how far its drain is. */
    struct Glance {
        const UserPlace& place;
        const std::string& folder;
        const Session& session;
        DrainProgress progress;
    };
    void for_each(const std::function<void(const Glance&)>& look) const;
    /* Ends the sessions; `each` is given what was reported. */
    void end(const EachReport& each);
    /* The rest of the rings. What failed, then or before, goes into `problems`. Adds to the totals. */
    void finish(DrainTotals& totals, std::vector<Error>& problems);

private:
    struct Part {
        UserPlace place;
        Session session;
        std::unique_ptr<Drain> drain;
        std::string folder;
        std::unique_ptr<Sink> next_sink{};
        std::optional<Error> lost_entrance{}; /* why programs that start do not find it */
        bool was_awaited = false;
        bool is_vanishing = false; /* its container was not there at the last look */
    };
    bool has_part(const UserPlace& place) const;
    bool has_room_for(uid_t user_id) const;
    Result<Report> join_place(const UserPlace& place);
    Result<Report> join_awaited(const UserPlace& place);
    Result<Report> join_in_container(const UserPlace& place);
    bool has_begun_since(const UserPlace& place, bool is_first_look);
    void join_whoever_is_at(const UserPlace& place, bool is_first_look, const EachReport& each);
    void join_everybody(const EachReport& each);
    void join_all_containers(const EachReport& each);
    Result<Report> begin(const UserPlace& place, const ChannelConfig& config);
    Result<Report> take_over_at(const UserPlace& place, const std::string& folder,
                                std::optional<LeftTrace> left);
    std::string new_folder_of(const UserPlace& place) const;
    Status record(const UserPlace& place, const std::string& folder, Session& session,
                  std::optional<LeftTrace> left);
    void retire_containers(const std::vector<std::shared_ptr<const Container>>& there,
                           const EachReport& each);
    void retry_shortened(const Part& part);
    void begin_chunk_problems();
    void tell_lost_entrance(const Part& part);
    void forget_containers(const std::vector<std::shared_ptr<const Container>>& there);
    void remember(const Part& part);
    void remove_kept(Part& part);
    Result<Report> tried(const UserPlace& place, Result<Report> begun);
    bool is_settled(const UserPlace& place) const;
    void forget(const UserPlace& place);
    void finish(Part& part);
    void drop(Part& part);
    void remove_folder(const std::string& name) const;
    struct Look {
        std::uint64_t next_ns = 0;
        std::uint32_t next_slot = 0;       /* whose process is asked after first */
        std::set<std::uint64_t> strangers; /* claims of processes that nobody has launched */
    };
    /* A launched program of the user, by its process id; 0 if there is none; an error if there are, but what they share with us
     * is not usable. */
    Result<std::uint32_t> launched_at(const UserPlace& place, Look& look) const;
    Result<Report> join_place_of(const UserPlace& place, std::uint32_t process_id);
    std::set<uid_t> launched_unseen(const std::map<uid_t, Error>& of_users) const;
    void look_for_unseen(const EachReport& each);

    Options options_;
    ClockCalibration calibration_; /* as it was when the recording began: one line for all folders */
    std::list<Part> parts_;
    std::set<uid_t> open_for_; /* users, whoever comes of them */
    std::uint64_t next_changed_look_ns_ = 0;
    bool is_open_for_everybody_ = false;
    std::uint64_t next_everybody_look_ns_ = 0, next_containers_look_ns_ = 0;
    std::map<UserPlace, std::uint32_t> claims_; /* at the last look, of places that are not recorded yet */
    ContainerSearch containers_;
    std::uint64_t next_place_look_ns_ = 0;
    std::map<UserPlace, std::string>
        awaited_problems_; /* why somebody could be there by now, and is not recorded */
    std::optional<UnseenPrograms> unseen_;
    std::map<UserPlace, Look> looks_;        /* at the slots of who was not joined */
    std::map<uid_t, Error> unusable_;        /* directories, and why; anybody can make any number of them */
    std::uint64_t next_look_ns_ = 0;         /* at those */
    std::map<UserPlace, std::string> tried_; /* and what went wrong, if anything did */
    std::map<UserPlace, std::uint64_t> next_try_ns_; /* when those are tried again that found no room */
    struct Shortened {
        std::uint32_t times = 0;
        std::string why;
    };
    std::map<UserPlace, Shortened> shortened_; /* whose channel was */
    DrainTotals finished_totals_;              /* of those that are no part any more */
    DrainTotals chunk_totals_;                 /* of those, and of all when a chunk ends */
    std::vector<Error> finished_problems_;
    std::vector<Error> chunk_problems_; /* of those that ended in the chunk that is written */
    /* Of those that are no part any more. */
    std::uint32_t programs_begun_before_ = 0, without_slot_before_ = 0;
    std::vector<EventDescription> kinds_before_;
};

} // namespace plumb

#endif
