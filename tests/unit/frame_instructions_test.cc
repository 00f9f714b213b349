// cmake-once
/* Call frame information by the standard's tables (DWARF 4, section 7.23; the Linux Standard Base, "Exception Frames"): every
 * instruction, what each kind of rule makes of a caller's registers, every augmentation and version of a common entry, and which
 * function of many is found. */
#include "libtrace/context/cfi.h"
#include "tests/support/made_bytes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace plumb::context {
namespace {

using test::Bytes;
using test::joined;
using test::little_endian;

constexpr uint64_t object_start = 0x10000, code_start = 0x20000, stack_start = 0x70000000;

struct TestMemory : Memory {
    TestMemory() : Memory{read_here} {}
    static bool read_here(Memory& memory, uint64_t address, void* to, uint32_t bytes) {
        auto& self = static_cast<TestMemory&>(memory);
        const auto copy = [&](uint64_t start, const Bytes& from) {
            if (address < start || address - start > from.size() || bytes > from.size() - (address - start))
                return false;
            std::memcpy(to, from.data() + (address - start), bytes);
            return true;
        };
        return copy(object_start, self.object) || copy(stack_start, self.stack);
    }
    Bytes object, stack = Bytes(256);
};

/* What a common entry says before its instructions. */
struct Common {
    uint8_t version = 1;
    std::string augmentation = "zR";
    Bytes augmentation_data = {0x00}; /* absolute pointers */
    Bytes factors = {1, 0x78};        /* 1 and -8 */
    uint8_t return_register = 16;
    Bytes addresses = {};     /* of version 4: their size, and that of segments */
    bool is_relative = false; /* pointers have 4 bytes, from where they stand */
};
struct Function {
    uint64_t first, bytes;
    Bytes instructions;
};

class FrameInstructions : public ::testing::Test {
protected:
    /* One common entry, and the functions, in the order of their addresses. */
    void make(const std::vector<Function>& functions, const Bytes& of_common,
              const Common& common = Common()) {
        Bytes& bytes = memory_.object;
        bytes = {1, 0x1b, 0x03, 0x3b};
        add(little_endian(0, 4));
        add(little_endian(functions.size(), 4));
        const std::size_t table = bytes.size();
        add(Bytes(functions.size() * 8));
        const Bytes name(common.augmentation.c_str(),
                         common.augmentation.c_str() + common.augmentation.size() + 1);
        const bool has_sizes = common.augmentation.starts_with('z');
        const std::size_t entry = bytes.size();
        add_entry(joined({little_endian(0, 4),
                          {common.version},
                          name,
                          common.addresses,
                          common.factors,
                          {common.return_register},
                          has_sizes ? Bytes{static_cast<uint8_t>(common.augmentation_data.size())} : Bytes(),
                          common.augmentation_data,
                          of_common}));
        for (std::size_t i = 0; i < functions.size(); i++) {
            const uint64_t place = bytes.size();
            const Bytes row =
                joined({little_endian(functions[i].first - object_start, 4), little_endian(place, 4)});
            std::memcpy(bytes.data() + table + i * 8, row.data(), 8);
            const Bytes range =
                common.is_relative
                    ? joined({little_endian(functions[i].first - (object_start + place + 8), 4),
                              little_endian(functions[i].bytes, 4)})
                    : joined({little_endian(functions[i].first, 8), little_endian(functions[i].bytes, 8)});
            add_entry(joined({little_endian(place + 4 - entry, 4), range, has_sizes ? Bytes{0} : Bytes(),
                              functions[i].instructions}));
        }
    }
    bool look(uint64_t at) {
        row_ = Row();
        return find_row(memory_, {object_start, object_start + memory_.object.size(), object_start}, at,
                        row_);
    }
    /* What is said of the frame at the function's byte 100. */
    std::string said(const Bytes& instructions, const Bytes& of_common = usual,
                     const Common& common = Common(), uint64_t at = 100) {
        make({{code_start, 256, instructions}}, of_common, common);
        return look(code_start + at) ? shown() : "none";
    }
    std::string shown() const {
        std::string text = row_.is_cfa_expression
                               ? "expression"
                               : fmt::format("r{}{:+}", row_.cfa_register, row_.cfa_offset);
        static const char* const kinds[] = {"same", "undefined",     "at cfa",    "cfa",
                                            "r",    "at expression", "expression"};
        for (uint32_t i = 0; i < register_count; i++) {
            const Rule& rule = row_.rules[i];
            if (rule.kind == RuleKind::same) continue;
            text += fmt::format(" {}:{}", i, kinds[static_cast<int>(rule.kind)]);
            if (rule.kind == RuleKind::other_register) text += std::to_string(rule.value);
            if (rule.kind == RuleKind::offset || rule.kind == RuleKind::value_offset)
                text += fmt::format("{:+}", rule.value);
        }
        return text;
    }

