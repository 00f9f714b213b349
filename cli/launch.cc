#include "cli/launch.h"
#include "cli/kept_by_exec.h"
#include "cli/open_files.h"
#include "cli/own_limits.h"

#include "base/mapped_region.h"
#include "base/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

namespace plumb {
namespace {

/* timeout(1) and service managers ask a process, and in the same breath its group: the second one tells what the
 * first was. Signals that do not end anything are not sent so. */
constexpr std::uint64_t second_breath_ns = 50'000'000;
constexpr std::uint64_t same_breath_ns = 2'000'000;

/* All that would end the recorder without a word, and may come from outside; what tells it of its command; and SIGWINCH, by
 * which some programs are asked to end. abort() is of its own thread, and ends the process all the same. */
std::vector<int> taken_signals() {
    std::vector<int> numbers = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,   SIGABRT, SIGUSR1,
                                SIGUSR2, SIGCHLD, SIGCONT, SIGIO,     SIGALRM, SIGPROF,
                                SIGXCPU, SIGPWR,  SIGTSTP, SIGVTALRM, SIGTTIN, SIGWINCH};
#ifdef SIGSTKFLT
    numbers.push_back(SIGSTKFLT);
#endif
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        numbers.push_back(number);
    return numbers;
}

/* By which systemd tells processes apart whose numbers were used again (from 258 on): it is optional, so instead of naming the
 * command, which has none yet, it goes. Empty: nothing like it is known here. */
std::string line_of_our_pidfd() {
    const FileDescriptor own(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    struct stat info {};
    if (!own.is_open() || fstat(own.get(), &info) != 0) return {};
    return "LISTEN_PIDFDID=" + std::to_string(info.st_ino);
}

/* The recorder's environment with some variables replaced, as execvpe() wants it. */
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<std::string> result;
    const std::string of_ours_alone = line_of_our_pidfd();
    for (char** each = environ; *each != nullptr; each++) {
        const std::string line = *each;
        if (line == of_ours_alone) continue;
        const std::string name = line.substr(0, line.find('='));
        const bool is_replaced =
            std::any_of(variables.begin(), variables.end(),
                        [&name](const auto& variable) { return variable.first == name; });
        if (!is_replaced) result.push_back(line);
    }
    for (const auto& [name, value] : variables)
        result.push_back(name + "=" + value);
    return result;
}

/* By these a service manager, and whoever activates by sockets, names the process that it has started, which is the recorder. */
constexpr std::string_view names_of_started[] = {"LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"};
constexpr std::size_t number_bytes = 20;

/* Where the number of the command, which has none yet, is to be written. */
std::vector<char*> places_of_our_number(std::vector<std::string>& lines) {
    std::vector<char*> places;
    const std::string ours = std::to_string(getpid());
    for (std::string& line : lines)
        for (const std::string_view name : names_of_started) {
            if (!line.starts_with(name) || std::string_view(line).substr(name.size()) != "=" + ours) continue;
            line.resize(name.size() + 1 + number_bytes, '\0');
            places.push_back(line.data() + name.size() + 1);
            break;
        }
    return places;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words)
        pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

/* What is left of a process that has ended still says how many pages its children took, those that it has waited for:
 * each took some. */
bool has_waited_for_children(pid_t process_id) {
    const auto stat = read_small_file("/proc/" + std::to_string(process_id) + "/stat");
    const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return true;
    char state = 0;
    int numbers[5];
    unsigned flags = 0;
    unsigned long own_faults = 0, faults_of_children = 0;
    const int read = std::sscanf(stat->c_str() + name_end + 1, " %c %d %d %d %d %d %u %lu %lu", &state,
                                 &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4], &flags,
                                 &own_faults, &faults_of_children);
    return read != 9 || faults_of_children != 0;
}

/* Where execvpe() looks for it, without what it takes if there is no PATH. */
std::vector<std::string> places_of_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return {name};
    std::vector<std::string> places;
    const char* const path = std::getenv("PATH");
    for (std::string_view rest = path != nullptr ? path : ""; path != nullptr;) {
        const std::size_t colon = rest.find(':');
        const std::string folder(rest.substr(0, colon));
        places.push_back(folder.empty() ? name : folder + "/" + name);
        if (colon == std::string_view::npos) break;
        rest.remove_prefix(colon + 1);
    }
    return places;
}

