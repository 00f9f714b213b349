/* Whom a recording of other users takes in: those who are named, and whoever there is. */
#include "consumerd/places/other_users.h"

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/places/look_pause.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace plumb {
namespace {

/* Each costs a channel, and one more where programs look in several places. */
constexpr std::size_t users_max = 16;
/* A place that lack of room has kept out is tried again so late. */
constexpr std::uint64_t retry_pause_ns = 1'000'000'000;

/* Of the disk, of shared memory, of the recorder's own: it may be there later. */
bool is_for_want_of_room(int number) {
    return number == ENOSPC || number == EDQUOT || number == ENOMEM || number == EMFILE || number == ENFILE;
}

} // namespace

/* Whether a program looks there that is of the user, and is meant. */
static bool has_programs(const UserPlace& place, const std::function<bool(std::uint32_t)>& is_meant) {
    const auto directory = UserDirectory::open_existing(place);
    if (!directory) return false;
    const auto state = StateFile::open_existing(*directory);
    if (!state) return false;
    const std::vector<ProcessSlot> slots = state->processes();
    return std::any_of(slots.begin(), slots.end(), [&](const ProcessSlot& slot) {
        const std::uint32_t process_id = slot.process_id();
        return process_id != 0 && is_meant(process_id) && user_of(process_id) == place.user_id &&
               state->may_be_mapped_by(process_id);
    });
}

/* Whom nobody asks for by name has a session in the second place only where somebody looks there: it costs a channel. */
Result<Report> OtherUsers::join(uid_t user_id, bool for_whoever_comes) {
    if (user_id == ::geteuid()) return Report{};
    auto joined = join_place(main_place(user_id));
    const bool is_to_come = joined || next_try_ns_.count(main_place(user_id)) != 0;
    if (for_whoever_comes && !options_.flight_recorder && is_to_come) open_for_.insert(user_id);
    if (!joined) return joined;
    for (const UserPlace& place : places_of(user_id)) {
        if (place == main_place(user_id)) continue;
        const bool has_some = has_programs(place, [](std::uint32_t) { return true; });
        if (!has_some && open_for_.count(user_id) == 0) continue;
        auto beside = has_some ? join_place(place) : join_awaited(place);
        if (!beside && has_some) return beside;
        if (beside)
            joined->add(*beside);
        else
            awaited_problems_.erase(place); /* told by who tries again */
    }
    return joined;
}

Result<Report> OtherUsers::join_own(const std::function<bool(std::uint32_t)>& is_meant, bool is_open) {
    if (is_open && !options_.flight_recorder) open_for_.insert(::geteuid());
    for (const UserPlace& place : places_of(::geteuid())) {
        if (place == main_place(::geteuid())) continue;
        if (has_programs(place, is_meant)) return join_place(place);
        if (open_for_.count(::geteuid()) != 0) return join_awaited(place);
    }
    return Report{};
}

/* What a container has of shared memory is often little, and no more than its programs use is taken of it. */
Result<Report> OtherUsers::join_in_container(const UserPlace& place) {
    if (has_part(place)) return Report{};
    ChannelConfig config = options_.config;
    config.rings_on_demand = true;
    return tried(place, begin(place, config));
}

Result<Report> OtherUsers::join_container_of(std::uint32_t process_id) {
    const auto container = containers_.of_process(process_id);
    const auto user_id = user_of(process_id);
    if (!container || !user_id) return Report{};
    for (const UserPlace& place : places_in(container))
        if (place.user_id == *user_id) return join_in_container(place);
    return Report{};
}

/* By how many slots were ever claimed there: whoever began since the last look may have ended by now, and the next one is as brief. A place
 * that was not there at the first look is new itself. */
bool OtherUsers::has_begun_since(const UserPlace& place, bool is_first_look) {
    const auto directory = UserDirectory::open_existing(place);
    if (!directory) return false;
    const auto state = StateFile::open_existing(*directory);
    if (!state) return false;
    const std::uint32_t claims = state->claims();
    const auto [known, is_new] = claims_.try_emplace(place, claims);
    const std::uint32_t before = is_new && !is_first_look ? 0 : known->second;
    known->second = claims;
    return claims != before;
}

void OtherUsers::join_whoever_is_at(const UserPlace& place, bool is_first_look, const EachReport& each) {
    if (place == main_place(::geteuid()) || is_settled(place)) return;
    const bool has_begun = has_begun_since(place, is_first_look);
    if (!has_begun && !has_programs(place, [](std::uint32_t) { return true; })) return;
    each(place.container ? join_in_container(place) : join_place(place));
    if (unseen_ && !place.container) unseen_->found(place);
}

void OtherUsers::join_everybody(const EachReport& each) {
    const auto places = places_with_directory();
    if (!places) return;
    for (const UserPlace& place : *places)
        join_whoever_is_at(place, next_everybody_look_ns_ == 0, each);
}

/* What names one that is gone would hold all its memory open. */
void OtherUsers::forget_containers(const std::vector<std::shared_ptr<const Container>>& there) {
    const auto forget_in = [&](auto& known) {
        std::erase_if(known, [&](const auto& each) {
            const UserPlace& place = each.first;
            return place.container && !has_part(place) &&
                   std::find(there.begin(), there.end(), place.container) == there.end();
        });
    };
    forget_in(claims_);
    forget_in(tried_);
    forget_in(next_try_ns_);
    forget_in(awaited_problems_);
    forget_in(shortened_);
}

/* To find them all takes longer. */
void OtherUsers::join_all_containers(const EachReport& each) {
    const auto containers = containers_.all();
    retire_containers(containers, each);
    forget_containers(containers);
    for (const auto& container : containers)
        for (const UserPlace& place : places_in(container))
            join_whoever_is_at(place, next_containers_look_ns_ == 0, each);
}

/* A container that is gone comes back as another one. Not at the first look: one may be between two of its processes. */
void OtherUsers::retire_containers(const std::vector<std::shared_ptr<const Container>>& there,
                                   const EachReport& each) {
    for (auto part = parts_.begin(); part != parts_.end();) {
        const auto& container = part->place.container;
        const bool is_there = !container || std::any_of(there.begin(), there.end(), [&](const auto& known) {
            return known->key() == container->key();
        });
        const bool was_vanishing = std::exchange(part->is_vanishing, !is_there);
        if (is_there || !was_vanishing) {
            ++part;
            continue;
        }
        each(options_.config.is_kept ? part->session.close() : part->session.end());
        remember(*part);
        finish(*part);
        forget(part->place);
        part = parts_.erase(part);
    }
}

void OtherUsers::join_changed(const StateFile& own_state, const EachReport& each) {
    if (::geteuid() != 0 || read_clock(PLUMB_CLOCK_MONOTONIC) < next_changed_look_ns_) return;
    const std::uint64_t before_ns = used_ns();
    for (const ProcessSlot& slot : own_state.processes()) {
        const auto user_id = slot.process_id() != 0 ? user_of(slot.process_id()) : std::nullopt;
        if (!user_id || *user_id == ::geteuid() || is_settled(main_place(*user_id))) continue;
        each(join(*user_id));
    }
    next_changed_look_ns_ = behind_pause_ns(used_ns() - before_ns);
}

void OtherUsers::join_later(const EachReport& each) {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    if (is_open_for_everybody_ && now_ns >= next_everybody_look_ns_) {
        const std::uint64_t before_ns = used_ns();
        join_everybody(each);
        next_everybody_look_ns_ = behind_pause_ns(used_ns() - before_ns);
    }
    if (is_open_for_everybody_ && now_ns >= next_containers_look_ns_) {
        const std::uint64_t before_ns = used_ns();
        join_all_containers(each);
        next_containers_look_ns_ = behind_pause_ns(used_ns() - before_ns);
    }
    if (open_for_.empty() || now_ns < next_place_look_ns_) return;
    constexpr std::uint64_t pause_ns = 50'000'000;
    next_place_look_ns_ = now_ns + pause_ns;
    for (const uid_t user_id : open_for_)
        for (const UserPlace& place : places_of(user_id)) {
            if (has_part(place) || is_settled(place)) continue;
            if (place == main_place(user_id)) {
                if (tried_.count(place) != 0) each(join_place(place));
                continue;
            }
            const auto joined = join_awaited(place);
            if (!joined || has_part(place)) each(joined);
        }
}

/* Nobody is there yet: as little memory as possible. It may be that nobody can come yet either, and then it is tried again; why
 * it can not be although somebody could come is told once. */
Result<Report> OtherUsers::join_awaited(const UserPlace& place) {
    ChannelConfig config = options_.config;
    config.rings_on_demand = true;
    Result<Report> begun = begin(place, config);
    if (begun) {
        parts_.back().was_awaited = true;
        return tried(place, std::move(begun));
    }
    const int why = begun.error().number();
    if (is_for_want_of_room(why)) next_try_ns_[place] = read_clock(PLUMB_CLOCK_MONOTONIC) + retry_pause_ns;
    if (why == ENOENT || why == EROFS) return Report{};
    std::string& told = awaited_problems_[place];
    if (std::exchange(told, begun.error().message()) == begun.error().message()) return Report{};
    return begun.error().with("{} can not be recorded", programs_at(place));
}

bool OtherUsers::has_part(const UserPlace& place) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) { return part.place == place; });
}

