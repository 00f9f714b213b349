// Buffers for records that do not fit the caller's stack: a fixed number, mapped when the first is needed.
//
// A buffer is in use while the program's own strings are read into it, so signals can not be blocked, and a handler
// may jump out of that for good. So a use that has lasted for a second, when nothing else is left, is taken to be over.
// If it was not (its thread did not run for so long), its record has bytes of another one in it: memory stays what it
// is, and readers check each record. Whoever finds no buffer cuts its record to what fits the stack, and says so.
#include "runtime.h"
#include "signals_held.h"

#include <plumb/abi/record.h>

namespace {

using namespace plumb;

//   63                       8 7      1   0
//   +-------------------------+--------+------+
//   | taken at, microseconds  | uses   |in use|
//   +-------------------------+--------+------+
struct Buffer {
    uint64_t word;
};
constexpr uint32_t buffer_count = 16;
Buffer buffers[buffer_count];
unsigned char* memory;

constexpr uint64_t in_use = 1;
constexpr uint64_t use_mask = 0x7f;
constexpr uint64_t abandoned_after_us = 1'000'000;
// Each use of a buffer begins at another place in it, so that who comes back late gives back nobody else's.
constexpr uint64_t shift_bytes = 16;
constexpr uint64_t buffer_bytes = (PLUMB_SCRATCH_BYTES + (use_mask + 1) * shift_bytes + 4095) / 4096 * 4096;

uint64_t use_of(uint64_t word) {
    return word >> 1 & use_mask;
}

unsigned char* all_memory() {
    unsigned char* known = load_acquire(memory);
    if (known != nullptr) return known;
    const Permit permit;
    if (!permit.given()) return nullptr;
    const SignalsHeld signals; // nobody leaves between these two
    void* const mapped =
        sys::map(buffer_count * buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mapped == nullptr || compare_exchange(memory, known, static_cast<unsigned char*>(mapped)))
        return static_cast<unsigned char*>(mapped);
    sys::unmap(mapped, buffer_count * buffer_bytes); // another thread was first
    return known;
}

unsigned char* take(uint32_t index, uint64_t word, uint64_t now_us) {
    const uint64_t use = (use_of(word) + 1) & use_mask;
    if (!compare_exchange(buffers[index].word, word, now_us << 8 | use << 1 | in_use)) return nullptr;
    return load_acquire(memory) + index * buffer_bytes + use * shift_bytes;
}

} // namespace

extern "C" __attribute__((visibility("default"))) void* plumb_scratch_acquire(void) {
    if (all_memory() == nullptr) return nullptr;
    const uint64_t now_us = sys::now_ns(CLOCK_MONOTONIC) / 1000;
    for (uint32_t i = 0; i < 2 * buffer_count; i++) { // once for those that are free, once for the others
        const uint32_t index = i % buffer_count;
        const uint64_t word = load_relaxed(buffers[index].word);
        const bool is_abandoned = i >= buffer_count && now_us - (word >> 8) > abandoned_after_us;
        if ((word & in_use) != 0 && !is_abandoned) continue;
        unsigned char* const scratch = take(index, word, now_us);
        if (scratch != nullptr) return scratch;
    }
    return nullptr;
}

extern "C" __attribute__((visibility("default"))) void plumb_scratch_release(void* scratch) {
    if (scratch == nullptr) return;
    const auto offset = static_cast<uint64_t>(static_cast<unsigned char*>(scratch) - load_acquire(memory));
    Buffer& buffer = buffers[offset / buffer_bytes];
    uint64_t word = load_relaxed(buffer.word);
    const bool is_this_use = (word & in_use) != 0 && use_of(word) == offset % buffer_bytes / shift_bytes;
    if (is_this_use) compare_exchange(buffer.word, word, word & ~in_use);
}
