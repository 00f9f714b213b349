/*
 * Programs that a session records besides those that look where it is itself: of other users and in containers (root's sessions), and
 * of ours that look elsewhere. Each place has a session of the same cookie and a folder of its own in each chunk; where one may be is
 * in the description before it is made, so that the worker behind a death of ours takes it over, too.
 */
#include "consumerd/daemon/session_recording.h"

#include "base/processes.h"
#include "consumerd/control/kept_sessions.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

/* Who is new is looked for so often while the session is started. */
constexpr std::uint64_t place_look_ns = 200'000'000;
/* What is kept of who was found late. */
constexpr std::size_t late_max = 1000;

const std::string found_late =
    "what it traced before is missing, since it is another user's than the session, or looks in another "
    "directory, and was found after it had begun";

DescribedPlace described(const UserPlace& place) {
    DescribedPlace words{place.user_id, place.user_there, place.keeper};
    if (place.container) {
        words.memory = place.container->key();
        words.mount_namespace = place.container->mount_namespace();
    }
    return words;
}

bool is_at(const DescribedPlace& words, const UserPlace& place) {
    DescribedPlace same = described(place);
    same.folder = words.folder;
    same.mount_namespace = words.mount_namespace; /* which one of those that share it */
    return same == words;
}

std::string in_words(const DescribedPlace& words) {
    if (words.memory == 0) return programs_at({words.user_id, words.keeper, {}, words.user_there});
    return fmt::format("Programs of user {} in the container with mount namespace {}", words.user_id,
                       words.mount_namespace);
}

} // namespace

std::vector<std::string> SessionRecording::journal_folders() const {
    std::vector<std::string> folders = {""};
    if (description_.kernel.is_recorded()) folders.emplace_back(KernelPart::folder);
    for (const DescribedPlace& words : description_.places)
        folders.push_back(words.folder);
    return folders;
}

Status SessionRecording::note_place(const UserPlace& place, const std::string& folder) {
    const auto& known = description_.places;
    if (std::any_of(known.begin(), known.end(),
                    [&](const DescribedPlace& each) { return is_at(each, place); }))
        return Error("What the last worker recorded there is to be taken over first.").as(EBUSY);
    description_.places.push_back(described(place));
    description_.places.back().folder = folder;
    Status stored = store();
    if (!stored) description_.places.pop_back();
    return stored;
}

/* The journals go with it. */
void SessionRecording::forget_place(const UserPlace& place) {
    auto& known = description_.places;
    for (const DescribedPlace& words : known)
        if (is_at(words, place)) (void)!::unlink(journal_path(words.folder).c_str());
    std::erase_if(known, [&](const DescribedPlace& words) { return is_at(words, place); });
    if (Status stored = store(); !stored) log_(stored.error().message());
}

OtherUsers::Options SessionRecording::place_options() {
    OtherUsers::Options options;
    options.config = description_.channel_config();
    options.config.is_kept = true;
    if (description_.is_started) options.rules = rules();
    options.rules_off_since = rules_off_since();
    options.cookie = description_.cookie;
    options.quiescence = quiescence();
    options.drain = drain_options(chunks_->path());
    options.in_chunks = true;
    options.journal = [this](const std::string& folder) { return journal_path(folder); };
    options.before_joining = [this](const UserPlace& place, const std::string& folder) {
        return note_place(place, folder);
    };
    options.after_leaving = [this](const UserPlace& place) { forget_place(place); };
    return options;
}

/* Of a flight recorder there are none: it keeps the events of one place alone. */
Status SessionRecording::open_places(std::map<std::string, LeftTrace> left) {
    if (!drain_) return ok();
    const bool is_new = description_.places.empty();
    places_ = std::make_unique<OtherUsers>(place_options(), *calibration_);
    for (const DescribedPlace& words : std::vector<DescribedPlace>(description_.places)) {
        const auto found = left.find(words.folder);
        awaited_places_.push_back({words,
                                   found == left.end() ? std::optional<LeftTrace>()
                                                       : std::optional<LeftTrace>(std::move(found->second)),
                                   {}});
    }
    take_over_places();
    for (const uid_t user_id : description_.users) {
        const auto joined = places_->join(user_id, true);
        if (!joined && is_new) return joined.error();
        take_joined(joined, false);
    }
    if (description_.is_started) join_places(false);
    return ok();
}

