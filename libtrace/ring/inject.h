// Named places in the protocol where a stress test can yield, loop, sleep, signal or kill. Empty in
// production; a library built with PLUMB_INJECT calls plumb_inject_hook, which the test sets.
#pragma once

#include <cstdint>

namespace plumb {

enum class InjectionPoint : uint32_t {
    slow_path_entered,
    slow_path_placed,
    slow_path_planned,
    owner_taken,
    owned_planned,
    owned_header_written,
    owned_payload_written,
    handler_entered,
    update_begun,
    switched_off,
    quiesce_begun,
    session_usable,
    scratch_used_up,
    condition_found,
    condition_held,
    count_placed,
    count_slot_free,
    count_slot_claimed,
    count
};

} // namespace plumb

#ifdef PLUMB_INJECT
extern "C" void (*plumb_inject_hook)(uint32_t point);
namespace plumb {
inline void inject(InjectionPoint point) {
    if (plumb_inject_hook != nullptr) plumb_inject_hook(static_cast<uint32_t>(point));
}
} // namespace plumb
#else
namespace plumb {
inline void inject(InjectionPoint) {}
} // namespace plumb
#endif
