// cmake-once
// Instructions as an assembler makes them, at the places of a file where a probe would stand: how long they are, whether they
// do nothing, and which of them no probe may stand on.
#include "base/elf_file.h"
#include "consumerd/probe/first_loop.h"
#include "consumerd/probe/first_nop.h"
#include "consumerd/probe/function_table.h"
#include "consumerd/probe/probed_instruction.h"
#include "consumerd/probe/vector_instruction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/utsname.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::HasSubstr;

using Code = std::vector<std::uint8_t>;

/* What the assembler makes of each line, with a label before it ("i0", "i1" ...) and one behind the last. */
class Assembled {
public:
    explicit Assembled(const std::vector<std::string>& lines) {
        char name[] = "/tmp/plumb-code-XXXXXX";
        folder_ = ::mkdtemp(name);
        std::ofstream source(folder_ + "/code.s");
        source << ".text\n";
        for (std::size_t i = 0; i < lines.size(); i++)
            source << fmt::format(".globl i{0}\n.type i{0},@function\ni{0}: {1}\n", i, lines[i]);
        source << fmt::format(".globl i{0}\n.type i{0},@function\ni{0}:\n", lines.size());
        source.close();
        const std::string command =
            fmt::format("cd {} && cc -nostdlib -shared -Wl,-Bsymbolic code.s -o code.so", folder_);
        EXPECT_EQ(std::system(command.c_str()), 0);
        auto elf = ElfFile::open(folder_ + "/code.so");
        if (!elf) std::abort();
        elf_.emplace(std::move(*elf));
    }
    ~Assembled() { std::filesystem::remove_all(folder_); }
    Assembled(const Assembled&) = delete;
    Assembled& operator=(const Assembled&) = delete;

    const ElfFile& elf() const { return *elf_; }
    std::uint64_t address(std::size_t line) const {
        const auto found = symbol_address(*elf_, fmt::format("i{}", line));
        EXPECT_TRUE(found) << line;
        return found ? *found : 0;
    }
    Code code(std::size_t line) const {
        Code bytes(address(line + 1) - address(line));
        EXPECT_TRUE(elf_->read_memory(address(line), bytes.data(), bytes.size()));
        return bytes;
    }

private:
    std::string folder_;
    std::optional<ElfFile> elf_;
};

const std::vector<std::string> places = {
    "(%rax)",      "8(%rax)",  "4096(%rax)", "(%rax,%rcx)", "8(%rbp,%rcx,2)", "4096(%rax,%r9,8)",
    "(%rsp)",      "(%rbp)",   "64(%rbp)",   "(%r12)",      "64(%r12)",       "(%r13)",
    "4096(%r13)",  "i0(%rip)", "%fs:(%rax)", "0x1000",      "(,%rcx,4)",      "(%eax)",
    "%gs:8(%ecx)", "64(%rsp)", "4096(%rsp)", "(%rbp,%rax)", "(%r13,%rax)",    "%gs:4096(%rbp,%rcx)"};