/* Our own programs, which look elsewhere, are nobody else's; and a user is one, in however many places. */
bool OtherUsers::has_room_for(uid_t user_id) const {
    std::set<uid_t> users = {::geteuid(), user_id};
    for (const Part& part : parts_)
        users.insert(part.place.user_id);
    return users.size() <= 1 + users_max;
}

Result<Report> OtherUsers::join_place(const UserPlace& place) {
    if (has_part(place)) return Report{};
    return tried(place, begin(place, options_.config));
}

/* It may take its slot back before anybody asks it to follow. */
Result<Report> OtherUsers::join_place_of(const UserPlace& place, std::uint32_t process_id) {
    Result<Report> joined = join_place(place);
    if (unseen_) unseen_->found(place);
    if (!joined || process_start_boottime_ns(process_id)) return joined;
    const auto has = [&](const std::vector<std::uint32_t>& ids) {
        return std::find(ids.begin(), ids.end(), process_id) != ids.end();
    };
    if (!has(joined->acknowledged) && !has(joined->ended)) joined->ended.push_back(process_id);
    return joined;
}

std::set<uid_t> OtherUsers::unseen_users() const {
    if (!unseen_) return {};
    return unseen_->users([this](const UserPlace& place) { return tried_.count(place) != 0; });
}

