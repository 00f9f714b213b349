// What acts use: writers, events, their own program.
#include "tests/stress/storm/acts.h"

#include "tests/fixtures/stress_board.h"
#ifndef STORM_PLAIN
#include "tests/fixtures/stress_events.h"
#else
// Signals must be able to hit an event here, too.
#define plumb_trace(...) spin_ns(100)
#endif

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace plumb::storm {

namespace {

Board* board;
const char* board_path;
uint32_t act_number;
uint32_t seed;

struct Thread {
    Writer* usual;
    Writer* in_handler;
    bool is_in_step;
    PluginTrace plugin;
};
__attribute__((tls_model("initial-exec"))) thread_local volatile Thread self;

Writer* claim_writer() {
    const uint32_t index = board->writer_count.fetch_add(1);
    if (index >= writers_max) _exit(97);
    Writer& writer = board->writers[index];
    writer.process = static_cast<uint32_t>(getpid());
    writer.thread = static_cast<uint32_t>(gettid());
    writer.act = act_number;
    if (geteuid() == 65534) writer.flags = writer_is_nobody;
    return &writer;
}

uint64_t next_of(const Writer& writer) {
    return writer.started.load(std::memory_order_relaxed);
}

void trace(Writer& writer, uint64_t sequence) {
    const auto number = static_cast<uint32_t>(&writer - board->writers);
    writer.started.store(sequence + 1, std::memory_order_release);
    if (sequence % 3 != 0 && self.plugin != nullptr) {
        self.plugin(number, sequence);
    } else if (sequence % 3 != 0) {
        plumb_trace(stress, fixed, number, sequence, test::stress_checksum(number, sequence, nullptr, 0));
    } else {
        [[maybe_unused]] uint8_t bytes[1024];
        const uint64_t count = test::stress_length(number, sequence);
        for (uint64_t i = 0; i < count; i++)
            bytes[i] = test::stress_byte(number, sequence, i);
        plumb_trace(stress, varying, number, sequence, bytes, count,
                    test::stress_checksum(number, sequence, bytes, count));
    }
    writer.finished.store(sequence + 1, std::memory_order_release);
}

} // namespace

bool complain(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    return false;
}

void begin_writers() {
    self.is_in_step = false;
    self.usual = nullptr;
    self.in_handler = claim_writer();
    self.usual = claim_writer();
}

void step() {
    // Before a handler may fork: parent and child go on with the same one, and the board is theirs together.
    const uint64_t sequence = next_of(*self.usual);
    self.is_in_step = true;
    trace(*self.usual, sequence);
    self.is_in_step = false;
}

void step_in_handler() {
    Writer* const writer = self.in_handler;
    if (writer == nullptr) return;
    self.in_handler = nullptr; // a handler in a handler
    trace(*writer, next_of(*writer));
    self.in_handler = writer;
}

void set_plugin(PluginTrace trace) {
    self.plugin = trace;
}

bool is_in_step() {
    return self.is_in_step;
}

void flag_writers(uint32_t flag) {
    if (self.usual != nullptr) self.usual->flags.fetch_or(flag);
    if (self.in_handler != nullptr) self.in_handler->flags.fetch_or(flag);
}

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void spin_ns(uint64_t ns) {
    const uint64_t end = now_ns() + ns;
    while (now_ns() < end) {
    }
}

void step_for(uint32_t milliseconds) {
    const uint64_t end = now_ns() + milliseconds * 1'000'000u;
    while (now_ns() < end) {
        for (int i = 0; i < 20; i++) {
            step();
            spin_ns(2000);
        }
        const timespec rest = {0, 100'000};
        nanosleep(&rest, nullptr);
    }
}

void become(const char* act, uint32_t its_seed) {
    char number[16];
    snprintf(number, sizeof(number), "%u", its_seed);
    char self_path[4096] = {};
    if (readlink("/proc/self/exe", self_path, sizeof(self_path) - 1) < 0) _exit(96);
    execl(self_path, self_path, board_path, act, number, nullptr);
    complain("exec: %s", strerror(errno));
    _exit(96);
}

int wait_for_child(pid_t child) {
    int status = 0;
    const uint64_t end = now_ns() + 30'000'000'000;
    for (;;) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR) return -1;
        if (now_ns() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        const timespec rest = {0, 300'000};
        nanosleep(&rest, nullptr);
    }
}

std::string path_of(const char* file) {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
    std::string folder(path, length > 0 ? static_cast<size_t>(length) : 0);
    folder.resize(folder.rfind('/') + 1);
    return folder + file;
}

int expected_status(const Act& act, uint32_t child_seed) {
    if ((act.flags & act_is_killed) != 0) return SIGKILL;
    if ((act.flags & act_is_terminated) != 0) return SIGTERM;
    if ((act.flags & act_aborts) != 0) return SIGABRT;
    return static_cast<int>(3 + (child_seed & seed_mask) % 40) << 8;
}

int be(const char* path, const char* act_name, uint32_t its_seed) {
    board_path = path;
    board = open_board(path);
    seed = its_seed;
    for (const Act& act : all_acts()) {
        if (strcmp(act.name, act_name) == 0) {
            Random random(seed);
            begin_writers();
            if (!act.run(random)) return 99;
            printf("ok\n");
            return WEXITSTATUS(expected_status(act, seed));
        }
        act_number++;
    }
    return 2;
}

uint32_t own_seed() {
    return seed;
}

std::span<const Act> all_acts() {
    static const std::vector<Act> acts = [] {
        std::vector<Act> all;
        for (const auto some :
             {signal_acts(), thread_acts(), process_acts(), surroundings_acts(), object_acts()})
            all.insert(all.end(), some.begin(), some.end());
        return all;
    }();
    return acts;
}

} // namespace plumb::storm
