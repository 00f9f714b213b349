// What an uncontended mutex costs a program that knows nothing of Plumb. Started three times: as it is, with
// libplumb-pthread.so preloaded and off, and preloaded and on.
#include "harness.h"

#include <pthread.h>

#include <cstdlib>

using namespace plumb::bench;

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void lock_and_unlock(benchmark::State& state) {
    // Two records of 32 bytes each, if it is on: laps count only then, and do no harm otherwise.
    const char* on = std::getenv("PLUMB_BENCH_MUTEX_LAP");
    const uint64_t lap_pairs = on != nullptr ? std::strtoull(on, nullptr, 10) : 0;
    report(state, measure(lap_pairs, true, [](uint64_t) {
               pthread_mutex_lock(&mutex);
               pthread_mutex_unlock(&mutex);
           }));
}

} // namespace

int main(int argc, char** argv) {
    add("what_does_a_mutex_lock_and_unlock_cost", lock_and_unlock);
    return run_all(argc, argv);
}