std::uint32_t OtherUsers::unseen_programs_of(uid_t user_id) const {
    if (!unseen_) return 0;
    return unseen_->begun_of(user_id, [this](const UserPlace& place) { return tried_.count(place) != 0; });
}

std::optional<uid_t> OtherUsers::was_unseen_as(std::uint32_t process_id) const {
    if (!unseen_) return {};
    return unseen_->user_of(process_id);
}

bool OtherUsers::is_settled(const UserPlace& place) const {
    const auto again = next_try_ns_.find(place);
    if (again != next_try_ns_.end()) return read_clock(PLUMB_CLOCK_MONOTONIC) < again->second;
    return tried_.count(place) != 0;
}

void OtherUsers::forget(const UserPlace& place) {
    tried_.erase(place);
    next_try_ns_.erase(place);
}

/* What is tried again and fails as before is told once. */
Result<Report> OtherUsers::tried(const UserPlace& place, Result<Report> begun) {
    std::string& why_not = tried_[place];
    const bool is_again = next_try_ns_.erase(place) != 0;
    if (begun) {
        if (is_again && options_.drain.log)
            options_.drain.log(fmt::format("{} are recorded from now on.", programs_at(place)));
        why_not.clear();
        return begun;
    }
    const bool is_told = std::exchange(why_not, begun.error().message()) == begun.error().message();
    if (is_for_want_of_room(begun.error().number()))
        next_try_ns_[place] = read_clock(PLUMB_CLOCK_MONOTONIC) + retry_pause_ns;
    if (is_again && is_told) return Report{};
    return begun.error().with("{} can not be recorded", programs_at(place));
}

