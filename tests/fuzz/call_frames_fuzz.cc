/* Call frame information out of nowhere: an object that is the input, with any stack beside it. */
#include "libtrace/context/cfi.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

using namespace plumb::context;

namespace {

constexpr uint64_t object_start = 0x10000, stack_start = 0x7000'0000;

struct FuzzedMemory : Memory {
    FuzzedMemory(const uint8_t* data, std::size_t bytes)
        : Memory{read_here}, object(data), object_bytes(bytes) {}
    static bool read_here(Memory& memory, uint64_t address, void* to, uint32_t bytes) {
        const auto& self = static_cast<const FuzzedMemory&>(memory);
        if (address >= object_start && address - object_start <= self.object_bytes &&
            bytes <= self.object_bytes - (address - object_start)) {
            std::memcpy(to, self.object + (address - object_start), bytes);
            return true;
        }
        if (address < stack_start || address - stack_start > 4096 - bytes) return false;
        std::memset(to, static_cast<int>(address), bytes);
        return true;
    }
    const uint8_t* object;
    std::size_t object_bytes;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
    FuzzedMemory memory(data, bytes);
    const Object object{object_start, object_start + bytes, object_start};
    Registers registers;
    for (uint32_t i = 0; i < register_count; i++)
        registers.set(i, stack_start + 64 * i);
    for (const uint64_t instruction :
         {uint64_t{0x20000}, uint64_t{0x20000 + 100}, object_start + bytes / 2}) {
        Row row;
        if (!find_row(memory, object, instruction, row)) continue;
        Registers caller;
        uint64_t cfa = 0;
        (void)apply_row(memory, row, registers, caller, cfa);
    }
    return 0;
}
