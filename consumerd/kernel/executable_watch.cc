#include "consumerd/kernel/executable_watch.h"

#include "base/glob.h"
#include "base/processes.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace plumb {
namespace {

/* Who has escaped notice is found then. */
constexpr std::uint64_t look_interval_ns = 1'000'000'000;
constexpr int looks_max = 10;

} // namespace

ExecutableWatch::ExecutableWatch(KernelSession& session, Options options)
    : session_(session), options_(std::move(options)) {}

ExecutableWatch::~ExecutableWatch() {
    if (!thread_.joinable()) return;
    is_over_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    thread_.join();
}

Result<std::unique_ptr<ExecutableWatch>> ExecutableWatch::open(KernelSession& session, Options options) {
    std::unique_ptr<ExecutableWatch> watch(new ExecutableWatch(session, std::move(options)));
    auto reader = session.open_reader("programs");
    if (!reader) return reader.error();
    watch->reader_ = std::move(*reader);
    auto exec = watch->reader_->enable("sched", "sched_process_exec");
    if (!exec) return exec.error().with("Which programs are started is not to be known");
    watch->exec_ = std::move(*exec);
    watch->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!watch->wake_.is_open()) return Error::from_errno(errno, "Could not make an event descriptor");
    return watch;
}

Status ExecutableWatch::start() {
    if (Status listens = reader_->start(); !listens) return listens;
    if (Status added = add_matching(); !added) return added;
    thread_ = std::thread([this] { run(); });
    return ok();
}

bool ExecutableWatch::matches(const std::string& executable) const {
    const std::string last_part = executable.substr(executable.rfind('/') + 1);
    return std::any_of(options_.globs.begin(), options_.globs.end(), [&](const std::string& glob) {
        return glob_matches(glob.c_str(), executable.c_str()) ||
               glob_matches(glob.c_str(), last_part.c_str());
    });
}

std::vector<std::uint32_t> ExecutableWatch::matching_processes() const {
    std::vector<std::uint32_t> matching;
    for (const std::uint32_t process_id : all_process_ids()) {
        if (process_id == static_cast<std::uint32_t>(getpid())) continue;
        const auto executable = executable_of(process_id);
        if (executable && matches(*executable)) matching.push_back(process_id);
    }
    return matching;
}

/* Until nobody is found who was started by one that was not recorded yet. */
Status ExecutableWatch::add_matching() {
    std::set<std::uint32_t> known;
    for (int looks = 0; looks < looks_max; looks++) {
        std::vector<std::uint32_t> found = matching_processes();
        const auto hidden = session_.hidden_threads();
        if (!hidden) return hidden.error();
        std::vector<std::uint32_t> to_show;
        for (const std::uint32_t process_id : found)
            for (const std::uint32_t thread_id : thread_ids(process_id))
                if (hidden->contains(thread_id)) to_show.push_back(thread_id);
        if (!to_show.empty())
            if (Status shown = session_.show(to_show); !shown) return shown;
        std::erase_if(found, [&](std::uint32_t process_id) { return !known.insert(process_id).second; });
        if (found.empty()) return ok();
        if (Status added = session_.add(found); !added) return added;
    }
    return ok();
}

Status ExecutableWatch::hide_others() {
    if (options_.others_too) return ok();
    for (int looks = 0; looks < looks_max; looks++) {
        const auto listed = session_.listed_threads();
        if (!listed) return listed.error();
        const auto hidden = session_.hidden_threads();
        if (!hidden) return hidden.error();
        std::vector<std::uint32_t> others;
        for (const std::uint32_t thread_id : *listed) {
            if (hidden->contains(thread_id)) continue;
            const auto executable = executable_of(thread_id);
            if (executable && !matches(*executable)) others.push_back(thread_id);
        }
        if (others.empty()) return ok();
        if (Status done = session_.hide(others); !done) return done;
    }
    return ok();
}

/* Whether something is to be changed for one of them. */
bool ExecutableWatch::is_concerned(const std::set<std::uint32_t>& process_ids) const {
    if (process_ids.empty()) return false;
    const auto listed = session_.listed_threads(), hidden = session_.hidden_threads();
    if (!listed || !hidden) return true;
    return std::any_of(process_ids.begin(), process_ids.end(), [&](std::uint32_t process_id) {
        const auto executable = executable_of(process_id);
        if (!executable) return false; /* it has ended */
        const bool is_recorded = listed->contains(process_id) && !hidden->contains(process_id);
        return matches(*executable) ? !is_recorded : is_recorded && !options_.others_too;
    });
}

/* Whether anybody has begun to run another program to whom it matters. */
bool ExecutableWatch::hear() {
    GlobalNumbers* const numbers = session_.numbers();
    const RawField* const number = exec_->find("pid");
    std::set<std::uint32_t> changed;
    bool is_whole = true;
    for (int times = 0; times < 2; times++)
        is_whole &= reader_->read([&](const RawEvent& event) {
            if (raw_type(event) != exec_->id() || number == nullptr) return;
            const auto process_id = static_cast<std::uint32_t>(raw_number(*number, event.data).value_or(0));
            changed.insert(numbers == nullptr ? process_id : numbers->here_now(process_id));
        });
    return !is_whole || is_concerned(changed);
}

void ExecutableWatch::run() {
    std::uint64_t look_at_ns = boottime_now_ns() + look_interval_ns;
    while (!is_over_) {
        reader_->wait(wake_.get(), look_interval_ns);
        const bool is_time = boottime_now_ns() >= look_at_ns;
        if (!hear() && !is_time) continue;
        if (Status added = add_matching(); !added) failed(added.error());
        if (Status hidden = hide_others(); !hidden) failed(hidden.error());
        if (is_time) look_at_ns = boottime_now_ns() + look_interval_ns;
    }
}

void ExecutableWatch::failed(const Error& error) {
    if (!std::exchange(has_failed_, true) && options_.log)
        options_.log(error.with("Programs that start are not recorded by their executable").message());
}

} // namespace plumb
