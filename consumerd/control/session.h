/*
 * A session: what a user starts and stops. It is a channel, and rules in the state file that send events
 * there.
 *
 *   Result<Session> session = Session::create(config);
 *   session->enable({{"shop:*"}, {"!shop:debug_*"}});    // returns when it is true everywhere, or says where not
 *   ... drain session->channel() ...
 *   session->end();                                      // from here on no further record of it appears
 *   ... drain what is left ...
 *   session->channel().unlink();
 *
 * A session lives as long as its controller, the process that made it: another controller removes it when
 * that process is gone. One that goes out of scope without end() is removed without waiting.
 *
 * A session that is kept (ChannelConfig::is_kept) is not removed by anybody: programs go on writing to it while nobody reads,
 * those that begin then join it, and the next controller takes it over as it is, with its rules. It ends as others do, by end()
 * and remove_channel().
 */
#ifndef PLUMB_CONSUMERD_CONTROL_SESSION_H
#define PLUMB_CONSUMERD_CONTROL_SESSION_H

#include "base/result.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/quiescence.h"
#include "consumerd/control/state.h"
#include "consumerd/event/log_levels.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

/* Which processes a rule is for. */
struct Who {
    plumb_who kind = PLUMB_WHO_ALL;
    std::uint32_t id = 0;    /* process or user id */
    std::string executable;  /* glob */
    std::string cgroup = {}; /* its path (control_groups.h) */

    static Who all() { return {}; }
    /* By the number that we call it. */
    static Who process(std::uint32_t process_id) { return {PLUMB_WHO_PROCESS, process_id, {}}; }
    static Who user(std::uint32_t user_id) { return {PLUMB_WHO_USER, user_id, {}}; }
    static Who with_executable(std::string glob) { return {PLUMB_WHO_EXECUTABLE, 0, std::move(glob)}; }
    /* Those in this control group, as control_group_path() has it, and in those below. */
    static Who in_cgroup(std::string path) { return {PLUMB_WHO_CGROUP, 0, {}, std::move(path)}; }
    /* Those started with PLUMB_SESSIONS naming the session, and their children. */
    static Who launched() { return {PLUMB_WHO_LAUNCHED, 0, {}}; }
};

struct Rule {
    std::string pattern; /* glob over "provider:event"; a leading '!' excludes; "shop" means "shop:*" */
    Who who = {};
    LogLevels levels = {};
    std::string condition = {}; /* that a record must fulfil (rule_condition.h); empty: none */
};

/* The rule as it stands in the state file, without its condition; of a process, by the number that was given. */
Result<plumb_rule> encode_rule(const Rule& rule, std::uint8_t session_index);

class Session {
public:
    /* Makes the channel and takes a session index. Nothing is on yet. place: whose programs, and where they look; only root
     * can name another user. cookie: that of a session in another directory, of which this one is a part. */
    static Result<Session> create(const ChannelConfig& config, const QuiescenceOptions& options = {},
                                  std::optional<UserPlace> place = {},
                                  std::optional<std::uint64_t> cookie = {});
    /* In another directory than the user's, for tests. */
    static Result<Session> create_in(UserDirectory directory, const ChannelConfig& config,
                                     const QuiescenceOptions& options = {},
                                     std::optional<std::uint64_t> cookie = {});
    /* Takes over a session that is kept, whose controller is gone; nothing changes for its programs. number() of the error is
     * EBUSY if its controller lives, ENOENT if there is no such session, EBADMSG if its channel can not be used any more. */
    static Result<Session> adopt_in(UserDirectory directory, std::uint64_t cookie,
                                    const QuiescenceOptions& options = {});
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;
    ~Session();

    /* Adds rules (those already there are left alone), and waits until they are true everywhere. */
    Result<Report> enable(const std::vector<Rule>& rules);
    /* Removes these rules, and waits. Afterwards no record of an event that they alone switched on appears.
     */
    Result<Report> disable(const std::vector<Rule>& rules);
    /* Adds and removes rules so that it has these and no others, in one step, and waits. For who takes a session over, and knows
     * what it should have. `off_since`: who was controller before may have removed them, and died before it told all programs. */
    Result<Report> set_rules(const std::vector<Rule>& rules, const std::vector<Rule>& off_since = {});
    /* As they stand in the state file. */
    Result<std::vector<plumb_rule>> rules() const;
    /* The first half of end(): removes all rules, waits, and closes the channel, for who reads what is in it before the session is
     * gone. Until then it can be taken over by others, who then have the rest to read. A session that can not be closed goes on
     * as before, but for number() ENOENT of the error: it is not in the state file any more, and its channel is closed. */
    Result<Report> close();
    /* Removes all rules and the session itself, and waits; then closes the channel. What is in the channel
     * can still be read. The wait is repeated if end() is called again. */
    Result<Report> end();

    /* Of a session that is kept: goes, and leaves it to the next controller, as being killed does, too, and the end of scope. */
    void leave();

    /* Removes the channel's name, through the directory that was checked: by path, its user could lead us elsewhere. */
    Status remove_channel();

    /* What killed recorders had left here, and was removed since it is no channel, or a damaged one; or can not be opened now. */
    const std::vector<Error>& left_behind() const;
    /* Now and then while the session lasts: whether programs that start find their way to it, through files that anything
     * of this user's may have damaged or removed. */
    Status check_entrance() const;
    /* How many processes found no slot since the session was made; they are out of its reach. */
    std::uint32_t processes_without_slot() const;
    /* How many programs with tracepoints have begun since, of this user's; those that found no slot are among them, and an
     * exec() begins another one. */
    std::uint32_t programs_begun() const;
    /* Now and then while the session lasts: leaves alone those that have installed a seccomp filter since, and tells those that
     * can not see themselves whether they are in a control group that rules ask for. Returns in how long it
     * should be called again at the latest. */
    std::uint64_t hold_filtered();

    Channel& channel();
    const Channel& channel() const;
    StateFile& state();
    std::uint64_t cookie() const;
    const std::string& name() const;
    /* For the environment of a launched command: PLUMB_SESSIONS and its value, `inherited` being the value
     * that is already there, or nullptr. */
    std::string sessions_variable(const char* inherited) const;

private:
    struct Parts;
    static Session of(std::unique_ptr<Parts> parts);
    explicit Session(std::unique_ptr<Parts> parts);
    Result<Report> stop_all(bool with_session);
    std::unique_ptr<Parts> parts_;
};

} // namespace plumb

#endif