TEST(VectorInstruction, IsAsLongAsTheAssemblerMakesIt) {
    std::vector<std::string> lines = {"vzeroupper",
                                      "vzeroall",
                                      "vpsrlw $3,%xmm1,%xmm2",
                                      "vpsrld $3,%xmm1,%xmm2",
                                      "vpsrlq $3,%xmm1,%xmm2",
                                      "vpslldq $3,%ymm9,%ymm10",
                                      "vpextrw $2,%xmm1,%eax",
                                      "vpextrw $2,%xmm11,%r9d",
                                      "vpmovmskb %ymm1,%eax",
                                      "vaddps %ymm8,%ymm9,%ymm10",
                                      "vaddps %ymm4,%ymm1,%ymm2",
                                      "vaddps %ymm5,%ymm1,%ymm2",
                                      "vpshufd $3,%xmm12,%xmm1",
                                      "vpshufd $3,%xmm13,%xmm1",
                                      "vpternlogd $5,%zmm1,%zmm2,%zmm3",
                                      "vpcmpub $4,%zmm1,%zmm2,%k1",
                                      "kmovq %k1,%rax",
                                      "kortestd %k0,%k1",
                                      "andn %rax,%rcx,%rdx",
                                      "bzhi %eax,%ecx,%edx",
                                      "rorx $5,%rax,%rcx",
                                      "shlx %rax,%rcx,%rdx"};
    for (const char* const each :
         {"vmovups {},%ymm1", "vmovdqu %ymm9,{}", "vpaddb {},%ymm2,%ymm3", "vpshufd $3,{},%xmm1",
          "vcmpps $1,{},%ymm2,%ymm3", "vpinsrw $1,{},%xmm1,%xmm2", "vshufps $1,{},%xmm1,%xmm2",
          "vpblendd $3,{},%ymm1,%ymm2", "vextracti128 $1,%ymm1,{}", "vbroadcastss {},%ymm1",
          "vmovdqu64 {},%zmm17", "vmovdqu8 %zmm30,{}", "vpternlogd $5,{},%zmm1,%zmm2",
          "vpcmpeqb {},%zmm1,%k1", "vpcmpub $4,{},%zmm2,%k1", "vpbroadcastd {},%zmm18", "bzhi %eax,{},%edx",
          "rorx $5,{},%rcx", "sarx %rax,{},%rdx"})
        for (const std::string& place : places) {
            std::string line = each;
            lines.push_back(line.replace(line.find("{}"), 2, place));
        }
    const Assembled assembled(lines);
    for (std::size_t i = 0; i < lines.size(); i++) {
        Code code = assembled.code(i);
        const std::size_t length = code.size();
        code.resize(instruction_bytes_max, 0x90);
        EXPECT_EQ(vector_instruction_bytes(code), length) << lines[i];
        /* Cut off, its length is not known; of what ends behind it, it may be. */
        for (std::size_t known = 0; known < length; known++)
            EXPECT_EQ(vector_instruction_bytes(std::span(code).first(known)), 0u) << lines[i] << ' ' << known;
    }
}

TEST(VectorInstruction, IsPassedByToWhereAProbeMayStand) {
    const Assembled assembled({"nop", "vzeroupper", "vmovups %fs:(%rax),%ymm1",
                               "vpternlogd $5,8(%rax),%zmm1,%zmm2", "movl $1,%eax", "vpxor %xmm0,%xmm0,%xmm0",
                               "rep movsb", ".rept 500; vzeroupper; .endr", "nop",
                               "vmovups 4096(%rax),%ymm1"});
    const auto behind = [&](std::size_t line) {
        const auto found = behind_vector_instructions(assembled.elf(), assembled.address(line));
        return found ? *found : 0;
    };
    EXPECT_EQ(behind(0), assembled.address(0));
    for (const std::size_t line : {1, 2, 3, 4})
        EXPECT_EQ(behind(line), assembled.address(4)) << line;
    EXPECT_EQ(behind(5), assembled.address(6));
    const auto endless = behind_vector_instructions(assembled.elf(), assembled.address(7));
    ASSERT_FALSE(endless);
    EXPECT_THAT(endless.error().message(), HasSubstr("The kernel may mistake the instructions at 0x"));
}