    static inline const Bytes usual = {0x0c, 7, 8, 0x90, 1}; /* def_cfa rsp+8; rip at cfa-8 */
    TestMemory memory_;
    Row row_;

private:
    void add(const Bytes& more) { memory_.object.insert(memory_.object.end(), more.begin(), more.end()); }
    void add_entry(Bytes body) {
        while (body.size() % 4 != 0)
            body.push_back(0);
        add(little_endian(body.size(), 4));
        add(body);
    }
};

TEST_F(FrameInstructions, SayWhatTheStandardSays) {
    const std::pair<Bytes, const char*> cases[] = {
        {{}, "r7+8 16:at cfa-8"},
        {{0x00, 0x00}, "r7+8 16:at cfa-8"},
        {{0x0c, 6, 0x80, 1}, "r6+128 16:at cfa-8"},
        {{0x0d, 6}, "r6+8 16:at cfa-8"},
        {{0x0e, 0x80, 2}, "r7+256 16:at cfa-8"},
        {{0x12, 6, 0x7e}, "r6+16 16:at cfa-8"},
        {{0x12, 6, 2}, "r6-16 16:at cfa-8"},
        {{0x13, 0x7d}, "r7+24 16:at cfa-8"},
        {{0x0f, 1, 0x30}, "expression 16:at cfa-8"},
        {{0x0f, 1, 0x30, 0x0d, 6, 0x0e, 8}, "r6+8 16:at cfa-8"},
        {{0x0c, 40, 8}, "r17+8 16:at cfa-8"}, /* one that is not followed */
        {{0x83, 2}, "r7+8 3:at cfa-16 16:at cfa-8"},
        {{0xbf, 2}, "r7+8 16:at cfa-8"},
        {{0x05, 3, 0x81, 1}, "r7+8 3:at cfa-1032 16:at cfa-8"},
        {{0x11, 3, 0x7f}, "r7+8 3:at cfa+8 16:at cfa-8"},
        {{0x2f, 3, 2}, "r7+8 3:at cfa+16 16:at cfa-8"},
        {{0x14, 3, 2}, "r7+8 3:cfa-16 16:at cfa-8"},
        {{0x15, 3, 0x7e}, "r7+8 3:cfa+16 16:at cfa-8"},
        {{0x07, 16}, "r7+8 16:undefined"},
        {{0x08, 16}, "r7+8"},
        {{0x09, 16, 3}, "r7+8 16:r3"},
        {{0x10, 3, 1, 0x30}, "r7+8 3:at expression 16:at cfa-8"},
        {{0x16, 3, 1, 0x30}, "r7+8 3:expression 16:at cfa-8"},
        {{0x90, 2, 0x06, 16}, "r7+8 16:at cfa-8"},
        {{0x90, 2, 0xd0}, "r7+8 16:at cfa-8"},
        {{0x83, 2, 0xc3}, "r7+8 16:at cfa-8"},
        {{0x07, 17}, "r7+8 16:at cfa-8"}, /* of no use here */
        {{0x06, 17, 0xff}, "r7+8 16:at cfa-8"},
        {{0x2e, 0x80, 1}, "r7+8 16:at cfa-8"},
        {{0x0a, 0x0e, 64, 0x83, 9, 0x0b}, "r7+8 16:at cfa-8"},
        {{0x0a, 0x0e, 64, 0x0a, 0x0e, 65, 0x0b}, "r7+64 16:at cfa-8"},
        {{0x0a, 0x0e, 64, 0x0a, 0x0e, 65, 0x0b, 0x0b}, "r7+8 16:at cfa-8"},
        {{0x0a, 0x0a, 0x0a, 0x0a}, "r7+8 16:at cfa-8"},
        {{0x0a, 0x0a, 0x0a, 0x0a, 0x0a}, "none"},
        {{0x0b}, "none"},
        {{0x0e, 0xff, 0xff, 0xff, 0xff, 7}, "r7+2147483647 16:at cfa-8"},
        {{0x0e, 0x80, 0x80, 0x80, 0x80, 8}, "none"},
        {{0x83, 0xff, 0xff, 0xff, 0x7f}, "r7+8 3:at cfa-2147483640 16:at cfa-8"},
        {{0x83, 0x80, 0x80, 0x80, 0x80, 1}, "r7+8 3:at cfa-2147483648 16:at cfa-8"},
        {{0x83, 0x81, 0x80, 0x80, 0x80, 1}, "none"},
        {{0x83, 0x80, 0x80, 0x80, 0x80, 8}, "none"}, /* more than 31 bits */
        {{0x0f, 100, 0x30}, "none"},
        {{0x0e}, "none"}, /* what it names is padding, then nothing */
        {{0x83}, "none"},
    };
    for (const auto& [instructions, row] : cases) {
        /* One that is cut has to end with its entry: 4 + 8 + 8 + 1 bytes stand before it. */
        Bytes padded = instructions;
        if (instructions == Bytes{0x0e} || instructions == Bytes{0x83})
            padded = joined({Bytes(2), instructions});
        EXPECT_EQ(said(padded), row) << ::testing::PrintToString(instructions);
    }
    for (unsigned code = 0x17; code < 0x40; code++)
        if (code != 0x2e && code != 0x2f) {
            EXPECT_EQ(said({static_cast<uint8_t>(code), 0}), "none") << code;
        }
}

/* Up to the row of the place, by steps of all sizes; a factor of code counts for each. */
TEST_F(FrameInstructions, AdvanceBySteps) {
    Common by_four;
    by_four.factors = {4, 0x78};
    const auto holds = [&](const Bytes& advance, uint64_t from, const Common& common = Common()) {
        const Bytes instructions = joined({advance, {0x0e, 99}});
        EXPECT_EQ(said(instructions, usual, common, from - 1), "r7+8 16:at cfa-8");
        EXPECT_EQ(said(instructions, usual, common, from), "r7+99 16:at cfa-8");
    };
    holds({0x45}, 5);
    holds({0x7f}, 63);
    holds({0x02, 200}, 200);
    holds({0x03, 200, 0}, 200);
    holds({0x04, 200, 0, 0, 0}, 200);
    holds(joined({{0x01}, little_endian(code_start + 77, 8)}), 77);
    holds({0x45}, 20, by_four);
    holds({0x02, 10, 0x41}, 44, by_four);
    holds(joined({{0x01}, little_endian(code_start + 77, 8)}), 77, by_four);
    EXPECT_EQ(said({0x03, 0, 1, 0x0e, 99}), "r7+8 16:at cfa-8");
    EXPECT_EQ(said({0x04, 0, 0, 1, 0, 0x0e, 99}), "r7+8 16:at cfa-8");
    EXPECT_EQ(said({0x0e, 99}, joined({usual, {0x02, 250}})), "r7+99 16:at cfa-8")
        << "not in the common entry";
}

TEST_F(FrameInstructions, CommonEntriesAreOfSeveralVersions) {
    const std::string row = "r7+8 16:at cfa-8";
    const auto with = [&](const auto& change) {
        Common common;
        change(common);
        return said({}, usual, common);
    };
    EXPECT_EQ(with([](Common& c) { c.version = 3; }), row);
    EXPECT_EQ(with([](Common& c) { c.version = 2; }), "none");
    EXPECT_EQ(with([](Common& c) { c.version = 5; }), "none");
    EXPECT_EQ(with([](Common& c) {
                  c.version = 4;
                  c.addresses = {8, 0};
              }),
              row);
    EXPECT_EQ(with([](Common& c) {
                  c.version = 4;
                  c.addresses = {4, 0};
              }),
              "none");
    EXPECT_EQ(with([](Common& c) {
                  c.version = 4;
                  c.addresses = {8, 1};
              }),
              "none");
    EXPECT_EQ(with([](Common& c) { c.return_register = 15; }), "none");
    EXPECT_EQ(with([](Common& c) { c.factors = {1, 0x7c}; }), "r7+8 16:at cfa-4");
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "";
                  c.augmentation_data = {};
              }),
              row);
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "R";
                  c.augmentation_data = {};
              }),
              "none");
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "z";
                  c.augmentation_data = {};
              }),
              row);
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "zLR";
                  c.augmentation_data = {0x1b, 0x00};
              }),
              row);
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "zPLR";
                  c.augmentation_data = {0x9b, 1, 2, 3, 4, 0x1b, 0x00};
              }),
              row);
    EXPECT_EQ(with([](Common& c) { c.augmentation = "zBR"; }), row);
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "zRx";
                  c.augmentation_data = {0x00, 1, 2, 3};
              }),
              row);
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "zR";
                  c.augmentation_data = {};
              }),
              "none")
        << "longer than it says";
    EXPECT_EQ(with([](Common& c) {
                  c.augmentation = "zR" + std::string(13, 'x');
                  c.augmentation_data = {0x00};
              }),
              row);
    EXPECT_EQ(with([](Common& c) { c.augmentation = "zR" + std::string(14, 'x'); }), "none");
    for (const char* const signal : {"zRS", "zSR"}) {
        EXPECT_EQ(with([&](Common& c) { c.augmentation = signal; }), row);
        EXPECT_TRUE(row_.is_signal_frame);
    }
    EXPECT_EQ(with([](Common&) {}), row);
    EXPECT_FALSE(row_.is_signal_frame);
}

