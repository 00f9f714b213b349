// What a call stack costs: of 16 functions and those below main(), walked by the runtime, by libunwind alone and by libgcc, the
// first time and again. LTTng-UST has none to compare with: its callstack-user is the kernel tracer's.
#include "harness.h"

#include "libtrace/context/callstack.h"

#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <utility>

using namespace plumb::bench;

namespace {

constexpr uint32_t frames_max = 64;
constexpr int depth = 16, path_count = 64;
unsigned char frames[frames_max * 8];
uint32_t frame_count;

using Walk = uint32_t();

uint32_t by_plumb() {
    return plumb::context::walk_stack(nullptr, 0, frames, frames_max).count;
}

int (*unw_backtrace)(void**, int);

uint32_t by_libunwind() {
    return static_cast<uint32_t>(unw_backtrace(reinterpret_cast<void**>(frames), frames_max));
}

uint32_t by_libgcc() {
    uint32_t count = 0;
    _Unwind_Backtrace(
        [](_Unwind_Context* context, void* to) {
            auto& found = *static_cast<uint32_t*>(to);
            const uint64_t address = _Unwind_GetIP(context);
            if (found < frames_max) __builtin_memcpy(frames + uint64_t{8} * found++, &address, 8);
            return _URC_NO_REASON;
        },
        &count);
    return count;
}

double measured; // of the last walk, ns; of several: each

// Functions of their own for each path, so that its frames are new to who remembers them.
template <int Path, int Left>
__attribute__((noinline)) int descend(Walk* walk, uint32_t times) {
    if constexpr (Left == 0) {
        measured = time_events(times, [&](uint64_t) { frame_count = walk(); });
    } else {
        const int below = descend<Path, Left - 1>(walk, times);
        __asm__ volatile("");
        return below + Path * depth + Left;
    }
    return Path;
}

template <int... Paths>
constexpr auto all_paths(std::integer_sequence<int, Paths...>) {
    return std::array{&descend<Paths, depth>...};
}
constexpr auto paths = all_paths(std::make_integer_sequence<int, path_count>());

void stacks(benchmark::State& state, Walk* walk) {
    Figures figures;
    for (const auto path : paths) {
        path(walk, 1);
        figures.cold.push_back(measured);
    }
    constexpr uint32_t times = 1000;
    for (uint32_t i = 0; i < options.chunks; i++) {
        figures.clock.push_back(time_events(times, [](uint64_t) { read_clock_bare(); }));
        paths[i % path_count](walk, times);
        figures.warm.push_back(measured);
    }
    if (frame_count < depth) return state.SkipWithError("the stack is not whole");
    report(state, figures);
}

} // namespace

int main(int argc, char** argv) {
    plumb::context::prepare_callstacks();
    if (void* const library = dlopen("libunwind.so.8", RTLD_NOW))
        unw_backtrace = reinterpret_cast<int (*)(void**, int)>(dlsym(library, "unw_backtrace"));
    add("what_does_a_call_stack_cost", [](auto& state) { stacks(state, by_plumb); });
    add("what_does_a_call_stack_cost_libunwind", [](auto& state) {
        if (unw_backtrace == nullptr) return state.SkipWithError("libunwind is not installed");
        stacks(state, by_libunwind);
    });
    add("what_does_a_call_stack_cost_libgcc", [](auto& state) { stacks(state, by_libgcc); });
    return run_all(argc, argv);
}
