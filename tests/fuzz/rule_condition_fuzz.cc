// What a process makes of a condition's code in the state file, and of payloads that it asks by it; and what it would find if the
// program were written anew meanwhile. Input: a byte that says how much of the rest is code; then payload.
// The runtime is not built for fuzzers; what is looked for is, here.
#include "libtrace/condition/link.cc"
#include "libtrace/condition/run.cc"
#include "libtrace/condition/value.cc"
#include "libtrace/glob.cc"

#include <plumb/abi/event.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

using namespace plumb::condition;

namespace {

constexpr uint32_t place_bytes = 2048;
constexpr plumb_event_label labels[] = {{0, "new"}, {1, "sent"}};
plumb_event_field fields[] = {{"id", nullptr, 0, 0, PLUMB_FIELD_INTEGER, 8, 0, 0},
                              {"path", nullptr, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0},
                              {"n", nullptr, 0, 0, PLUMB_FIELD_INTEGER, 2, PLUMB_FIELD_SIGNED, 0},
                              {"ports", nullptr, 0, 0, PLUMB_FIELD_SEQUENCE, 4, 0, 0},
                              {"status", labels, 2, 0, PLUMB_FIELD_ENUM, 1, 0, 0},
                              {"text", nullptr, 0, 0, PLUMB_FIELD_TEXT, 1, 0, 0},
                              {"price", nullptr, 0, 0, PLUMB_FIELD_FLOAT, 4, 0, 0},
                              {"four", nullptr, 0, 4, PLUMB_FIELD_ARRAY, 2, 0, 0}};
const plumb_event_info info = {
    "shop", "order", nullptr, nullptr, fields, 0, 8, PLUMB_DEBUG_LINE, PLUMB_RUNTIME_VERSION};

// As if bytes of another program stood in it.
void ask_damaged(Program& program, const uint8_t* data, std::size_t size) {
    const uint32_t bytes = program.bytes;
    auto* const at = reinterpret_cast<unsigned char*>(&program);
    const std::size_t from = offsetof(Program, step_count);
    for (std::size_t i = 0; i < size && from + i * 3 < place_bytes; i++)
        at[from + i * 3] ^= data[i];
    program.bytes = bytes;
    (void)ask(program, program.version, info, data, static_cast<uint32_t>(size));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t code_bytes = data[0] < size - 1 ? data[0] : size - 1;
    const std::unique_ptr<uint8_t[]> code(new uint8_t[code_bytes + 1]);
    memcpy(code.get(), data + 1, code_bytes);
    alignas(64) static unsigned char place[place_bytes];
    memset(place, 0, sizeof(place));
    auto& program = *reinterpret_cast<Program*>(place);
    program.bytes = place_bytes;
    const Code codes[] = {{code.get(), static_cast<uint32_t>(code_bytes)},
                          {code.get(), static_cast<uint32_t>(code_bytes / 2)}};
    const std::size_t payload_bytes = size - 1 - code_bytes;
    const std::unique_ptr<uint8_t[]> payload(new uint8_t[payload_bytes]);
    memcpy(payload.get(), data + 1 + code_bytes, payload_bytes);
    for (uint32_t count = 1; count <= 2; count++)
        if (link_conditions(codes, count, info, program) == Linked::done)
            (void)ask(program, program.version, info, payload.get(), static_cast<uint32_t>(payload_bytes));
    ask_damaged(program, payload.get(), payload_bytes);
    return 0;
}
