// cmake-once
/* Call frame information as it may stand in a program, or be made up by whoever wants to harm one: what is said of a frame, what
 * DWARF expressions come to, and that everything else ends, reads nothing outside, and says that it makes no sense. */
#include "libtrace/context/cfi.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

namespace plumb::context {
namespace {

constexpr uint64_t object_start = 0x10000, code_start = 0x20000;

/* An object whose bytes are the test's, and a stack beside it. Nothing else is there. */
struct TestMemory : Memory {
    TestMemory() : Memory{read_here} {}
    static bool read_here(Memory& memory, uint64_t address, void* to, uint32_t bytes) {
        auto& self = static_cast<TestMemory&>(memory);
        self.reads++;
        const auto copy = [&](uint64_t start, const std::vector<uint8_t>& from) {
            if (address < start || address - start > from.size() || bytes > from.size() - (address - start))
                return false;
            std::memcpy(to, from.data() + (address - start), bytes);
            return true;
        };
        return copy(object_start, object) ? true : copy(stack_start, self.stack);
    }
    static constexpr uint64_t stack_start = 0x7000'0000;
    static inline std::vector<uint8_t> object;
    std::vector<uint8_t> stack = std::vector<uint8_t>(256);
    uint64_t reads = 0;
};

using Bytes = std::vector<uint8_t>;

void put32(Bytes& to, uint64_t value) {
    for (int i = 0; i < 4; i++)
        to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}
void put(Bytes& to, const Bytes& more) {
    to.insert(to.end(), more.begin(), more.end());
}
void put_entry(Bytes& to, Bytes body) {
    while (body.size() % 4 != 0)
        body.push_back(0);
    put32(to, body.size());
    put(to, body);
}

/* An object with one common entry, "zR", or "zRS", and one function of 256 bytes. */
class CallFrames : public ::testing::Test {
protected:
    bool find(const Bytes& common, const Bytes& instructions, uint64_t at = code_start + 100,
              const char* augmentation = "zR") {
        Bytes& bytes = memory_.object;
        bytes.clear();
        constexpr uint32_t header_bytes = 12 + 8;
        bytes = {1, 0x1b, 0x03, 0x3b};
        put32(bytes, 0);
        put32(bytes, 1);
        put32(bytes, code_start - object_start);
        const std::size_t entry_place = bytes.size();
        put32(bytes, 0);
        EXPECT_EQ(bytes.size(), header_bytes);
        Bytes body;
        put32(body, 0);
        body.push_back(1);
        put(body, Bytes(augmentation, augmentation + std::strlen(augmentation) + 1));
        put(body, {1, 0x78, 16, 1, 0x00}); /* factors 1 and -8, the return address, absolute pointers */
        put(body, common);
        put_entry(bytes, body);
        const uint64_t entry = bytes.size();
        std::memcpy(bytes.data() + entry_place, &entry, 4);
        body.clear();
        put32(body, entry + 4 - header_bytes);
        for (const uint64_t value : {code_start, uint64_t{256}}) {
            put32(body, value);
            put32(body, value >> 32);
        }
        body.push_back(0);
        put(body, instructions);
        put_entry(bytes, body);
        return look(at);
    }
    bool look(uint64_t at) {
        row_ = Row();
        return find_row(memory_, {object_start, object_start + memory_.object.size(), object_start}, at,
                        row_);
    }
    /* What an expression gives, with 5 in rbx. */
    std::string value_of(Bytes expression) {
        Bytes instructions = {0x0f, static_cast<uint8_t>(expression.size())};
        put(instructions, expression);
        if (!find(usual, instructions)) return "none";
        Registers registers, caller;
        registers.set(register_rbx, 5);
        uint64_t cfa = 0;
        row_.rules[register_rip] = Rule();
        return apply_row(memory_, row_, registers, caller, cfa) ? std::to_string(static_cast<int64_t>(cfa))
                                                                : "none";
    }
    const Bytes usual = {0x0c, 7, 8, 0x90, 1}; /* def_cfa rsp+8; rip at cfa-8 */
    TestMemory memory_;
    Row row_;
};

TEST_F(CallFrames, AreWhatTheInstructionsSayUpToThePlace) {
    /* advance 1; cfa at 16; rbp at cfa-16; advance 99: behind the place from there on */
    const Bytes push = {0x41, 0x0e, 16, 0x86, 2, 0x02, 100, 0x0e, 8};
    ASSERT_TRUE(find(usual, push));
    EXPECT_EQ(row_.cfa_register, register_rsp);
    EXPECT_EQ(row_.cfa_offset, 16);
    EXPECT_EQ(row_.rules[register_rbp].kind, RuleKind::offset);
    EXPECT_EQ(row_.rules[register_rbp].value, -16);
    EXPECT_EQ(row_.rules[register_rip].value, -8);
    ASSERT_TRUE(look(code_start + 101));
    EXPECT_EQ(row_.cfa_offset, 8);
    ASSERT_TRUE(look(code_start));
    EXPECT_EQ(row_.rules[register_rbp].kind, RuleKind::same);
    EXPECT_FALSE(look(code_start - 1));
    EXPECT_TRUE(look(code_start + 255));
    EXPECT_FALSE(look(code_start + 256));
    EXPECT_FALSE(row_.is_signal_frame);
    ASSERT_TRUE(find(usual, push, code_start, "zRS"));
    EXPECT_TRUE(row_.is_signal_frame);
}

TEST_F(CallFrames, AreRememberedAndRestored) {
    /* remember; cfa rbp+16; restore_state; then rbx at cfa-24, and restored to what the common entry says */
    ASSERT_TRUE(find(usual, {0x0a, 0x0c, 6, 16, 0x0b, 0x83, 3, 0x41, 0xc3}));
    EXPECT_EQ(row_.cfa_register, register_rsp);
    EXPECT_EQ(row_.rules[register_rbx].kind, RuleKind::same);
    EXPECT_FALSE(find(usual, {0x0b})) << "nothing was remembered";
    EXPECT_FALSE(find(usual, {0x0a, 0x0a, 0x0a, 0x0a, 0x0a})) << "deeper than anybody does";
}

TEST_F(CallFrames, TellTheOutermostFunction) {
    ASSERT_TRUE(find(usual, {0x07, 16}));
    EXPECT_EQ(row_.rules[register_rip].kind, RuleKind::undefined);
}

TEST_F(CallFrames, AreAppliedToRegisters) {
    ASSERT_TRUE(find(usual, {0x0e, 24, 0x86, 2}));
    const uint64_t rbp = 0x1234, back = 0x5678;
    std::memcpy(memory_.stack.data() + 64 + 8, &rbp, 8);
    std::memcpy(memory_.stack.data() + 64 + 16, &back, 8);
    Registers registers, caller;
    registers.set(register_rsp, TestMemory::stack_start + 64);
    uint64_t cfa = 0;
    ASSERT_TRUE(apply_row(memory_, row_, registers, caller, cfa));
    EXPECT_EQ(cfa, TestMemory::stack_start + 64 + 24);
    EXPECT_EQ(caller.value[register_rsp], cfa);
    EXPECT_EQ(caller.value[register_rbp], rbp);
    EXPECT_EQ(caller.value[register_rip], back);
    registers.set(register_rsp, TestMemory::stack_start + 250);
    EXPECT_FALSE(apply_row(memory_, row_, registers, caller, cfa)) << "there is no such stack";
    EXPECT_FALSE(apply_row(memory_, row_, Registers(), caller, cfa)) << "of an unknown register";
}

TEST_F(CallFrames, MayBeExpressions) {
    EXPECT_EQ(value_of({0x35}), "5");
    EXPECT_EQ(value_of({0x73, 0x7f}), "4") << "rbx - 1";
    EXPECT_EQ(value_of({0x74, 0}), "none") << "nobody knows rsi";
    EXPECT_EQ(value_of({0x09, 0xff, 0x0a, 2, 1, 0x22}), "257") << "-1 + 0x102";
    EXPECT_EQ(value_of({0x11, 0x79, 0x19}), "7") << "abs -7";
    EXPECT_EQ(value_of({0x3a, 0x33, 0x1b}), "3");
    EXPECT_EQ(value_of({0x3a, 0x30, 0x1b}), "none") << "by zero";
    EXPECT_EQ(value_of({0x3a, 0x33, 0x1d, 0x38, 0x24}), "256") << "1 << 8";
    EXPECT_EQ(value_of({0x31, 0x32, 0x33, 0x17, 0x1c}), "-1") << "rot: 3 1 2";
    EXPECT_EQ(value_of({0x31, 0x32, 0x16, 0x1c}), "1") << "swap";
    EXPECT_EQ(value_of({0x33, 0x3f, 0x14, 0x2a}), "1") << "15 >= 3";
    EXPECT_EQ(value_of({0x31, 0x28, 1, 0, 0x32, 0x39}), "9") << "a branch that is taken";
    EXPECT_EQ(value_of({0x32, 0x2f, 1, 0, 0x96, 0x23, 0x7e}), "128");
    /* As in procedure linkage tables: 8 more from the 11th byte of 16 on. */
    EXPECT_EQ(value_of({0x73, 8, 0x0a, 0x0b, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}), "21");
    EXPECT_EQ(value_of({0x0e, 0, 0, 0, 0x70, 0, 0, 0, 0, 0x06}), "0") << "a word of the stack";
    EXPECT_EQ(value_of({0x30, 0x06}), "none") << "nothing is at 0";
    EXPECT_EQ(value_of({0x22}), "none") << "an empty stack";
    EXPECT_EQ(value_of({}), "none");
    EXPECT_EQ(value_of({0x50}), "none") << "no such operation here";
    EXPECT_EQ(value_of({0x30, 0x2f, 0xfc, 0xff}), "none") << "for ever";
    EXPECT_EQ(value_of({0x2f, 0xf0, 0xff}), "none") << "out of the expression";
    Bytes deep(17, 0x31);
    EXPECT_EQ(value_of(deep), "none");
}

/* Whatever one byte becomes, it has an end. */
TEST_F(CallFrames, EndWhateverStandsThere) {
    ASSERT_TRUE(
        find(usual, {0x41, 0x0e, 16, 0x86, 2, 0x0f, 5, 0x77, 8, 0x33, 0x24, 0x06, 0x10, 3, 2, 0x76, 0}));
    const Bytes whole = memory_.object;
    Registers registers, caller;
    for (uint32_t i = 0; i < register_count; i++)
        registers.set(i, TestMemory::stack_start + 8 * i);
    uint64_t cfa = 0, found = 0;
    for (std::size_t place = 0; place < whole.size(); place++)
        for (int value = 0; value < 256; value++) {
            memory_.object = whole;
            memory_.object[place] = static_cast<uint8_t>(value);
            memory_.reads = 0;
            if (look(code_start + 100)) found += apply_row(memory_, row_, registers, caller, cfa) ? 1 : 2;
            ASSERT_LT(memory_.reads, 5000u) << place << " " << value;
        }
    EXPECT_GT(found, 0u);
    for (std::size_t bytes = 0; bytes < whole.size(); bytes++) {
        memory_.object.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
        EXPECT_FALSE(look(code_start + 100)) << bytes;
    }
}

} // namespace
} // namespace plumb::context