/* Of all places that lea can take an address from, with zeros for the displacement or a bit somewhere in it. */
TEST(ProbedInstruction, OfAllLeasThoseAreNopsThatLeaveTheirRegister) {
    std::size_t nops = 0;
    for (unsigned rex = 0x48; rex <= 0x4f; rex++)
        for (unsigned modrm = 0; modrm < 0xc0; modrm++)
            for (unsigned sib = 0; sib < 0x100; sib++) {
                const bool has_sib = (modrm & 7) == 4;
                if (!has_sib && (sib != 0 || (rex & 2) != 0)) continue; /* that bit means nothing there */
                const unsigned mode = modrm >> 6, low_base = has_sib ? sib & 7 : modrm & 7;
                const unsigned target = (modrm >> 3 & 7) | (rex & 4) << 1;
                const unsigned base = low_base | (rex & 1) << 3, index = (sib >> 3 & 7) | (rex & 2) << 2;
                const bool has_base = mode != 0 || low_base != 5;
                const bool has_index = has_sib && index != 4;
                const std::size_t displacement = mode == 1 ? 1 : mode == 2 || !has_base ? 4 : 0;
                Code code = {static_cast<std::uint8_t>(rex), 0x8d, static_cast<std::uint8_t>(modrm)};
                if (has_sib) code.push_back(static_cast<std::uint8_t>(sib));
                code.insert(code.end(), displacement, 0);
                const bool is_nop = has_base && !has_index && base == target;
                nops += is_nop;
                ASSERT_EQ(nop_bytes(code), is_nop ? code.size() : 0u) << testing::PrintToString(code);
                for (std::size_t i = 1; i <= displacement; i++) {
                    code[code.size() - i] = 0x10;
                    ASSERT_EQ(nop_bytes(code), 0u) << testing::PrintToString(code);
                    code[code.size() - i] = 0;
                }
                code.pop_back(); /* cut off */
                ASSERT_EQ(nop_bytes(code), 0u) << testing::PrintToString(code);
            }
    EXPECT_GT(nops, 100u);
}

