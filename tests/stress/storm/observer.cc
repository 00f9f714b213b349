// The command of a recording: by then everybody has been told to trace. Notes how far the writers are, waits, and notes
// it again, while everybody still traces. What began behind the first note and was finished before the second must be
// in the trace.
//
//   storm_observer BOARD BEGIN END MILLISECONDS
//   storm_observer BOARD END                      the second alone
#include "tests/stress/storm/board.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <unistd.h>
#include <vector>

using namespace plumb::storm;

namespace {

void note(const Board& board, const char* path, std::atomic<uint64_t> Writer::*number) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t count = std::min(board.writer_count.load(), writers_max);
    const SnapshotHeader header = {
        static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec), count};
    std::vector<uint64_t> numbers(count);
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (board.writers[i].*number).load();
    const std::string unfinished = std::string(path) + ".unfinished"; // an observer may be killed, too
    FILE* file = fopen(unfinished.c_str(), "w");
    if (file == nullptr || fwrite(&header, sizeof(header), 1, file) != 1 ||
        fwrite(numbers.data(), sizeof(uint64_t), count, file) != count || fclose(file) != 0 ||
        rename(unfinished.c_str(), path) != 0) {
        perror(path);
        exit(1);
    }
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 5) return 2;
    const Board& board = *open_board(arguments[1]);
    if (count == 3) {
        note(board, arguments[2], &Writer::finished);
        return 0;
    }
    note(board, arguments[2], &Writer::started);
    usleep(static_cast<useconds_t>(atoi(arguments[4])) * 1000);
    note(board, arguments[3], &Writer::finished);
    return 0;
}
