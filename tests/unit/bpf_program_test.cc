// cmake-once
// Small BPF programs: each instruction is that of the instruction set, labels are found wherever they are, and what the kernel
// does not take is said with its reason.
#include "consumerd/kernel/bpf_program.h"
#include "consumerd/kernel/syscall_text_program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/* "opcode to from offset number", the opcode as the instruction set has it. */
std::vector<std::string> shown(const BpfAssembler& code) {
    std::vector<std::string> all;
    for (const bpf_insn& each : code.instructions())
        all.push_back(fmt::format("{:02x} {} {} {} {}", each.code, int{each.dst_reg}, int{each.src_reg},
                                  int{each.off}, int{each.imm}));
    return all;
}

TEST(BpfAssembler, MakesTheInstructionsOfTheInstructionSet) {
    BpfAssembler code;
    code.move(bpf_r1, bpf_fp);
    code.set(bpf_r9, -7);
    code.compute(BPF_ADD, bpf_r2, 8);
    code.compute(BPF_RSH, bpf_r2, bpf_r3);
    for (const int bytes : {1, 2, 4, 8}) {
        code.load(bytes, bpf_r4, bpf_r5, -16);
        code.store(bytes, bpf_r6, 24, bpf_r7);
        code.store_number(bytes, bpf_r8, -32, 99);
    }
    code.call(BPF_FUNC_get_current_pid_tgid);
    code.exit();
    EXPECT_THAT(shown(code),
                ElementsAre("bf 1 10 0 0", "b7 9 0 0 -7", "07 2 0 0 8", "7f 2 3 0 0", "71 4 5 -16 0",
                            "73 6 7 24 0", "72 8 0 -32 99", "69 4 5 -16 0", "6b 6 7 24 0", "6a 8 0 -32 99",
                            "61 4 5 -16 0", "63 6 7 24 0", "62 8 0 -32 99", "79 4 5 -16 0", "7b 6 7 24 0",
                            "7a 8 0 -32 99", "85 0 0 0 14", "95 0 0 0 0"));
}

TEST(BpfAssembler, NamesATableByItsDescriptor) {
    const FileDescriptor table(::dup(0));
    ASSERT_TRUE(table.is_open());
    BpfAssembler code;
    code.map(bpf_r1, table);
    code.map_value(bpf_r2, table);
    const std::string descriptor = std::to_string(table.get());
    EXPECT_THAT(shown(code),
                ElementsAre("18 1 1 0 " + descriptor, "00 0 0 0 0", "18 2 2 0 " + descriptor, "00 0 0 0 0"));
}

/* Distances count from behind the jump. */
TEST(BpfAssembler, FindsLabelsBehindAndBeforeThemselves) {
    BpfAssembler code;
    code.label("begin");
    code.jump(BPF_JEQ, bpf_r1, 5, "end");
    code.call("function");
    code.jump(BPF_JSLT, bpf_r2, -1, "begin");
    code.jump("next");
    code.label("next");
    code.jump(BPF_JSET, bpf_r3, 8, "next");
    code.label("end");
    code.exit();
    code.label("function");
    code.call("function");
    EXPECT_THAT(shown(code), ElementsAre("15 1 0 4 5", "85 0 1 0 4", "c5 2 0 -3 -1", "05 0 0 0 0",
                                         "45 3 0 -1 8", "95 0 0 0 0", "85 0 1 0 -1"));
}

/* ---- in the kernel, where that is allowed ---- */

class BpfProgramTest : public testing::Test {
protected:
    void SetUp() override {
        if (auto table = make_bpf_map(BPF_MAP_TYPE_ARRAY, 4, 8, 2))
            table_ = std::move(*table);
        else
            GTEST_SKIP() << table.error().message();
    }
    static std::string refusal(const BpfAssembler& code, const std::string& tracepoint = "sys_enter") {
        const auto attached = attach_bpf_program("plumb_test", code, tracepoint);
        return attached ? "" : attached.error().message();
    }
    FileDescriptor table_;
};

TEST_F(BpfProgramTest, TablesHaveTheFormThatWasAskedFor) {
    const std::uint32_t last = 1, none = 2;
    const std::uint64_t value = 7;
    EXPECT_TRUE(set_bpf_map(table_, &last, &value));
    const Status beyond = set_bpf_map(table_, &none, &value);
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().number(), E2BIG);
    EXPECT_THAT(beyond.error().message(), StartsWith("Could not fill a table of a BPF program"));
    const auto wrong = make_bpf_map(BPF_MAP_TYPE_ARRAY, 4, 8, 0);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().number(), EINVAL);
    EXPECT_THAT(wrong.error().message(), StartsWith("The kernel makes no table for a BPF program"));
}

TEST_F(BpfProgramTest, RefusedOnesAreToldWithWhatTheVerifierSaysLast) {
    BpfAssembler code;
    code.exit(); /* which returns nothing */
    EXPECT_THAT(refusal(code), AllOf(StartsWith("The kernel does not take a BPF program (R0 !read_ok)"),
                                     testing::Not(HasSubstr("processed"))));
    BpfAssembler good;
    good.set(bpf_r0, 0);
    good.exit();
    EXPECT_THAT(refusal(good, "no_such_tracepoint"),
                StartsWith("The kernel attaches no BPF program to no_such_tracepoint"));
    EXPECT_EQ(refusal(good), "");
}

/* Said before anything is loaded: what may print would switch an event of the machine's on. */
TEST_F(BpfProgramTest, OfTextsHasNoRoomForAMarkerOfAnyLength) {
    for (const std::size_t length : {118, 119, 500}) {
        const std::string marker(length, 'm');
        const auto program = SyscallTextProgram::attach("/nowhere", marker, {});
        ASSERT_FALSE(program);
        EXPECT_EQ(program.error().message(), "The marker " + marker + " is too long.");
    }
}

} // namespace
} // namespace plumb
