// What the programs of the storm do. An act traces while it does something that may disturb tracing, checks what the
// program itself relies on (its signals, its memory, its children), and ends in a known way: whatever Plumb does beside
// it, it must end so. Built a second time without Plumb (storm_plain), the same acts show that the way is right.
#pragma once

#include "tests/stress/storm/board.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>

namespace plumb::storm {

enum ActFlag : uint32_t {
    act_needs_root = 1,
    act_is_killed = 2,     // runs until it is killed by SIGKILL
    act_is_terminated = 4, // ... by SIGTERM
    act_is_stopped = 8,    // is stopped and continued meanwhile
    act_aborts = 16,
};

// The same numbers for the same seed.
class Random {
public:
    explicit Random(uint32_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    uint32_t below(uint32_t bound) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state_ >> 33) % bound;
    }

private:
    uint64_t state_;
};

struct Act {
    const char* name;
    // True if what the program relies on held; else complain() said what did not.
    bool (*run)(Random& random);
    uint32_t flags = 0;
};

std::span<const Act> signal_acts();
std::span<const Act> thread_acts();
std::span<const Act> process_acts();
std::span<const Act> surroundings_acts();
std::span<const Act> object_acts();
// All of them; their place in here is their number.
std::span<const Act> all_acts();

// Of a seed; above it, acts count how often they still become others.
constexpr uint32_t seed_mask = 0x0fffffff;

// How the program with this act and seed ends, as waitpid() says it.
int expected_status(const Act& act, uint32_t seed);

// Does the act; the exit status for main() to return.
int be(const char* board_path, const char* act, uint32_t seed);

// For acts.

// Says it on standard output; returns false.
__attribute__((format(printf, 1, 2))) bool complain(const char* format, ...);
// The calling thread gets writers of its own, one for itself and one for its handlers: at its beginning, in a child, and
// when it left an event in the middle.
void begin_writers();
// One event of this thread. Between begin and end of a handler: one of its handlers.
void step();
void step_in_handler();
// The calling thread traces its fixed-size events there; nullptr: not any more.
using PluginTrace = void (*)(uint32_t writer, uint64_t sequence);
void set_plugin(PluginTrace trace);
// Whether the calling thread is in the middle of step(): its handler may jump out.
bool is_in_step();
// Events until the time is over, a few microseconds apart.
void step_for(uint32_t milliseconds);
void spin_ns(uint64_t ns);
uint64_t now_ns();
// Marks this thread's writers.
void flag_writers(uint32_t flag);
// Its own program again, with another act.
[[noreturn]] void become(const char* act, uint32_t seed);
// A child's status; -1 if it had to be killed because it hung.
int wait_for_child(pid_t child);
// Beside this program.
std::string path_of(const char* file);
uint32_t own_seed();

} // namespace plumb::storm
