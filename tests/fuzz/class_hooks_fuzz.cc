// cmake-link: plumb_class_hooks
/* Class files out of nowhere: they come before the JVM has looked at them. What becomes of one goes through once more. */
extern "C" {
#include "probes/jvm/method_hooks.h"
}

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

std::int32_t next_number(void* context, const plumb_hooked_method* method) {
    auto* const number = static_cast<std::int32_t*>(context);
    return method->name.bytes == 0 ? -1 : (*number)++;
}

void leave_alone(void*, std::int32_t, const char*) {}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    std::int32_t number = 0;
    const plumb_method_choice choice = {next_number, leave_alone, &number};
    plumb_class_output once = {}, twice = {};
    if (plumb_hook_methods(data, bytes, &choice, &once)) {
        plumb_hook_methods(once.at, once.bytes, &choice, &twice);
        std::free(twice.at);
    }
    std::free(once.at);
    return 0;
}
