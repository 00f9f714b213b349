#include "tests/stress/storm/board.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace plumb::storm {

Board* open_board(const char* path) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void* shared =
        fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        perror(path);
        _exit(98);
    }
    close(fd);
    return static_cast<Board*>(shared);
}

} // namespace plumb::storm