/* One that can not be had now is tried again: another user may hold it, and only his own programs are to suffer from that. */
void SessionRecording::take_over_places() {
    if (awaited_places_.empty()) return;
    (void)containers_.all();
    for (auto each = awaited_places_.begin(); each != awaited_places_.end();) {
        const DescribedPlace words = each->words;
        UserPlace place{words.user_id, words.keeper, {}, words.user_there};
        if (words.memory != 0) place.container = containers_.find(words.memory, words.mount_namespace);
        const bool is_there = words.memory == 0 || place.container != nullptr;
        const auto taken = is_there ? places_->take_over(place, words.folder, each->left)
                                    : Result<Report>(Error("The container is gone.").as(ENOENT));
        const int number = taken ? 0 : taken.error().number();
        if (!taken && number != ENOENT && number != EBADMSG) {
            const std::string why = taken.error().with("{}", in_words(words)).message();
            if (why != each->told) tell(why);
            each->told = why;
            ++each;
            continue;
        }
        if (!taken) {
            if (each->left) /* there was one: what was not drained is gone with it */
                tell(taken.error()
                         .with("{}: what they had written since the last worker ended is lost",
                               in_words(words))
                         .message());
            each->left.reset();
            if (number == EBADMSG)
                if (const auto directory = UserDirectory::open_existing(place))
                    (void)stop_keeping(*directory, description_.cookie).has_value();
            std::erase(description_.places, words);
            if (Status stored = store(); !stored) log_(stored.error().message());
            (void)!::unlink(journal_path(words.folder).c_str());
        } else {
            take_joined(taken, false);
        }
        each = awaited_places_.erase(each);
    }
    if (awaited_places_.empty()) containers_ = {}; /* it holds the memory of all that there are */
}

/* Nobody is to wait for a controller any more. */
void SessionRecording::give_up_places() {
    if (description_.places.empty()) return;
    (void)containers_.all();
    for (const DescribedPlace& words : description_.places) {
        UserPlace place{words.user_id, words.keeper, {}, words.user_there};
        if (words.memory != 0) place.container = containers_.find(words.memory, words.mount_namespace);
        if (words.memory != 0 && !place.container) continue;
        if (const auto directory = UserDirectory::open_existing(place))
            (void)stop_keeping(*directory, description_.cookie).has_value();
    }
    containers_ = {};
}

/* Before rules are on: a program of ours that has changed its user looks for the channel there. */
void SessionRecording::join_places(bool is_late) {
    if (!places_) return;
    const auto take = [&](const Result<Report>& joined) { take_joined(joined, is_late); };
    if (description_.all_users) {
        if (!unseen_began_) places_->look_for_unseen_programs();
        unseen_began_ = true;
        places_->open_for_everybody();
        places_->join_later(take);
    }
    take(places_->join_own([](std::uint32_t) { return true; }, true));
    places_->join_changed(session_->state(), take);
    if (::geteuid() != 0) return;
    for (const DescribedRule& each : description_.rules) {
        if (each.rule.who.kind != PLUMB_WHO_PROCESS) continue;
        if (const auto user_id = user_of(each.rule.who.id)) take(places_->join(*user_id));
        take(places_->join_container_of(each.rule.who.id));
    }
}

void SessionRecording::take_joined(const Result<Report>& joined, bool is_late) {
    if (!joined) return tell(joined.error().message());
    unreachable_.insert(unreachable_.end(), joined->unreachable.begin(), joined->unreachable.end());
    if (!is_late) return;
    for (const std::uint32_t process_id : joined->acknowledged)
        if (late_.size() < late_max) late_.push_back({process_id, found_late});
}

/* The rules of all places become those of the session, or none. */
Report SessionRecording::tell_places() {
    Report report;
    if (!places_) return report;
    if (description_.is_started) join_places(false);
    places_->set_rules(description_.is_started ? rules() : std::vector<Rule>(),
                       [&](const Result<Report>& each) {
                           if (each)
                               report.add(*each);
                           else
                               tell(each.error().message());
                       });
    return report;
}

/* Users whose programs have begun and ended before they were found: each is told once, and stands in the summary of the chunk. At the
 * end nobody else will be found. */
void SessionRecording::look_for_unseen_users(bool is_at_end) {
    if (!unseen_began_) return;
    for (const uid_t user_id : is_at_end ? places_->unseen_users() : places_->take_unseen_users())
        if (unseen_users_.insert(user_id).second)
            tell(fmt::format("Programs of user {0} with tracepoints began and ended before that user was "
                             "recorded: what they traced is missing (--user {0} records that user's programs "
                             "from their beginning).",
                             user_id));
}

/* Of the chunk that ends. While the session is stopped, nobody is missed. */
std::set<uid_t> SessionRecording::take_unseen_users() {
    if (places_) look_for_unseen_users(false);
    if (places_ && !description_.is_started) {
        places_->leave_unseen_programs();
        unseen_began_ = false;
    }
    return std::exchange(unseen_users_, {});
}

/* Returns in how long it is to be done again at the latest. */
std::uint64_t SessionRecording::look_at_places() {
    if (!places_) return UINT64_MAX;
    places_->goes_to(chunks_->path());
    take_over_places();
    const auto take_late = [this](const Result<Report>& joined) { take_joined(joined, true); };
    for (const Error& why : places_->end_truncated(take_late))
        tell(why.message());
    for (const Error& why : places_->check_entrances())
        tell(why.message());
    const std::uint64_t again_ns = places_->hold_filtered();
    if (!description_.is_started) return again_ns;
    places_->join_later(take_late);
    places_->join_changed(session_->state(), take_late);
    look_for_unseen_users(false);
    return description_.all_users ? std::min(again_ns, place_look_ns) : again_ns;
}

DrainProgress SessionRecording::progress() const {
    DrainProgress sum;
    if (drain_) sum = drain_->progress();
    if (kernel_) add_progress(sum, kernel_->progress());
    if (places_) add_progress(sum, places_->progress());
    return sum;
}

} // namespace plumb
