// Buffers for records that do not fit the caller's stack: a few are kept, more are mapped while they are
// needed.
#include "runtime.h"

namespace {

constexpr uint32_t kept_count = 4;
void* kept[kept_count];

} // namespace

using namespace plumb;

extern "C" __attribute__((visibility("default"))) void* plumb_scratch_acquire(void) {
    for (void*& place : kept) {
        if (load_relaxed(place) == nullptr) continue;
        void* scratch = exchange_seq_cst(place, static_cast<void*>(nullptr));
        if (scratch != nullptr) return scratch;
    }
    return sys::map(PLUMB_SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

extern "C" __attribute__((visibility("default"))) void plumb_scratch_release(void* scratch) {
    if (scratch == nullptr) return;
    for (void*& place : kept) {
        void* nothing = nullptr;
        if (load_relaxed(place) == nullptr && compare_exchange(place, nothing, scratch)) return;
    }
    sys::unmap(scratch, PLUMB_SCRATCH_BYTES);
}
