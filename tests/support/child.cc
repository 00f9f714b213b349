#include "tests/support/child.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb::test {

namespace {

std::string folder_of_fixtures() {
    char path[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
    std::string folder(path, bytes > 0 ? static_cast<size_t>(bytes) : 0);
    folder.resize(folder.rfind('/') + 1);
    return folder + "fixtures/";
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& string : strings)
        result.push_back(string.data());
    result.push_back(nullptr);
    return result;
}

} // namespace

pid_t start_fixture(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
    std::vector<std::string> command = {folder_of_fixtures() + name};
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
    board_ = static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    if (board_ == MAP_FAILED) abort();
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