/* Nothing else is done in a child of many threads. */
const char* first_executable(const std::vector<std::string>& places) {
    for (const std::string& place : places)
        if (access(place.c_str(), X_OK) == 0) return place.c_str();
    return nullptr;
}

} // namespace

SignalQueue::SignalQueue() {
    sigemptyset(&taken_);
    sigemptyset(&ignored_on_terminal_);
    sigemptyset(&before_command_);
    for (const int number : taken_signals()) {
        /* nohup ignores SIGHUP, a shell without job control SIGINT and SIGQUIT for what runs in its background: what the
         * terminal sends is not for us then, but what kill sends is, or for a command that handles it. */
        struct sigaction current {};
        sigaction(number, nullptr, &current);
        const bool is_ignored = number != SIGCHLD && number != SIGIO && current.sa_handler == SIG_IGN;
        if (is_ignored && number != SIGINT && number != SIGQUIT && number != SIGHUP) continue;
        if (is_ignored) sigaddset(&ignored_on_terminal_, number);
        sigaddset(&taken_, number);
    }
    pthread_sigmask(SIG_BLOCK, &taken_, &mask_before_);
    /* A reader of our output that goes away, or a file that reaches `ulimit -f`, must not end the recording; what we say
     * must not stop the command (`stty tostop`, in the background); if children were ignored, their status would be
     * lost, and if SIGIO were, who asks for a snapshot. */
    struct sigaction ignore {
    }, usual{};
    ignore.sa_handler = SIG_IGN;
    usual.sa_handler = SIG_DFL;
    sigaction(SIGPIPE, &ignore, &pipe_before_);
    sigaction(SIGXFSZ, &ignore, &file_size_before_);
    sigaction(SIGTTOU, &ignore, &terminal_before_);
    sigaction(SIGCHLD, &usual, &child_before_);
    sigaction(SIGIO, &usual, &input_before_);
}

