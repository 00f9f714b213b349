#include "tests/support/child.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb::test {

namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& string : strings)
        result.push_back(string.data());
    result.push_back(nullptr);
    return result;
}

} // namespace

// Not by /proc/self/exe: where we were started in a chroot and then left for a mount namespace of our own, that shows
// the path outside.
std::string path_of_fixture(const std::string& name) {
    char path[PATH_MAX];
    const auto* self = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    std::string folder = realpath(self, path) != nullptr ? path : "";
    folder.resize(folder.rfind('/') + 1);
    return folder + "fixtures/" + name;
}

pid_t start_fixture(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
    std::vector<std::string> command = {path_of_fixture(name)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = environment;
    for (char** variable = environ; *variable != nullptr; variable++)
        variables.emplace_back(*variable);
    const std::vector<char*> argv = pointers(command);
    const std::vector<char*> envp = pointers(variables);
    const pid_t process = fork();
    if (process == 0) {
        execve(argv[0], argv.data(), envp.data());
        perror(argv[0]);
        _exit(127);
    }
    return process;
}

int wait_for(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

SharedBoard::SharedBoard() : fd_(memfd_create("plumb-test-board", 0)) {
    if (fd_ < 0 || ftruncate(fd_, sizeof(Board)) != 0) abort();
    board_ = map_board(fd_);
    if (board_ == nullptr) abort();
}

SharedBoard::~SharedBoard() {
    munmap(board_, sizeof(Board));
    close(fd_);
}

bool SharedBoard::wait_until_ready(uint32_t threads) const {
    for (int tries = 0; tries < 20'000 && board_->ready.load() < threads; tries++)
        usleep(1000);
    return board_->ready.load() >= threads;
}

} // namespace plumb::test
