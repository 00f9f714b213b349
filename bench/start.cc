// What linking a tracer costs a program that starts, does nothing and ends. The programs take turns, so that
// all of them see the same machine.
//
//   bench_start NAME=PATH[,PRELOADED]...     one benchmark each, figures in microseconds
#include "harness.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

using namespace plumb::bench;

namespace {

struct Program {
    std::string path;
    std::string preload; // "LD_PRELOAD=..."; empty: as everybody
};

double run_once_us(const Program& program) {
    char* const arguments[] = {const_cast<char*>(program.path.c_str()), nullptr};
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; variable++)
        environment.push_back(*variable);
    if (!program.preload.empty()) environment.push_back(const_cast<char*>(program.preload.c_str()));
    environment.push_back(nullptr);
    pid_t child = 0;
    int status = 0;
    const uint64_t begin = now_ns();
    if (posix_spawn(&child, program.path.c_str(), nullptr, nullptr, arguments, environment.data()) != 0)
        return -1;
    if (waitpid(child, &status, 0) != child || status != 0) return -1;
    return static_cast<double>(now_ns() - begin) / 1000;
}

std::map<std::string, std::vector<double>>
run_in_turns(const std::vector<std::pair<std::string, Program>>& programs) {
    std::map<std::string, std::vector<double>> times;
    pin_to(options.cpu);
    for (uint32_t round = 0; round < options.chunks + 5; round++) {
        for (const auto& [name, program] : programs) {
            const double us = run_once_us(program);
            if (us < 0) {
                std::fprintf(stderr, "cannot run %s\n", program.path.c_str());
                std::exit(1);
            }
            if (round >= 5) times[name].push_back(us);
        }
    }
    return times;
}

} // namespace

int main(int argc, char** argv) {
    std::vector<std::pair<std::string, Program>> programs;
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        const char* equals = argv[i][0] != '-' ? std::strchr(argv[i], '=') : nullptr;
        if (equals == nullptr) {
            argv[kept++] = argv[i];
        } else {
            const std::string what = equals + 1;
            const size_t comma = what.find(',');
            programs.emplace_back(
                std::string(argv[i], static_cast<size_t>(equals - argv[i])),
                Program{what.substr(0, comma),
                        comma == std::string::npos ? "" : "LD_PRELOAD=" + what.substr(comma + 1)});
        }
    }
    std::map<std::string, std::vector<double>> times;
    for (const auto& program : programs) {
        add("how_long_does_a_program_take_to_start_and_end/" + program.first,
            [&, name = program.first](auto& state) {
                if (times.empty()) times = run_in_turns(programs);
                const Distribution us = distribution_of(times[name]);
                state.counters["us_median"] = us.median;
                state.counters["us_p5"] = us.p5;
                state.counters["us_p95"] = us.p95;
            });
    }
    return run_all(kept, argv);
}