void SignalQueue::restore() const {
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    sigaction(SIGXFSZ, &file_size_before_, nullptr);
    sigaction(SIGTTOU, &terminal_before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
    sigaction(SIGIO, &input_before_, nullptr);
    restore_bus_error_action();
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

int SignalQueue::stop_like(int signal_number) const {
    return asks_to_stop(signal_number) && sigismember(&taken_, signal_number) == 1 ? signal_number : SIGSTOP;
}

bool SignalQueue::is_continued() {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

bool SignalQueue::is_for_command_alone(int signal_number) const {
    return signal_number == SIGWINCH ||
           (signal_number == SIGHUP && sigismember(&ignored_on_terminal_, SIGHUP) == 1);
}

std::optional<siginfo_t> SignalQueue::next(std::uint64_t timeout_ns) {
    timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                     static_cast<long>(timeout_ns % 1'000'000'000)};
    siginfo_t info{};
    while (sigtimedwait(&taken_, &info, &timeout) >= 0) {
        const bool is_request =
            info.si_signo != SIGWINCH || info.si_code == SI_USER || info.si_code == SI_QUEUE;
        const bool is_ignored =
            sigismember(&ignored_on_terminal_, info.si_signo) == 1 && came_from_terminal(info);
        if (is_request && !is_ignored) return info;
        (void)witness_.saw(info, 0);
        timeout = {};
    }
    return {};
}

void SignalQueue::command_begins() {
    sigpending(&before_command_);
}

bool SignalQueue::reached_group(const siginfo_t& signal) {
    const int number = signal.si_signo;
    if (sigismember(&before_command_, number) == 1) {
        sigdelset(&before_command_, number);
        (void)witness_.saw(signal, 0);
        return false;
    }
    if (came_from_terminal(signal)) {
        /* The kernel signals a group in one go, and us last. */
        const bool reached_us_alone = number == SIGHUP && getsid(0) == getpid();
        return witness_.saw(signal, 0).value_or(!reached_us_alone);
    }
    if (signal.si_code != SI_USER) return false;
    return witness_.saw(signal, asks_to_end(number) ? second_breath_ns : same_breath_ns).value_or(false);
}

bool SignalQueue::takes_in_next(const siginfo_t& signal) {
    if (!asks_to_end(signal.si_signo)) return false;
    sigset_t same;
    sigemptyset(&same);
    sigaddset(&same, signal.si_signo);
    const timespec at_once{};
    siginfo_t next{};
    if (sigtimedwait(&same, &next, &at_once) < 0) return false;
    return witness_.saw(next, 0).value_or(false);
}

Result<LaunchedCommand>
LaunchedCommand::start(const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& environment,
                       SignalQueue& signals, const LastSteps& last_steps) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "Could not start {}", command[0]);
    FileDescriptor from_child(ends[0]), to_parent(ends[1]);
    if (pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "Could not start {}", command[0]);
    FileDescriptor go_read(ends[0]), go_write(ends[1]);
    /* Before the fork: other threads may hold the allocator's locks in it. */
    std::vector<std::string> variables = environment_with(environment);
    const std::vector<char*> number_places = places_of_our_number(variables);
    const std::vector<char*> arguments = pointers_to(command), environment_pointers = pointers_to(variables);
    const std::vector<std::string> places = places_of_program(command[0]);
    const KeptByExec kept;
    const std::uint64_t began_boottime_ns = boottime_now_ns();
    const pid_t process_id = fork();
    if (process_id < 0) return Error::from_errno(errno, "Could not start {}", command[0]);
    if (process_id == 0) {
        signals.restore();
        restore_open_files_limit();
        restore_time_limit();
        kept.take_over(); /* before it waits, which our end would end */
        go_write.reset();
        char go = 0;
        if (read(go_read.get(), &go, 1) != 1) _exit(127);
        for (char* place : number_places)
            *std::to_chars(place, place + number_bytes - 1, getpid()).ptr = '\0';
        const char* const file = first_executable(places);
        if (last_steps.in_child) last_steps.in_child();
        /* Not by looking through PATH, whose failures the kernel's trace would show as the command's own. */
        if (file != nullptr) execve(file, arguments.data(), environment_pointers.data());
        execvpe(arguments[0], arguments.data(), environment_pointers.data());
        const int cause = errno;
        [[maybe_unused]] const ssize_t written = write(to_parent.get(), &cause, sizeof(cause));
        _exit(127);
    }
    signals.command_begins();
    to_parent.reset();
    LaunchedCommand started(process_id, command[0], std::move(from_child));
    started.began_boottime_ns_ = began_boottime_ns;
    started.hears_our_end_ = kept.parent_death_signal() != 0;
    if (last_steps.in_parent) {
        if (Status ready = last_steps.in_parent(process_id); !ready) {
            started.give_up();
            return ready.error();
        }
    }
    const char go = 1;
    [[maybe_unused]] const ssize_t released = write(go_write.get(), &go, 1);
    return started;
}

/* It runs nothing yet, and may be stopped. */
void LaunchedCommand::give_up() {
    send(SIGKILL);
    if (!ended_) waitpid(process_id_, nullptr, 0);
    ended_ = true;
}

/* What else is known of why. */
static Error could_not_run(const std::string& name, int cause) {
    const Error error = Error::from_errno(cause, "Could not run {}", name);
    struct stat status {};
    const bool is_there = stat(name.c_str(), &status) == 0;
    const bool is_file = name.find('/') != std::string::npos && is_there;
    if (cause == EACCES && is_file && S_ISDIR(status.st_mode))
        return error.hint("It is a folder: name the program in it.");
    if (cause == EACCES && is_file) return error.hint("It may not be executed: `chmod +x {}`.", name);
    if (cause == ENOEXEC)
        return error.hint("It is no program of this machine; a script begins with #! and who reads it.");
    if (cause != ENOENT) return error;
    if (name.find('/') == std::string::npos)
        return is_there && S_ISREG(status.st_mode)
                   ? error.hint("It is in no folder of PATH; ./{} is the one of this folder.", name)
                   : error.hint("It is in no folder of PATH.");
    if (!is_file) return error;
    std::string first;
    std::getline(std::ifstream(name), first);
    return first.starts_with("#!") ? error.hint("It is there; who is to read it is not: {}.", first.substr(2))
                                   : error.hint("It is there; the loader that it needs is not.");
}

Result<bool> LaunchedCommand::has_begun(std::uint64_t patience_ns) {
    if (!from_child_.is_open()) return true;
    pollfd answer{from_child_.get(), POLLIN, 0};
    if (poll(&answer, 1, static_cast<int>(patience_ns / 1'000'000)) <= 0) return false;
    int cause = 0;
    const ssize_t received = read(from_child_.get(), &cause, sizeof(cause));
    if (received < 0 && errno == EINTR) return false;
    from_child_.reset();
    if (received != sizeof(cause)) return true; /* closed by exec, or by its end */
    give_up();
    return could_not_run(name_, cause);
}

bool LaunchedCommand::has_ended() {
    int status = 0;
    if (ended_) return true;
    siginfo_t end{};
    if (waitid(P_PID, static_cast<id_t>(process_id_), &end, WEXITED | WNOHANG | WNOWAIT) == 0) {
        if (end.si_pid == 0) return false;
        had_children_ = has_waited_for_children(process_id_);
        ended_as_ = end.si_uid;
    }
    const pid_t found = waitpid(process_id_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return false;
    ended_ = true;
    if (found <= 0) return true;
    ending_signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    exit_status_ = ending_signal_ != 0 ? 128 + ending_signal_ : WEXITSTATUS(status);
    return true;
}

void LaunchedCommand::send(int signal_number) const {
    if (!ended_) kill(process_id_, signal_number);
}

bool LaunchedCommand::is_in_our_group() const {
    return getpgid(process_id_) == getpgrp();
}

int LaunchedCommand::stop_signal() const {
    siginfo_t found{};
    if (ended_ || waitid(P_PID, static_cast<id_t>(process_id_), &found, WSTOPPED | WNOHANG | WNOWAIT) != 0)
        return 0;
    return found.si_pid == 0 ? 0 : found.si_status;
}

void reap_children_but(pid_t process_id) {
    for (;;) {
        siginfo_t found{};
        if (waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) != 0 || found.si_pid == 0) return;
        if (found.si_pid == process_id || waitpid(found.si_pid, nullptr, WNOHANG) < 0) return;
    }
}

bool is_job_of_shell() {
    if (!FileDescriptor(open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).is_open()) return false;
    const pid_t parent = getppid();
    return getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}

int exit_status_for(const Error& start_error) {
    return start_error.number() == ENOENT ? 127 : 126;
}

bool came_from_terminal(const siginfo_t& signal) {
    return signal.si_code == SI_KERNEL;
}

bool asks_to_end(int signal_number) {
    return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP ||
           signal_number == SIGQUIT || signal_number == SIGABRT;
}

bool asks_to_stop(int signal_number) {
    return signal_number == SIGTSTP || signal_number == SIGTTIN;
}

void stop_by(int signal_number) {
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &one, &before);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void end_by(int signal_number) {
    prctl(PR_SET_DUMPABLE, 0);
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal_number, &usual, nullptr);
    stop_by(signal_number);
}

bool was_sent_by_family_of(const siginfo_t& signal, pid_t process_id) {
    if (signal.si_code != SI_USER && signal.si_code != SI_QUEUE && signal.si_code != SI_TKILL) return false;
    return signal.si_pid == process_id ||
           descends_from(static_cast<std::uint32_t>(signal.si_pid), static_cast<std::uint32_t>(process_id));
}

bool is_limit_of_ours(const siginfo_t& signal) {
    if (signal.si_signo == SIGXCPU && signal.si_code == SI_TIMER) return true; /* hear_of_time_limit() */
    return signal.si_code == SI_KERNEL && (signal.si_signo == SIGXCPU || signal.si_signo == SIGALRM ||
                                           signal.si_signo == SIGVTALRM || signal.si_signo == SIGPROF);
}

} // namespace plumb
