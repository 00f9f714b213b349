/* How the programs measure that do the same work over and over: by its best lap, which nobody disturbed. */
#ifndef PLUMB_BENCH_BEST_LAP_H
#define PLUMB_BENCH_BEST_LAP_H

#include <algorithm>
#include <chrono>

namespace plumb::bench {

/* Nanoseconds that work() took at best; infinite without a lap. */
template <typename Work>
double best_ns(int laps, Work work) {
    double best = 1e300;
    for (int lap = 0; lap < laps; lap++) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
        best = std::min(best, took.count());
    }
    return best;
}

} // namespace plumb::bench

#endif