Result<Report> OtherUsers::begin(const UserPlace& place, const ChannelConfig& config) {
    if (const std::string why = place.container ? place.container->why_not() : ""; !why.empty())
        return Error("{}.", why).hint("Mount a tmpfs there, as container engines do.");
    if (options_.flight_recorder && place.user_id == ::geteuid())
        return Error("A flight recorder keeps the events of one place alone, and this program looks in "
                     "another one: it began before "
                     "plumb.ko was loaded, or has a seccomp filter.")
            .hint("Record without --snapshot, or start the program again.");
    if (options_.flight_recorder)
        return Error("A flight recorder keeps events of one user alone.")
            .hint("Record without --snapshot, or start one as that user.");
    if (!has_room_for(place.user_id))
        return Error("One recording takes programs of {} other users at most.", users_max)
            .hint("Record the others with --user in one of their own.");
    const std::string folder = new_folder_of(place);
    if (options_.before_joining)
        if (Status said = options_.before_joining(place, folder); !said) return said.error();
    auto session = Session::create(config, options_.quiescence, place, options_.cookie);
    if (!session) {
        if (options_.after_leaving) options_.after_leaving(place);
        return session.error();
    }
    for (const Error& each : session->left_behind())
        if (options_.drain.log) options_.drain.log(each.message());
    if (Status recorded = record(place, folder, *session, {}); !recorded) {
        remove_folder(folder);
        if (config.is_kept) {
            (void)session->end().has_value();
            (void)session->remove_channel().has_value();
            if (options_.after_leaving) options_.after_leaving(place);
        }
        return recorded.error();
    }
    Part& part = parts_.back();
    Result<Report> enabled = Report{};
    if (Status started = part.drain->start(); !started)
        enabled = started.error();
    else if (!options_.rules.empty())
        enabled = part.session.enable(options_.rules);
    if (!enabled) drop(part);
    return enabled;
}

/* The kernel gives a new mount namespace the number of one that has just gone, whose events are in the folder of that number. */
std::string OtherUsers::new_folder_of(const UserPlace& place) const {
    const auto is_taken = [&](const std::string& folder) {
        struct stat info {};
        return ::lstat((options_.drain.directory + "/" + folder).c_str(), &info) == 0 ||
               std::any_of(parts_.begin(), parts_.end(),
                           [&](const Part& part) { return part.folder == folder; });
    };
    const std::string name = folder_of(place);
    std::string folder = name;
    for (unsigned number = 2; is_taken(folder); number++)
        folder = fmt::format("{}-{}", name, number);
    return folder;
}

/* Makes it a part, whose drain is to be started. */
Status OtherUsers::record(const UserPlace& place, const std::string& folder, Session& session,
                          std::optional<LeftTrace> left) {
    ChannelDrainOptions drain_options = options_.drain;
    drain_options.folder = folder;
    drain_options.ring_memory = session.channel().ring_memory();
    drain_options.made_as = session.channel().made_as();
    if (options_.journal) drain_options.journal = options_.journal(folder);
    drain_options.left = std::move(left);
    auto drain = drain_live_channel(session.channel().bytes(), calibration_, std::move(drain_options));
    if (!drain) return drain.error();
    if (options_.in_chunks)
        if (Status kept = (*drain)->keep_for_chunks(); !kept) return kept;
    parts_.push_back({place, std::move(session), std::move(*drain), folder});
    return ok();
}

Result<Report> OtherUsers::take_over(const UserPlace& place, const std::string& folder,
                                     std::optional<LeftTrace> left) {
    const auto taken = take_over_at(place, folder, std::move(left));
    (void)tried(place, taken).has_value();
    next_try_ns_.erase(place); /* by who takes over */
    if (!taken && (taken.error().number() == ENOENT || taken.error().number() == EBADMSG)) forget(place);
    return taken;
}

Result<Report> OtherUsers::take_over_at(const UserPlace& place, const std::string& folder,
                                        std::optional<LeftTrace> left) {
    auto directory = UserDirectory::open_existing(place);
    if (!directory) return directory.error();
    auto session = Session::adopt_in(std::move(*directory), options_.cookie, options_.quiescence);
    if (!session) return session.error();
    const bool is_new = ::access((options_.drain.directory + "/" + folder).c_str(), F_OK) != 0;
    const auto undo = [&](const Error& why) { /* it stays for the next try */
                                              if (is_new) remove_folder(folder);
                                              return why;
    };
    if (Status recorded = record(place, folder, *session, std::move(left)); !recorded)
        return undo(recorded.error());
    Part& part = parts_.back();
    part.was_awaited = true;
    if (Status started = part.drain->start(); !started) {
        std::erase_if(parts_, [&](const Part& each) { return &each == &part; });
        return undo(started.error());
    }
    return part.session.set_rules(options_.rules, options_.rules_off_since);
}

/* Nobody is recorded by it. */
void OtherUsers::drop(Part& part) {
    part.drain->stop();
    if (options_.config.is_kept) {
        (void)part.session.remove_channel().has_value();
        remove_kept(part);
    }
    remove_folder(part.folder);
    std::erase_if(parts_, [&](const Part& each) { return &each == &part; });
}

} // namespace plumb
