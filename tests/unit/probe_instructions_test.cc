// Which instructions do nothing, of those that assemblers fill up with, and how many bytes they take.
#include "consumerd/probe/probed_instruction.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace plumb {
namespace {

using Code = std::vector<std::uint8_t>;

TEST(ProbedInstruction, KnowsWhatDoesNothing) {
    struct Case {
        Code code;
        std::size_t bytes;
    };
    const Case cases[] = {
        {{0x90}, 1},
        {{0x66, 0x90}, 2},
        {{0x66, 0x66, 0x66, 0x66, 0x90}, 5},
        {{0x0f, 0x1f, 0x00}, 3},
        {{0x0f, 0x1f, 0x40, 0x00}, 4},
        {{0x0f, 0x1f, 0x44, 0x00, 0x00}, 5},
        {{0x66, 0x0f, 0x1f, 0x40, 0x00}, 5},
        {{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, 6},
        {{0x0f, 0x1f, 0x80, 0, 0, 0, 0}, 7},
        {{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}, 10},
        {{0x48, 0x8d, 0x76, 0x00}, 4},       /* lea 0(%rsi),%rsi */
        {{0x48, 0x8d, 0x74, 0x26, 0x00}, 5}, /* with a byte for an index */
        {{0x4d, 0x8d, 0x64, 0x24, 0x00}, 5}, /* lea 0(%r12),%r12 */
        {{0xe9, 0, 0, 0, 0}, 5},             /* jmp to what follows */
    };
    for (const Case& one : cases) {
        Code code = one.code;
        EXPECT_EQ(nop_bytes(code), one.bytes) << testing::PrintToString(one.code);
        code.resize(instruction_bytes_max, 0xc3);
        EXPECT_EQ(nop_bytes(code), one.bytes) << testing::PrintToString(one.code);
        code.resize(one.bytes - 1); /* cut off: at the end of what is loaded */
        if (one.code.back() != 0x90) {
            EXPECT_EQ(nop_bytes(code), 0U) << testing::PrintToString(one.code);
        }
    }
}

TEST(ProbedInstruction, TakesNothingElseForIt) {
    const Code cases[] = {
        {},
        {0xc3},
        {0x41, 0x90},                   /* xchg %r8,%rax */
        {0x48, 0x8d, 0x7e, 0x00},       /* lea 0(%rsi),%rdi */
        {0x48, 0x8d, 0x76, 0x01},       /* lea 1(%rsi),%rsi */
        {0x49, 0x8d, 0x76, 0x00},       /* lea 0(%r14),%rsi */
        {0x48, 0x8d, 0x74, 0x0e, 0x00}, /* lea 0(%rsi,%rcx,1),%rsi */
        {0x4a, 0x8d, 0x74, 0x26, 0x00}, /* lea 0(%rsi,%r12,1),%rsi */
        {0x48, 0x8d, 0x35, 0, 0, 0, 0}, /* lea 0(%rip),%rsi */
        {0xe9, 1, 0, 0, 0},
        {0xe8, 0, 0, 0, 0},
    };
    for (const Code& code : cases)
        EXPECT_EQ(nop_bytes(code), 0U) << testing::PrintToString(code);
}

} // namespace
} // namespace plumb
