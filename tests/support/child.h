// Starting and ending the programs of tests/fixtures.
#pragma once

#include "tests/fixtures/stress_board.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace plumb::test {

// Of a program that was built beside this test.
std::string path_of_fixture(const std::string& name);

// Starts a fixture; the process id. `environment`: NAME=value, added to ours.
pid_t start_fixture(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});
// Waits for it: its exit status, or 128 + the signal that killed it.
int wait_for(pid_t process);

// The board, in memory that fixtures inherit as a file descriptor.
class SharedBoard {
public:
    SharedBoard();
    ~SharedBoard();
    SharedBoard(const SharedBoard&) = delete;
    SharedBoard& operator=(const SharedBoard&) = delete;
    Board* operator->() const { return board_; }
    Board& operator*() const { return *board_; }
    std::string fd() const { return std::to_string(fd_); }
    // Whether so many threads wait for `go` (or went), within 20 seconds.
    bool wait_until_ready(uint32_t threads) const;

private:
    int fd_;
    Board* board_;
};

} // namespace plumb::test