TEST_F(FrameInstructions, AreThoseOfTheFunctionThatTheInstructionIsIn) {
    for (std::size_t count = 0; count < 9; count++) {
        std::vector<Function> functions;
        for (std::size_t i = 0; i < count; i++) /* each with a gap behind it */
            functions.push_back({code_start + 0x100 * i, 0xf0, {0x0e, static_cast<uint8_t>(i + 1)}});
        make(functions, usual);
        EXPECT_FALSE(look(code_start - 1)) << count;
        for (std::size_t i = 0; i < count; i++) {
            for (const uint64_t at : {0x00U, 0x01U, 0xefU}) {
                ASSERT_TRUE(look(functions[i].first + at)) << count << " " << i << " " << at;
                EXPECT_EQ(row_.cfa_offset, static_cast<int64_t>(i + 1));
            }
            EXPECT_FALSE(look(functions[i].first + 0xf0)) << count << " " << i;
        }
    }
    make({{code_start, 1, {}}}, usual);
    for (const std::size_t place : {0U, 1U, 2U, 3U}) { /* another form of the table */
        make({{code_start, 1, {}}}, usual);
        memory_.object[place] ^= 1;
        EXPECT_FALSE(look(code_start)) << place;
    }
}

/* As compilers write them. */
TEST_F(FrameInstructions, FunctionsMayBeSaidFromWhereTheEntryStands) {
    Common relative;
    relative.augmentation_data = {0x1b};
    relative.is_relative = true;
    EXPECT_EQ(said({0x83, 2}, usual, relative), "r7+8 3:at cfa-16 16:at cfa-8");
    EXPECT_EQ(said({}, usual, relative, 255), "r7+8 16:at cfa-8");
    EXPECT_EQ(said({}, usual, relative, 256), "none");
    EXPECT_EQ(said({0x45, 0x0e, 99}, usual, relative, 4), "r7+8 16:at cfa-8");
    EXPECT_EQ(said({0x45, 0x0e, 99}, usual, relative, 5), "r7+99 16:at cfa-8");
}

