#include "tests/support/subject.h"

#include "tests/support/child.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb::test {

namespace {

/* R, S, ...: the word behind the name in parentheses. */
char state_in(const std::string& stat_path) {
    char text[512] = {};
    const int fd = open(stat_path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0) text[0] = '\0';
    close(fd);
    const std::string all = text;
    const size_t end = all.rfind(')');
    return end == std::string::npos || end + 2 >= all.size() ? '?' : all[end + 2];
}

void wait_until_asleep(pid_t thread) {
    const std::string status = "/proc/" + std::to_string(thread) + "/stat";
    for (int i = 0; i < 1000 && state_in(status) == 'R'; i++)
        usleep(1000);
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

} // namespace

Subject::Subject(const std::vector<std::string>& what, const std::string& program,
                 const std::vector<std::string>& environment) {
    int to[2];
    int from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) abort();
    const std::string path = path_of_fixture(program);
    process_ = fork();
    if (process_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        for (const std::string& variable : environment)
            putenv(const_cast<char*>(variable.c_str()));
        std::vector<char*> arguments = {const_cast<char*>(path.c_str())};
        for (const std::string& word : what)
            arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        execv(path.c_str(), arguments.data());
        perror(path.c_str());
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = fdopen(from[0], "r");
    std::istringstream ready(read_line());
    std::string word;
    if (!(ready >> word) || word != "ready") abort();
    for (uint32_t thread; ready >> thread;)
        threads_.push_back(thread);
    /* Its first thread goes from here into a poll(); on a busy machine the others may be on their way, too. */
    wait_until_asleep(process_);
    size_t thread = 0;
    for (const std::string& kind : what) {
        if (is_one_of(kind, {"block", "replace", "leave", "brief"}) || thread >= threads_.size()) continue;
        if (!is_one_of(kind, {"spin", "trace", "sigwait"}))
            wait_until_asleep(static_cast<pid_t>(threads_[thread]));
        thread++;
    }
}

Subject::~Subject() {
    if (process_ > 0) {
        kill(process_, SIGKILL);
        end();
    }
    if (to_ >= 0) close(to_);
    fclose(from_);
}

std::string Subject::read_line() {
    char line[4096];
    if (fgets(line, sizeof(line), from_) == nullptr) return {};
    return line;
}

void Subject::send(const std::string& command) const {
    if (write(to_, (command + "\n").c_str(), command.size() + 1) < 0) perror("subject");
}

std::string Subject::ask(const std::string& command) {
    send(command);
    return read_line();
}

uint64_t Subject::number(const std::string& command) {
    return strtoull(ask(command).c_str(), nullptr, 10);
}

int Subject::end() {
    if (to_ >= 0) close(to_);
    to_ = -1;
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Subject::is_alive() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

} // namespace plumb::test