TEST(ProbedInstruction, IsANopOfAnyPrefixes) {
    struct Case {
        Code code;
        std::size_t bytes;
    };
    const Case cases[] = {
        {{0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0x90}, 9},
        {{0x48, 0x90}, 2},
        {{0x42, 0x90}, 2},
        {{0x49, 0x90}, 0}, /* xchg %r8,%rax */
        {{0x41, 0x0f, 0x1f, 0x00}, 4},
        {{0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 11},
        {{0x0f, 0x1f, 0xc0}, 3},
        {{0x0f, 0x1e, 0xc0}, 0},
        {{0x0f}, 0},
        {{0x1f, 0x1f, 0}, 0},
        {{0x66}, 0},
        {{0x48}, 0},
        {{0x8d}, 0},
        {{0x66, 0xe9, 0, 0, 0, 0}, 6},
        {{0xe9, 0, 0, 0, 0, 1}, 5},
        {{0xe9, 0, 1, 0, 0}, 0},
        {{0xe9, 0, 0, 1, 0}, 0},
        {{0xe9, 0, 0, 0, 1}, 0},
        {{0xe9, 0, 0, 0}, 0},
    };
    for (const Case& one : cases)
        EXPECT_EQ(nop_bytes(one.code), one.bytes) << testing::PrintToString(one.code);
}

TEST(ProbedInstruction, IsRefusedWhereAProbeWouldBreakTheProgram) {
    struct Case {
        std::string line;
        const char* refusal; /* nullptr: none */
    };
    const char* const pushf = "(pushf) would push the flag by which the kernel steps over it";
    const char* const prefixed = "no probe on an instruction with a lock or segment prefix";
    const std::vector<Case> cases = {
        {"nop", nullptr},
        {"pushfq", pushf},
        {".byte 0x66,0x9c", pushf},
        {".byte 0x48,0x9c", pushf},
        {".byte 0x64,0x65,0x67,0x4f,0x9c", pushf},
        {"popfq", nullptr},
        {"lock incl (%rax)", prefixed},
        {".byte 0x66,0xf0,0xff,0x00", prefixed},
        {".byte 0x26,0x90", prefixed},
        {".byte 0x2e,0x90", prefixed},
        {".byte 0x36,0x90", prefixed},
        {".byte 0x3e,0x90", prefixed},
        {"movq %fs:0,%rax", nullptr},
        {"movq %gs:0,%rax", nullptr},
        {"movl (%eax),%eax", nullptr},
        {"rep movsb", nullptr},
        {"ret", nullptr},
    };
    std::vector<std::string> lines;
    for (const Case& one : cases)
        lines.push_back(one.line);
    lines.emplace_back(".byte 0x66,0x66"); /* the file ends within an instruction */
    const Assembled assembled(lines);
    for (std::size_t i = 0; i < cases.size(); i++) {
        const Status good = check_probed_instruction(assembled.elf(), assembled.address(i), true);
        ASSERT_EQ(bool(good), cases[i].refusal == nullptr) << cases[i].line;
        if (good) continue;
        EXPECT_THAT(good.error().message(), HasSubstr(cases[i].refusal)) << cases[i].line;
        EXPECT_THAT(good.error().message(), HasSubstr(fmt::format("at {:#x}", assembled.address(i))));
    }
    EXPECT_TRUE(check_probed_instruction(assembled.elf(), assembled.address(cases.size()), true));
    std::array<std::uint8_t, instruction_bytes_max> buffer{};
    EXPECT_TRUE(code_at(assembled.elf(), std::uint64_t{1} << 40, buffer).empty());
    EXPECT_TRUE(check_probed_instruction(assembled.elf(), uint64_t{1} << 40, true)); /* nothing is there */
}

TEST(ProbedInstruction, OfFiveBytesThatDoesNothingIsRefusedWhereTheKernelMakesACallOfIt) {
    const Assembled assembled(
        {"nopl (%rax)", "nopl 8(%rax)", "nopl 8(%rax,%rax)", "nopw 8(%rax,%rax)", "nop"});
    const auto refusal = [&](std::size_t line, bool replaced) {
        const Status good = check_probed_instruction(assembled.elf(), assembled.address(line), replaced);
        return good ? "" : good.error().message();
    };
    for (const std::size_t line : {0, 1, 3, 4})
        EXPECT_EQ(refusal(line, true), "") << line;
    EXPECT_THAT(refusal(2, true),
                HasSubstr(fmt::format("a nop of five bytes, as that at {:#x}", assembled.address(2))));
    EXPECT_EQ(refusal(2, false), "");
    utsname system{};
    ASSERT_EQ(::uname(&system), 0);
    std::pair<int, int> version;
    ASSERT_EQ(std::sscanf(system.release, "%d.%d", &version.first, &version.second), 2);
    EXPECT_EQ(kernel_replaces_nops(), version >= std::pair(6, 18));
}

constexpr const char* nop_of_five = ".byte 0x0f,0x1f,0x44,0,0";

Result<std::uint64_t> behind_first_nop(const Assembled& assembled, std::size_t line, bool replaced = true) {
    const std::uint64_t address = assembled.address(line);
    return FirstNops(assembled.elf(), {address}, replaced).behind(address);
}

TEST(FirstNop, IsPassedByWhereTheKernelMakesACallOfIt) {
    const Assembled assembled({nop_of_five, nop_of_five, "leal 1(%rdi),%eax", "ret", "nopl 8(%rax)",
                               std::string(".rept 100; ") + nop_of_five + "; .endr", nop_of_five});
    const auto behind = [&](std::size_t line, bool replaced) {
        const auto found = behind_first_nop(assembled, line, replaced);
        return found ? *found : 0;
    };
    for (const std::size_t line : {0, 1, 2})
        EXPECT_EQ(behind(line, true), assembled.address(2)) << line;
    EXPECT_EQ(behind(0, false), assembled.address(0)) << "an older kernel";
    EXPECT_EQ(behind(4, true), assembled.address(4));
    const auto far = behind_first_nop(assembled, 5);
    ASSERT_TRUE(far) << "not without end";
    EXPECT_FALSE(check_probed_instruction(assembled.elf(), *far, true));
    EXPECT_EQ(behind(6, true), assembled.address(7)) << "nothing is behind it";
}

void expect_refused(const Assembled& assembled, std::size_t line, const std::string& loop) {
    const auto found = behind_first_nop(assembled, line);
    ASSERT_FALSE(found) << loop;
    EXPECT_THAT(found.error().message(),
                HasSubstr("something seems to jump, or to make calls, to what is behind it"));
    EXPECT_THAT(found.error().message(),
                HasSubstr(fmt::format("A probe at {:#x} is hit", assembled.address(line) + 5)));
}

TEST(FirstNop, IsNotPassedByIntoALoop) {
    const std::string nop = std::string(nop_of_five) + "; 7: ";
    const std::string table =
        "jmp *(%rax); .pushsection .data.rel.ro,\"aw\"; .balign 8; .quad 0, 7b; .popsection";
    for (const std::string loop : {"decl (%rdi); jg 7b; ret", "decl (%rdi); jmp 7b", "jmp 7b", "loop 7b; ret",
                                   "loopne 7b; ret", "jrcxz 7b; ret", ".fill 200,1,0x90; jmp 7b",
                                   ".fill 60000,1,0x90; jne 7b; ret", ".fill 70000,1,0x90; jne 7b; ret",
                                   "decl %edi; call 7b; ret", ".fill 1048568,1,0x90; jmp 7b", table.c_str()})
        expect_refused(Assembled({nop + loop}), 0, loop);
    for (const char* const none : {"jmp 8f; 8: ret", "nop; 8: decl (%rdi); jg 8b; ret", "je 8f; nop; 8: ret"})
        EXPECT_TRUE(behind_first_nop(Assembled({nop + none}), 0)) << none;
}

/* Where gcc and ld put cold parts of functions. */
TEST(FirstNop, IsNotPassedByIntoALoopThatComesBackFromInFront) {
    const std::string nop = std::string(nop_of_five) + "; 7: ret";
    for (const char* const cold : {"pause; jmp 7f", "pause; jmp 7f; .fill 70000,1,0x90"})
        expect_refused(Assembled({cold, nop}), 1, cold);
}

TEST(FirstNop, OfSeveralFunctionsIsLookedAtForEach) {
    const std::string nop = nop_of_five, between = nop + "; 7: " + nop + "; decl (%rdi); jg 7b; ret";
    const Assembled assembled({nop + "; ret", nop + "; 7: decl (%rdi); jg 7b; ret", "ret", between});
    std::vector<std::uint64_t> functions;
    for (const std::size_t line : {3, 0, 1, 2})
        functions.push_back(assembled.address(line));
    const FirstNops nops(assembled.elf(), functions, true);
    const auto behind = [&](std::size_t line) {
        const auto found = nops.behind(assembled.address(line));
        return found ? *found - assembled.address(line) : 0;
    };
    EXPECT_EQ(behind(0), replaced_nop_bytes);
    EXPECT_FALSE(nops.behind(assembled.address(1)));
    EXPECT_TRUE(nops.behind(assembled.address(2)));
    EXPECT_EQ(behind(2), 0);
    EXPECT_FALSE(nops.behind(assembled.address(3))) << "back to the second of two nops";
}

TEST(FirstLoop, IsSeenWhereAFunctionJumpsToItsBegin) {
    const Assembled assembled({"7: decl (%rdi); jg 7b; ret", "7: .fill 300,1,0x90; jne 7b; ret",
                               "nop; 7: decl (%rdi); jg 7b; ret", "7: decl %edi; call 7b; ret",
                               "movl (%rdi),%eax; rep stosb; ret", "rep movsb; ret", "repne scasb; ret",
                               "rep stosq; ret", "rep stosw; ret", "tzcnt %rax,%rax; ret", "movsb; ret",
                               "ret"});
    const auto has_loop = [&](std::size_t line) {
        return seems_to_begin_with_loop(assembled.elf(), assembled.address(line),
                                        assembled.address(line + 1) - assembled.address(line));
    };
    for (const std::size_t line : {0, 1, 5, 6, 7, 8})
        EXPECT_TRUE(has_loop(line)) << line;
    for (const std::size_t line : {2, 3, 4, 9, 10})
        EXPECT_FALSE(has_loop(line)) << line;
    EXPECT_FALSE(seems_to_begin_with_loop(assembled.elf(), assembled.address(0), 2))
        << "the jump is not its own";
    EXPECT_FALSE(seems_to_begin_with_loop(assembled.elf(), assembled.address(0), 0));
    EXPECT_FALSE(seems_to_begin_with_loop(assembled.elf(), std::uint64_t{1} << 40, 8)) << "nothing is there";
}

} // namespace
} // namespace plumb