/* ---- a caller's registers ---- */

TEST_F(FrameInstructions, MakeTheCallersRegisters) {
    const uint64_t cfa = stack_start + 64;
    const uint64_t back = 0x5678, saved = 0x1234;
    std::memcpy(memory_.stack.data() + 64 - 8, &back, 8);
    std::memcpy(memory_.stack.data() + 64 - 16, &saved, 8);
    Registers registers, caller;
    registers.set(register_rsp, cfa - 8);
    registers.set(register_rbx, 5);
    registers.set(register_rip, code_start);
    uint64_t found = 0;
    const auto applied = [&](const Bytes& instructions) {
        EXPECT_NE(said(instructions), "none");
        return apply_row(memory_, row_, registers, caller, found);
    };
    ASSERT_TRUE(applied({}));
    EXPECT_EQ(found, cfa);
    EXPECT_EQ(caller.value[register_rsp], cfa);
    EXPECT_EQ(caller.value[register_rip], back);
    EXPECT_EQ(caller.value[register_rbx], 5U) << "as it was";
    EXPECT_FALSE(caller.has(register_rbp)) << "nobody knows it";
    ASSERT_TRUE(applied({0x83, 2}));
    EXPECT_EQ(caller.value[register_rbx], saved);
    ASSERT_TRUE(applied({0x14, 3, 2}));
    EXPECT_EQ(caller.value[register_rbx], cfa - 16);
    ASSERT_TRUE(applied({0x07, 3}));
    EXPECT_FALSE(caller.has(register_rbx));
    ASSERT_TRUE(applied({0x07, 16}));
    EXPECT_FALSE(caller.has(register_rip)) << "the outermost function";
    ASSERT_TRUE(applied({0x08, 16}));
    EXPECT_FALSE(caller.has(register_rip)) << "which is not the one of the callee";
    ASSERT_TRUE(applied({0x09, 16, 3}));
    EXPECT_EQ(caller.value[register_rip], 5U);
    EXPECT_FALSE(applied({0x09, 16, 6})) << "in a register that nobody knows";
    ASSERT_TRUE(applied({0x16, 3, 2, 0x23, 7})) << "the canonical frame address is there, plus 7";
    EXPECT_EQ(caller.value[register_rbx], cfa + 7);
    ASSERT_TRUE(applied({0x10, 3, 2, 0x40, 0x1c})) << "at that address less 16";
    EXPECT_EQ(caller.value[register_rbx], saved);
    EXPECT_FALSE(applied({0x10, 3, 1, 0x30})) << "nothing is at 0";
    ASSERT_TRUE(applied({0x14, 7, 1})) << "a stack pointer of its own";
    EXPECT_EQ(found, cfa - 8);
    EXPECT_EQ(caller.value[register_rsp], cfa - 8);
    ASSERT_TRUE(applied({0x0f, 2, 0x77, 8})) << "rsp + 8";
    EXPECT_EQ(caller.value[register_rip], back);
    EXPECT_FALSE(applied({0x0d, 6})) << "of a register that nobody knows";
    EXPECT_FALSE(applied({0x0e, 0xff, 0x7f})) << "beyond the stack";
}

} // namespace
} // namespace plumb::context
