// Starts programs of the storm, a few at a time, until the board says stop, and compares how each ends, and what it
// says, with what its act promises. A program that ends otherwise, says anything else, or hangs is one line on standard
// output, with what it takes to start it again; the last line counts the programs by act.
//
//   storm_nursery BOARD SEED [OPTION...]
//     plain       each act once, then ends
//     program=P   of the acts: storm_subject (default), storm_plain
//     acts=A,B    these acts only
//     without=A,B all but these
//     rseq=N      every N-th program has no restartable sequences, or none of the C library; 0: none of them is told
//                 anything (default)
//     preload=P   every third program has this library preloaded
//     user=N      programs of that user
//     at-once=N   so many side by side (default 4)
#include "tests/stress/storm/acts.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <grp.h>
#include <map>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace plumb::storm {

namespace {

constexpr uint64_t patience_ns = 90'000'000'000;
constexpr uint32_t plain_rounds = 1;

struct Options {
    bool plain = false;
    std::string program = "storm_subject";
    std::string acts, without, preload;
    uint32_t rseq = 0;
    uid_t user = 0;
    uint32_t at_once = 4;
} options;

// Whose restartable sequences a program has: the C library's, those that the runtime registers, or none.
const char* const rseq_variables[][2] = {
    {nullptr, nullptr}, {"GLIBC_TUNABLES", "glibc.pthread.rseq=0"}, {"PLUMB_RSEQ", "none"}};

struct Child {
    pid_t process = 0;
    const Act* act = nullptr;
    uint32_t seed = 0;
    uint32_t rseq = 0; // index of rseq_variables
    bool has_preload = false;
    bool was_started = false; // by us; else a descendant whose parent is gone
    int output = -1;          // what it said: a pipe, since an act forbids itself to write files
    int its_output = -1;
    uint64_t began_ns = 0;
    uint64_t next_signal_ns = 0;
    int next_signal = 0;
};

const char* board_path;
std::vector<const Act*> chosen;
std::map<std::string, uint32_t> counts;
uint32_t broken;

std::string text_of(int fd) {
    char text[2000];
    const ssize_t length = read(fd, text, sizeof(text)); // does not block: less than a pipe holds
    return {text, length > 0 ? static_cast<size_t>(length) : 0};
}

void tell(const Child& child, const std::string& what) {
    broken++;
    const char* const* variable = rseq_variables[child.rseq];
    const std::string rseq =
        child.rseq == 0 ? "" : std::string(variable[0]) + "=" + std::string(variable[1]) + " ";
    printf("broke: %s: process %d: %s%s%s BOARD %s %u\n", what.c_str(), child.process,
           child.has_preload ? "LD_PRELOAD=... " : "", rseq.c_str(), options.program.c_str(), child.act->name,
           child.seed);
    fflush(stdout);
}

std::string ending_of(int status) {
    if (WIFSIGNALED(status)) return std::string("signal ") + std::to_string(WTERMSIG(status));
    return "exit status " + std::to_string(WEXITSTATUS(status));
}

void be_subject(const Child& child) {
    dup2(child.its_output, STDOUT_FILENO);
    dup2(child.its_output, STDERR_FILENO);
    if (child.has_preload) setenv("LD_PRELOAD", options.preload.c_str(), 1);
    if (child.rseq != 0) setenv(rseq_variables[child.rseq][0], rseq_variables[child.rseq][1], 1);
    if (options.user != 0 &&
        (setgroups(0, nullptr) != 0 || setgid(options.user) != 0 || setuid(options.user) != 0))
        _exit(93);
    const std::string path = path_of(options.program.c_str());
    const std::string seed = std::to_string(child.seed);
    execl(path.c_str(), path.c_str(), board_path, child.act->name, seed.c_str(), nullptr);
    _exit(92);
}

Child start(const Act& act, Random& random) {
    Child child;
    child.act = &act;
    child.seed = random.below(seed_mask);
    child.was_started = true;
    if (options.rseq != 0 && random.below(options.rseq) == 0) child.rseq = 1 + random.below(2);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) _exit(91);
    child.has_preload = !options.preload.empty() && random.below(3) == 0;
    child.output = ends[0];
    child.its_output = ends[1];
    child.began_ns = now_ns();
    if ((act.flags & act_is_killed) != 0) child.next_signal = SIGKILL;
    if ((act.flags & act_is_terminated) != 0) child.next_signal = SIGTERM;
    if ((act.flags & act_is_stopped) != 0) child.next_signal = SIGSTOP;
    if (child.next_signal != 0) child.next_signal_ns = child.began_ns + random.below(80'000'000);
    child.process = fork();
    if (child.process == 0) be_subject(child);
    close(child.its_output);
    return child;
}

void send_next_signal(Child& child, Random& random) {
    kill(child.process, child.next_signal);
    if (child.next_signal == SIGKILL || child.next_signal == SIGTERM) {
        child.next_signal = 0;
        return;
    }
    child.next_signal = child.next_signal == SIGSTOP ? SIGCONT : SIGSTOP;
    child.next_signal_ns = now_ns() + random.below(60'000'000);
}

