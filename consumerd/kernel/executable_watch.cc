#include "consumerd/kernel/executable_watch.h"

#include "base/glob.h"
#include "base/processes.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <utility>

namespace plumb {
namespace {

/* Who has escaped notice is found then. */
constexpr std::uint64_t program_look_interval_ns = 10'000'000'000;
constexpr std::uint64_t moment_ns = 1'000'000;
constexpr int program_looks_max = 10;
constexpr std::size_t programs_kept_max = 50'000;
constexpr int scripts_max = 5; /* as many as the kernel goes through */

/* Nothing: one of them can not be looked at. */
std::optional<bool> same_file(const std::string& one, const std::string& other) {
    struct stat first {};
    struct stat second {};
    if (stat(one.c_str(), &first) != 0 || stat(other.c_str(), &second) != 0) return {};
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* What runs when this file is executed: itself, or the interpreter that its first line names. */
std::optional<std::string> program_of(std::string file) {
    for (int scripts = 0; scripts < scripts_max; scripts++) {
        char resolved[PATH_MAX];
        if (file.starts_with("/proc/") || file.starts_with("/dev/")) return {}; /* to us it is another one */
        if (!file.starts_with('/') || realpath(file.c_str(), resolved) == nullptr) return {};
        char begin[256] = "";
        /* Whoever called exec() may have put a device there since, of which opening it alone changes something. */
        const auto opened = open_regular_file(resolved);
        const ssize_t got = opened ? ::read(opened->get(), begin, sizeof(begin) - 1) : -1;
        if (got < 0) return {};
        const std::string_view line = std::string_view(begin).substr(0, std::string_view(begin).find('\n'));
        if (!line.starts_with("#!")) return resolved;
        const std::size_t first = line.find_first_not_of(" \t", 2);
        if (first == std::string_view::npos) return {};
        file = line.substr(first, line.find_first_of(" \t", first) - first);
    }
    return {};
}

/* Empty: it has ended. */
std::string thread_name(std::uint32_t process_id, std::uint32_t thread_id) {
    const auto text = read_small_file(fmt::format("/proc/{}/task/{}/comm", process_id, thread_id));
    return text ? text->substr(0, text->rfind('\n')) : "";
}

} // namespace

ExecutableWatch::ExecutableWatch(KernelSession& session, Options options)
    : session_(session), options_(std::move(options)), programs_looked_at_(programs_kept_max) {}

ExecutableWatch::~ExecutableWatch() {
    stop();
    session_.filter_records(nullptr);
}

void ExecutableWatch::stop() {
    if (!thread_.joinable()) return;
    is_over_ = true;
    wake();
    thread_.join();
}

void ExecutableWatch::wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

Result<std::unique_ptr<ExecutableWatch>> ExecutableWatch::open(KernelSession& session, Options options) {
    std::unique_ptr<ExecutableWatch> watch(new ExecutableWatch(session, std::move(options)));
    auto reader = session.open_reader("programs");
    if (!reader) return reader.error();
    watch->reader_ = std::move(*reader);
    auto exec = watch->reader_->enable("sched", "sched_process_exec");
    if (!exec) return exec.error().with("Which programs are started is not to be known");
    watch->exec_ = std::move(*exec);
    auto newtask = watch->reader_->enable("task", "task_newtask");
    if (!newtask) return newtask.error().with("What programs start is not to be known");
    watch->newtask_ = std::move(*newtask);
    auto exit = watch->reader_->enable("sched", "sched_process_exit");
    if (!exit) return exit.error().with("Which programs end is not to be known");
    watch->exit_ = std::move(*exit);
    watch->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!watch->wake_.is_open()) return Error::from_errno(errno, "Could not make an event descriptor");
    return watch;
}

Status ExecutableWatch::start() {
    if (Status listens = reader_->start(); !listens) return listens;
    if (Status added = add_matching(); !added) return added;
    if (!options_.others_too) session_.filter_records(this);
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
    for (int looks = 0; looks < program_looks_max; looks++) {
        std::vector<std::uint32_t> found = matching_processes();
        const auto hidden = session_.hidden_threads();
        if (!hidden) return hidden.error();
        std::vector<std::uint32_t> to_show;
        for (const std::uint32_t process_id : found)
            for (const std::uint32_t thread_id : thread_ids(process_id))
                if (hidden->contains(thread_id)) to_show.push_back(thread_id);
        const auto told = tell_names(found, *hidden);
        if (!told) return told.error();
        if (!to_show.empty())
            if (Status shown = session_.show(to_show); !shown) return shown;
        std::erase_if(found, [&](std::uint32_t process_id) { return !known.insert(process_id).second; });
        if (!found.empty()) {
            if (Status added = session_.add(found); !added) return added;
            if (Status noted = note(found); !noted) return noted;
        }
        tell_other_names(*told);
        if (found.empty()) return ok();
    }
    return ok();
}

/* A name that the thread had at the time that is told: one that it gets by exec() while we look is of later. Without a name: it has
 * ended. */
NamedThread ExecutableWatch::named_now(std::uint32_t process_id, std::uint32_t thread_id) const {
    NamedThread thread{0, thread_id, process_id, thread_name(process_id, thread_id), 0};
    for (int looks = 0; looks < program_looks_max; looks++) {
        thread.timestamp = session_.now();
        std::string again = thread_name(process_id, thread_id);
        const bool is_same = again == thread.name;
        thread.name = std::move(again);
        if (is_same) break;
    }
    thread.seen_at = session_.now();
    return thread;
}

/* Of threads that are about to be recorded: what told of them was not. Before they are, so that whose they are is known when
 * they are heard of. */
Result<std::vector<NamedThread>> ExecutableWatch::tell_names(const std::vector<std::uint32_t>& process_ids,
                                                             const std::set<std::uint32_t>& hidden) {
    const auto listed = session_.listed_threads();
    if (!listed) return listed.error();
    std::vector<NamedThread> told;
    for (const std::uint32_t process_id : process_ids)
        for (const std::uint32_t thread_id : thread_ids(process_id)) {
            if (listed->contains(thread_id) && !hidden.contains(thread_id)) continue;
            NamedThread thread = named_now(process_id, thread_id);
            if (!thread.name.empty()) told.push_back(std::move(thread));
        }
    session_.taken_in().add(told);
    return told;
}

/* Who began, or got another name, before the kernel recorded that: now it does. */
void ExecutableWatch::tell_other_names(const std::vector<NamedThread>& told) {
    std::map<std::uint32_t, std::string> names;
    std::set<std::uint32_t> process_ids;
    for (const NamedThread& thread : told) {
        names[thread.thread_id] = thread.name;
        process_ids.insert(thread.process_id);
    }
    std::vector<NamedThread> others;
    for (const std::uint32_t process_id : process_ids)
        for (const std::uint32_t thread_id : thread_ids(process_id)) {
            NamedThread thread = named_now(process_id, thread_id);
            if (!thread.name.empty() && names[thread_id] != thread.name) others.push_back(std::move(thread));
        }
    session_.taken_in().add(others);
}

/* Their threads run a recorded program, as far as nothing else was told. */
Status ExecutableWatch::note(const std::vector<std::uint32_t>& process_ids) {
    for (const std::uint32_t process_id : process_ids) {
        const auto numbers = session_.machine_numbers_of(thread_ids(process_id));
        if (!numbers) return numbers.error();
        const std::scoped_lock lock(mutex_);
        for (const std::uint32_t number : *numbers)
            programs_.found(number);
    }
    return ok();
}

Status ExecutableWatch::hide_others() {
    if (options_.others_too) return ok();
    for (int looks = 0; looks < program_looks_max; looks++) {
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

ExecutableWatch::Change ExecutableWatch::change_for(const std::set<std::uint32_t>& process_ids) const {
    if (process_ids.empty()) return {};
    const auto listed = session_.listed_threads(), hidden = session_.hidden_threads();
    if (!listed || !hidden) return {true, true};
    Change change;
    for (const std::uint32_t process_id : process_ids) {
        const auto executable = executable_of(process_id);
        if (!executable) continue; /* it has ended */
        const bool is_recorded = listed->contains(process_id) && !hidden->contains(process_id);
        const bool is_matching = matches(*executable);
        change.adds |= is_matching && !is_recorded;
        change.hides |= !is_matching && is_recorded;
    }
    return change;
}

/* By the name that exec() was given, since the process may have gone on to another program, or be gone: if that is the
 * name of a file here. Of a script it is its interpreter that runs. */
ProgramLives::Program ExecutableWatch::program_run(std::uint32_t process_id,
                                                   const std::string& file_name) const {
    using Program = ProgramLives::Program;
    const auto said = [this](const std::string& path) {
        return matches(path) ? Program::recorded : Program::another;
    };
    const bool has_our_root = same_file(fmt::format("/proc/{}/root", process_id), "/").value_or(true);
    if (const auto path = has_our_root ? program_of(file_name) : std::nullopt) return said(*path);
    const auto executable = executable_of(process_id);
    return executable ? said(*executable) : Program::not_known;
}

void ExecutableWatch::take(const RawEvent& event) {
    /* Its field names the same thread. */
    if (raw_type(event) == exit_->id()) return programs_.ended(event.timestamp, raw_thread(event));
    const bool is_exec = raw_type(event) == exec_->id();
    if (!is_exec && raw_type(event) != newtask_->id()) return;
    const RawFields& fields = is_exec ? *exec_ : *newtask_;
    const RawField* const number = fields.find("pid");
    const auto thread =
        static_cast<std::uint32_t>(number == nullptr ? 0 : raw_number(*number, event.data).value_or(0));
    if (!is_exec) return programs_.began(event.timestamp, raw_thread(event), thread);
    GlobalNumbers* const numbers = session_.numbers();
    const std::uint32_t process_id = numbers == nullptr ? thread : numbers->here_now(thread);
    if (process_id > unseen_thread_base) return; /* nor is it recorded */
    changed_.insert(process_id);
    const RawField* const field = fields.find("filename");
    const std::string name = field == nullptr ? "" : raw_text(*field, event.data);
    if (name == "/proc/self/exe") return; /* the same once more */
    programs_.runs(event.timestamp, thread, program_run(process_id, name));
}

bool ExecutableWatch::read() {
    for (int times = 0; times < 2; times++) /* see TracefsReader::read() */
        is_whole_ &= reader_->read([this](const RawEvent& event) { take(event); });
    if (programs_.size() > programs_looked_at_) {
        programs_.forget_others(reader_->now());
        /* Not for each event, where most are still there. */
        programs_looked_at_ = std::max(programs_kept_max, programs_.size() + programs_.size() / 2);
    }
    return !changed_.empty() || !is_whole_ || reader_->holds_back();
}

/* What is heard beside the watching thread is left to that. */
void ExecutableWatch::catch_up() {
    const std::scoped_lock lock(mutex_);
    if (read()) wake();
}

bool ExecutableWatch::wants(std::span<const std::uint32_t> threads, std::uint64_t time) {
    const std::scoped_lock lock(mutex_);
    bool is_anothers = false;
    for (const std::uint32_t thread : threads) {
        const ProgramLives::Program program = programs_.find(thread, time);
        if (program == ProgramLives::Program::recorded) return true;
        is_anothers |= program == ProgramLives::Program::another;
    }
    return !is_anothers;
}

/* What is to be changed for those who have begun to run another program. */
ExecutableWatch::Change ExecutableWatch::hear(bool& is_more_to_come) {
    std::set<std::uint32_t> changed;
    {
        const std::scoped_lock lock(mutex_);
        read();
        is_more_to_come = reader_->holds_back();
        changed = std::exchange(changed_, {});
        if (!std::exchange(is_whole_, true)) return {true, true};
    }
    return change_for(changed);
}

void ExecutableWatch::run() {
    std::uint64_t look_at_ns = boottime_now_ns() + program_look_interval_ns;
    bool is_more_to_come = false;
    while (!is_over_) {
        reader_->wait(wake_.get(), is_more_to_come ? moment_ns : program_look_interval_ns);
        std::uint64_t woken = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &woken, sizeof(woken));
        try {
            Change change = hear(is_more_to_come);
            if (boottime_now_ns() >= look_at_ns) {
                change = {true, true};
                look_at_ns = boottime_now_ns() + program_look_interval_ns;
            }
            if (change.adds)
                if (Status added = add_matching(); !added) failed(added.error());
            if (change.hides)
                if (Status hidden = hide_others(); !hidden) failed(hidden.error());
        } catch (const std::bad_alloc&) { /* all are looked at again before long */
        }
    }
}

void ExecutableWatch::failed(const Error& error) {
    if (!std::exchange(has_failed_, true) && options_.log)
        options_.log(error.with("Programs that start are not recorded by their executable").message());
}

} // namespace plumb
