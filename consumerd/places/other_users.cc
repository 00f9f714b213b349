#include "consumerd/places/other_users.h"

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/launched.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

namespace plumb {
Result<uid_t> parse_user(const std::string& text) {
    constexpr uid_t nobody_at_all = static_cast<uid_t>(-1); /* "leave it as it is", to the kernel */
    if (const auto number = user_number_in(text); number && *number != nobody_at_all) return *number;
    const passwd* const entry = ::getpwnam(text.c_str());
    if (entry == nullptr) return Error("There is no user \"{}\".", text).hint("Name one, or give a number.");
    return entry->pw_uid;
}

std::string folder_in_container(uid_t user_there, std::uint64_t mount_namespace) {
    return fmt::format("ust-{}-in-{}", user_there, mount_namespace);
}

std::string folder_of(const UserPlace& place) {
    if (place.container) return folder_in_container(place.user_there, place.container->mount_namespace());
    if (place == main_place(place.user_id)) return fmt::format("ust-{}", place.user_id);
    return fmt::format("ust-{}-{}", place.user_id,
                       place.keeper == DirectoryKeeper::module ? "module" : "shm");
}

std::string programs_at(const UserPlace& place) {
    const bool has_path = place.container || has_several_keepers();
    return fmt::format("Programs of user {}{}", place.user_id,
                       has_path ? fmt::format(" ({})", shown_path_of(place)) : "");
}

std::optional<uid_t> user_of(std::uint32_t process_id) {
    const auto status = process_status(process_id);
    if (!status) return {};
    return status->effective_user_id;
}

void add_kinds_on(const Channel& channel, std::vector<EventDescription>& kinds) {
    auto reader = ChannelReader::open(channel.bytes());
    if (!reader) return;
    (void)reader->scan_events();
    for (const ChannelEvent& event : reader->events())
        kinds.push_back(event.description);
}

std::optional<std::string> OtherUsers::why_not(uid_t user_id) const {
    for (const auto& [place, why] : tried_)
        if (place.user_id == user_id && !why.empty()) return why;
    return {};
}

bool OtherUsers::records(uid_t user_id) const {
    return std::any_of(tried_.begin(), tried_.end(), [&](const auto& each) {
        return each.first.user_id == user_id && each.second.empty();
    });
}

std::uint64_t OtherUsers::hold_filtered() {
    std::uint64_t wanted_in_ns = UINT64_MAX;
    for (Part& part : parts_)
        wanted_in_ns = std::min(wanted_in_ns, part.session.hold_filtered());
    return wanted_in_ns;
}

void OtherUsers::leave_off(const std::vector<Rule>& rules) {
    for (Part& part : parts_)
        (void)part.session.disable(rules).has_value();
}

void OtherUsers::set_rules(std::vector<Rule> rules, const EachReport& each) {
    options_.rules = std::move(rules);
    for (Part& part : parts_) {
        auto report = part.session.set_rules(options_.rules);
        each(report ? std::move(report) : Result<Report>(report.error().with("{}", programs_at(part.place))));
    }
}

void OtherUsers::for_each(const std::function<void(const Glance&)>& look) const {
    for (const Part& part : parts_)
        look({part.place, part.folder, part.session, part.drain->progress()});
}

bool OtherUsers::has(std::uint32_t process_id) const {
    return std::any_of(parts_.begin(), parts_.end(), [process_id](const Part& part) {
        const std::vector<ProcessSlot> slots = const_cast<Session&>(part.session).state().processes();
        return std::any_of(
                   slots.begin(), slots.end(),
                   [process_id](const ProcessSlot& slot) { return slot.process_id() == process_id; }) &&
               user_of(process_id) == part.place.user_id;
    });
}

std::uint32_t OtherUsers::processes_without_slot() const {
    std::uint32_t count = without_slot_before_;
    for (const Part& part : parts_)
        count += part.session.processes_without_slot();
    return count;
}

static Error was_shortened(const UserPlace& place, const Channel& channel) {
    return Error(
        "A program of user {} has shortened a channel ({}) while it was recorded: events of that user's "
        "programs are lost.",
        place.user_id, channel.path());
}

/* A new channel is made for who comes then: at once for a slip, later and later for who does it again and again. */
void OtherUsers::retry_shortened(const Part& part) {
    constexpr std::uint64_t first_pause_ns = 1'000'000'000;
    constexpr std::uint32_t doublings_max = 12; /* about an hour */
    Shortened& shortened = shortened_[part.place];
    shortened.why = was_shortened(part.place, part.session.channel()).message();
    tried_[part.place] = shortened.why;
    next_try_ns_[part.place] =
        read_clock(PLUMB_CLOCK_MONOTONIC) + (first_pause_ns << std::min(shortened.times++, doublings_max));
}

std::vector<Error> OtherUsers::end_truncated(const EachReport& each) {
    const std::size_t known = finished_problems_.size();
    for (auto part = parts_.begin(); part != parts_.end();) {
        if (!part->session.channel().was_truncated()) {
            ++part;
            continue;
        }
        each(part->session.end());
        remember(*part);
        finish(*part);
        retry_shortened(*part);
        part = parts_.erase(part);
    }
    return {finished_problems_.begin() + static_cast<std::ptrdiff_t>(known), finished_problems_.end()};
}

void OtherUsers::tell_lost_entrance(const Part& part) {
    chunk_problems_.push_back(part.lost_entrance->with("Programs that started since were not recorded"));
}

std::vector<Error> OtherUsers::check_entrances() {
    std::vector<Error> lost;
    for (Part& part : parts_) {
        if (part.lost_entrance) continue;
        const Status open = part.session.check_entrance();
        if (open) continue;
        part.lost_entrance = open.error().with("{}", programs_at(part.place));
        lost.push_back(*part.lost_entrance);
        tell_lost_entrance(part);
    }
    return lost;
}

void OtherUsers::add_kinds_on(std::vector<EventDescription>& kinds) const {
    kinds.insert(kinds.end(), kinds_before_.begin(), kinds_before_.end());
    for (const Part& part : parts_)
        plumb::add_kinds_on(part.session.channel(), kinds);
}

std::uint32_t OtherUsers::programs_begun() const {
    std::uint32_t count = programs_begun_before_;
    for (const Part& part : parts_)
        count += part.session.programs_begun();
    return count;
}

/* What is asked of it when it is no part any more. */
void OtherUsers::remember(const Part& part) {
    programs_begun_before_ += part.session.programs_begun();
    without_slot_before_ += part.session.processes_without_slot();
    std::vector<EventDescription> kinds;
    plumb::add_kinds_on(part.session.channel(), kinds);
    for (EventDescription& kind : kinds)
        if (std::none_of(kinds_before_.begin(), kinds_before_.end(), [&](const EventDescription& known) {
                return known.full_name() == kind.full_name();
            }))
            kinds_before_.push_back(std::move(kind));
}

DrainProgress OtherUsers::progress() const {
    DrainProgress sum = finished_totals_.progress;
    for (const Part& part : parts_)
        add_progress(sum, part.drain->progress());
    return sum;
}

static bool is_empty(const DrainTotals& totals) {
    return totals.events.empty() && totals.processes.empty() && totals.events_lost.empty() &&
           totals.subbufs_lost.empty();
}

Status OtherUsers::make_next_sinks(const std::string& directory) {
    for (Part& part : parts_) {
        auto sink = part.drain->make_next_sink(directory);
        if (!sink) return sink.error();
        part.next_sink = std::move(*sink);
    }
    return ok();
}

void OtherUsers::announce_cut(std::uint64_t at) {
    for (Part& part : parts_)
        part.drain->announce_cut(at);
}

/* What is missing from the first moment of a chunk. */
void OtherUsers::begin_chunk_problems() {
    for (const Part& part : parts_)
        if (part.lost_entrance) tell_lost_entrance(part);
    for (const auto& [place, shortened] : shortened_) {
        const bool is_looked_for = is_open_for_everybody_ || open_for_.count(place.user_id) != 0;
        if (!has_part(place) && (is_settled(place) || !is_looked_for))
            chunk_problems_.push_back(Error("{}", shortened.why));
    }
}

/* Where nobody has come so far, the folder of the chunk that ends says nothing. */
void OtherUsers::rotate(const std::string& directory, std::uint64_t at, std::vector<Error>& problems) {
    for (Part& part : parts_) {
        const Drain::Chunk ended = part.drain->rotate(std::move(part.next_sink), directory, at);
        if (!ended.written) problems.push_back(ended.written.error().with("{}", programs_at(part.place)));
        if (part.session.channel().was_truncated()) /* seen by nobody so far */
            problems.push_back(was_shortened(part.place, part.session.channel()));
        add_totals(chunk_totals_, ended.totals);
        if (part.was_awaited && is_empty(ended.totals)) remove_folder(part.folder);
    }
    for (Error& problem : take_chunk_problems())
        problems.push_back(std::move(problem));
    begin_chunk_problems();
    finished_totals_.progress.chunk_bytes = finished_totals_.progress.chunk_events = 0;
    goes_to(directory);
}

void OtherUsers::end(const EachReport& each) {
    for (Part& part : parts_)
        each(part.session.end());
}

void OtherUsers::close(const EachReport& each) {
    for (Part& part : parts_) {
        auto report = part.session.close();
        /* Nobody goes on with it: what came now would not be read. */
        if (!report) part.session.channel().close();
        each(report ? std::move(report) : Result<Report>(report.error().with("{}", programs_at(part.place))));
    }
}

void OtherUsers::leave() {
    for (Part& part : parts_) {
        part.drain->stop();
        part.drain.reset();
        part.session.leave();
    }
    parts_.clear();
}

/* When all of it was read. */
void OtherUsers::remove_kept(Part& part) {
    if (const auto ended = part.session.end(); !ended)
        finished_problems_.push_back(ended.error().with("{}", programs_at(part.place)));
    if (options_.journal) (void)!::unlink(options_.journal(part.folder).c_str());
    if (options_.after_leaving) options_.after_leaving(part.place);
}

/* Nobody came, and its folder says nothing. */
void OtherUsers::remove_folder(const std::string& folder_name) const {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path(options_.drain.directory) / folder_name;
    std::error_code failed;
    for (const char* const name : {"metadata", "statedump"})
        fs::remove(folder / name, failed);
    fs::remove(folder, failed); /* if nothing else is in it */
}

/* Asks for the channel's length last: what shortened it may have done so while the rest was read. */
void OtherUsers::finish(Part& part) {
    if (Status finished = part.drain->finish(); !finished)
        finished_problems_.push_back(finished.error().with("{}", programs_at(part.place)));
    if (Status written = part.drain->chunk_written(); !written)
        chunk_problems_.push_back(written.error().with("{}", programs_at(part.place)));
    const DrainTotals totals = part.drain->totals();
    add_totals(finished_totals_, totals);
    const DrainTotals of_chunk = options_.in_chunks ? part.drain->chunk_totals() : totals;
    add_totals(chunk_totals_, of_chunk);
    if (part.was_awaited && is_empty(of_chunk)) remove_folder(part.folder);
    if (part.session.channel().was_truncated()) {
        finished_problems_.push_back(was_shortened(part.place, part.session.channel()));
        chunk_problems_.push_back(finished_problems_.back());
    }
    if (Status removed = part.session.remove_channel(); !removed)
        finished_problems_.push_back(removed.error().with("{}", programs_at(part.place)));
    if (options_.config.is_kept) remove_kept(part);
}

void OtherUsers::finish(DrainTotals& totals, std::vector<Error>& problems) {
    for (Part& part : parts_)
        finish(part);
    parts_.clear();
    add_totals(totals, finished_totals_);
    problems.insert(problems.end(), finished_problems_.begin(), finished_problems_.end());
}

} // namespace plumb
