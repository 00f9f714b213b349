// See harness.h.
#include "harness.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace plumb::bench {

Options options;

Distribution distribution_of(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
        return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
    };
    return {at(0.5), at(0.05), at(0.95)};
}

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void pin_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        std::fprintf(stderr, "cannot pin to CPU %d: %s. Use --cpu=N.\n", cpu, std::strerror(errno));
        std::exit(1);
    }
}

static void put(benchmark::State& state, const std::string& name, const std::vector<double>& values) {
    if (values.empty()) return;
    const Distribution distribution = distribution_of(values);
    state.counters[name + "_median"] = distribution.median;
    state.counters[name + "_p5"] = distribution.p5;
    state.counters[name + "_p95"] = distribution.p95;
}

void report(benchmark::State& state, const Figures& figures) {
    put(state, "cold", figures.cold);
    put(state, "warm", figures.warm);
    put(state, "clock", figures.clock);
    const double median = distribution_of(figures.warm).median;
    if (!figures.clock.empty()) state.counters["ratio"] = median / distribution_of(figures.clock).median;
    state.SetIterationTime(median * 1e-9);
}

void add(const std::string& question, std::function<void(benchmark::State&)> run) {
    benchmark::RegisterBenchmark(question.c_str(),
                                 [run = std::move(run)](benchmark::State& state) {
                                     for (auto _ : state) {
                                         pin_to(options.cpu);
                                         state.SetIterationTime(1e-9);
                                         run(state);
                                     }
                                 })
        ->Iterations(1)
        ->UseManualTime();
}

int run_all(int argc, char** argv) {
    const int count = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    options.cpu = count > 1 ? 1 : 0;
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (std::strncmp(argv[i], "--chunks=", 9) == 0) {
            options.chunks = static_cast<uint32_t>(std::max(1, std::atoi(argv[i] + 9)));
        } else if (std::strncmp(argv[i], "--cpu=", 6) == 0) {
            options.cpu = std::atoi(argv[i] + 6);
        } else {
            argv[kept++] = argv[i];
        }
    }
    argc = kept;
    options.other_cpu = options.cpu == 0 ? 1 : 0;
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    return benchmark::RunSpecifiedBenchmarks() == 0 ? 1 : 0;
}

} // namespace plumb::bench