// Where it hangs, for who reads the report.
void show_where(const Child& child) {
    char command[300];
    snprintf(
        command, sizeof(command),
        "grep -E 'State|Sig|Threads' /proc/%d/status; cat /proc/%d/task/*/wchan /proc/%d/task/*/syscall; "
        "timeout 20 gdb -p %d -batch -ex 'thread apply all bt 12' 2>&1 | tail -60",
        child.process, child.process, child.process, child.process);
    if (system(command) != 0) printf("(nothing to be seen)\n");
}

void check_ending(const Child& child, int status) {
    counts[child.act->name]++;
    const int expected = expected_status(*child.act, child.seed);
    const std::string said = text_of(child.output);
    const bool ends_itself = (child.act->flags & (act_is_killed | act_is_terminated | act_aborts)) == 0;
    if (status != expected)
        tell(child, "ended by " + ending_of(status) + " instead of " + ending_of(expected) +
                        (said == "ok\n" ? "" : ", and said: " + said));
    else if (said != (ends_itself ? "ok\n" : ""))
        tell(child, "said: " + said);
}

void reap(std::vector<Child>& children) {
    for (;;) {
        int status = 0;
        const pid_t process = waitpid(-1, &status, WNOHANG);
        if (process <= 0) return;
        const auto found = std::find_if(children.begin(), children.end(),
                                        [process](const Child& child) { return child.process == process; });
        if (found != children.end()) {
            check_ending(*found, status);
            close(found->output);
            children.erase(found);
        } else if (status != 0) { // each of these ends with 0
            broken++;
            printf("broke: a descendant, process %d, ended by %s\n", process, ending_of(status).c_str());
            fflush(stdout);
        }
    }
}

void look_after(std::vector<Child>& children, Random& random) {
    reap(children);
    const uint64_t now = now_ns();
    for (Child& child : children) {
        if (child.next_signal != 0 && now >= child.next_signal_ns) send_next_signal(child, random);
        if (now - child.began_ns < patience_ns) continue;
        tell(child, "hangs");
        show_where(child);
        kill(child.process, SIGKILL);
        child.began_ns = now;
    }
    const timespec rest = {0, 1'000'000};
    nanosleep(&rest, nullptr);
}

void choose_acts() {
    for (const Act& act : all_acts()) {
        const auto is_in = [&act](const std::string& list) {
            return ("," + list + ",").find("," + std::string(act.name) + ",") != std::string::npos;
        };
        if ((act.flags & act_needs_root) != 0 && (geteuid() != 0 || options.user != 0)) continue;
        if ((options.acts.empty() || is_in(options.acts)) && !is_in(options.without)) chosen.push_back(&act);
    }
}

void run(Board& board, uint32_t seed) {
    Random random(seed);
    std::vector<Child> children;
    std::vector<const Act*> next;
    uint32_t rounds = 0;
    // Each act once, in an order of its own, then again.
    const auto is_over = [&] {
        return options.plain ? rounds == plain_rounds && next.empty() : board.stop.load() != 0;
    };
    while (!is_over()) {
        if (next.empty()) {
            next = chosen;
            for (size_t i = next.size(); i > 1; i--)
                std::swap(next[i - 1], next[random.below(static_cast<uint32_t>(i))]);
            rounds++;
        }
        while (children.size() < options.at_once && !next.empty()) {
            children.push_back(start(*next.back(), random));
            next.pop_back();
        }
        look_after(children, random);
    }
    const uint64_t patience_end = now_ns() + 2 * patience_ns;
    while (now_ns() < patience_end) {
        look_after(children, random);
        siginfo_t info = {};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return; // no child, and no orphan
    }
    broken++;
    printf("broke: descendants that do not end\n");
}

} // namespace

} // namespace plumb::storm

using namespace plumb::storm;

int main(int count, char** arguments) {
    if (count < 3) return 2;
    board_path = arguments[1];
    for (int i = 3; i < count; i++) {
        const std::string option = arguments[i];
        const size_t equals = option.find('=');
        const std::string name = option.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
        const auto number = static_cast<uint32_t>(atoi(value.c_str()));
        if (name == "plain")
            options.plain = true;
        else if (name == "program")
            options.program = value;
        else if (name == "acts")
            options.acts = value;
        else if (name == "without")
            options.without = value;
        else if (name == "preload")
            options.preload = value;
        else if (name == "rseq")
            options.rseq = number;
        else if (name == "user")
            options.user = number;
        else if (name == "at-once")
            options.at_once = number;
        else
            return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); // who outlives its parent is looked at, too
    choose_acts();
    run(*open_board(board_path), static_cast<uint32_t>(atoi(arguments[2])));
    uint32_t all = 0;
    for (const auto& [name, number] : counts) {
        printf("%s=%u ", name.c_str(), number);
        all += number;
    }
    printf("\nprograms=%u broken=%u\n", all, broken);
    return broken == 0 ? 0 : 1;
}
