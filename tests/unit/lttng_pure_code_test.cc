// Which probe functions of LTTng's providers do nothing but compute before they ask the filter.
// cmake-link: plumb_static plumb_lttng_code
extern "C" {
#include "probes/lttng/instruction.h"
#include "probes/lttng/landing_pads.h"
#include "probes/lttng/pure_code.h"
}

#include <gtest/gtest.h>

#include <link.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#if defined(__x86_64__)
namespace {

using Code = std::vector<unsigned char>;

Code operator+(Code left, const Code& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

instruction read(const Code& code, bool has_frame_pointer = true) {
    return read_instruction(code.data(), code.data() + code.size(), has_frame_pointer);
}

// An index of no functions: none has landing pads.
const unsigned char no_functions[12] = {1, 0x1b, 3, 0x3b};
const unwind_index nothing_unwound = {no_functions, no_functions + sizeof(no_functions), no_functions,
                                      no_functions + sizeof(no_functions)};

// In front of each function stand two pointers to other ones, and for each of them a jump by it.
constexpr std::size_t pointers_at = 16, function_at = 32;
const void* check_failed; // the first of them: of the function that does not come back
bool is_check_failed(const void* pointer) {
    return pointer == check_failed;
}
Code by_two_pointers() {
    Code code = {0xff, 0x25, pointers_at - 6, 0, 0, 0}; // jmp *
    code.resize(8, 0x90);
    code = code + Code{0xff, 0x25, pointers_at + 8 - 14, 0, 0, 0};
    code.resize(function_at);
    return code;
}

purity judged(const Code& function, const unwind_index& index = nothing_unwound) {
    Code code = by_two_pointers() + function;
    code.resize(code.size() + 32, 0xcc);
    const auto begin = reinterpret_cast<std::uintptr_t>(code.data());
    check_failed = code.data() + pointers_at;
    const surroundings around = {{begin, begin + code.size()}, index, is_check_failed};
    return purity_until_filter(code.data() + function_at, &around, 0x28, 0x10);
}

// call; behind what stands before it in the function, by one of the jumps.
Code call_by_jump(const Code& before, bool comes_back) {
    const auto distance = static_cast<std::int32_t>(
        (comes_back ? 8 : 0) - static_cast<std::int32_t>(function_at + before.size() + 5));
    Code code = {0xe8, 0, 0, 0, 0};
    std::memcpy(&code[1], &distance, sizeof(distance));
    return before + code;
}

const Code push_rbp{0x55}, frame{0x48, 0x89, 0xe5}, reserve{0xff, 0x50, 0x10}, ask{0xff, 0x57, 0x28},
    ret{0xc3}, take_room{0x48, 0x83, 0xec, 0x40}, call_other{0xe8, 0, 0, 0, 0};
const Code begin_function = push_rbp + frame + take_room;

// The way without a filter: je behind it; strlen; reserve; ret.
Code reserve_past() {
    const Code write = call_other + reserve + ret;
    return Code{0x75, static_cast<unsigned char>(write.size())} + write;
}

TEST(LttngInstruction, LengthIsKnown) {
    const std::initializer_list<Code> instructions = {
        {0xf3, 0x0f, 0x1e, 0xfa},                            // endbr64
        {0x48, 0x8b, 0x05, 1, 2, 3, 4},                      // mov 0x4030201(%rip),%rax
        {0x48, 0x8b, 0x44, 0x24, 0x08},                      // mov 0x8(%rsp),%rax
        {0x48, 0xc7, 0x84, 0x24, 0x90, 0, 0, 0, 1, 0, 0, 0}, // movq $1,0x90(%rsp)
        {0x66, 0xc7, 0x45, 0xf0, 1, 0},                      // movw $1,-0x10(%rbp)
        {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8},                // movabs
        {0xf7, 0x45, 0xf0, 1, 0, 0, 0},                      // testl $1,-0x10(%rbp)
        {0xf2, 0x0f, 0x11, 0x45, 0xe8},                      // movsd %xmm0,-0x18(%rbp)
        {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},       // nop
        {0x0f, 0x84, 1, 0, 0, 0},                            // je
        {0x66, 0x0f, 0x3a, 0x16, 0xc0, 1},                   // pextrd $1,%xmm0,%eax
        {0xc5, 0xf9, 0x70, 0xc0, 1},                         // vpshufd $1,%xmm0,%xmm0
        {0xc4, 0xe3, 0x79, 0x16, 0xc0, 1},                   // vpextrd
        {0x62, 0xf1, 0x7e, 0x48, 0x6f, 0x44, 0x24, 0x01},    // vmovdqu32 0x40(%rsp),%zmm0
    };
    for (const Code& code : instructions) {
        EXPECT_EQ(read(code).length, code.size())
            << "of the one that begins with " << int(code[0]) << ' ' << int(code[1]);
        const Code cut(code.begin(), code.end() - 1);
        EXPECT_EQ(read(cut).flow, FLOW_UNKNOWN) << "reads no byte behind the end";
    }
    EXPECT_EQ(read({0x67, 0xe8, 0, 0, 0, 0}).length, 6) << "as the linker leaves it";
    EXPECT_EQ(read({0x06}).flow, FLOW_UNKNOWN);
    EXPECT_EQ(read({0x8f, 0xe8, 0x78, 0xc2, 0xc0, 1}).flow, FLOW_UNKNOWN) << "of AMD's XOP";
    EXPECT_EQ(read({0x67, 0x8d, 0x01}).flow, FLOW_UNKNOWN);
}

TEST(LttngInstruction, WritesToItsOwnFrameOnly) {
    EXPECT_TRUE(read({0x48, 0x89, 0x44, 0x24, 0x08}).is_pure); // mov %rax,0x8(%rsp)
    EXPECT_EQ(read({0x48, 0x89, 0x44, 0x24, 0x08}).stored_at, 8);
    EXPECT_TRUE(read({0x48, 0x89, 0x45, 0xf8}).is_pure);         // mov %rax,-0x8(%rbp)
    EXPECT_FALSE(read({0x48, 0x89, 0x45, 0xf8}, false).is_pure); // where that may be anything
    EXPECT_FALSE(read({0x48, 0x89, 0x45, 0x10}).is_pure);        // mov %rax,0x10(%rbp): handed over
    EXPECT_FALSE(read({0x48, 0x89, 0x03}).is_pure);              // mov %rax,(%rbx)
    EXPECT_FALSE(read({0x48, 0x89, 0x04, 0x0c}).is_pure);        // mov %rax,(%rsp,%rcx)
    EXPECT_FALSE(read({0x64, 0x48, 0x89, 0x45, 0xf8}).is_pure);  // of the thread
    EXPECT_FALSE(read({0xff, 0x05, 0, 0, 0, 0}).is_pure);        // incl 0(%rip)
    EXPECT_FALSE(read({0xf0, 0x48, 0xff, 0x45, 0xf8}).is_pure);  // lock
    EXPECT_FALSE(read({0x87, 0x45, 0xf8}).is_pure);              // xchg
    EXPECT_FALSE(read({0xf3, 0x48, 0xab}).is_pure);              // rep stos
    EXPECT_FALSE(read({0x0f, 0x05}).is_pure);                    // syscall
    EXPECT_FALSE(read({0x48, 0x29, 0xc4}).is_pure);              // sub %rax,%rsp
    EXPECT_FALSE(read({0x0f, 0x11, 0x07}).is_pure);              // movups %xmm0,(%rdi)
    EXPECT_FALSE(read({0x66, 0x0f, 0xe7, 0x45, 0xf0}).is_pure);  // movntdq
    EXPECT_TRUE(read({0x0f, 0x10, 0x07}).is_pure);               // movups (%rdi),%xmm0
    EXPECT_TRUE(read({0x48, 0x83, 0x3f, 0x00}).is_pure);         // cmpq $0,(%rdi)
    EXPECT_FALSE(read({0x48, 0x83, 0x07, 0x01}).is_pure);        // addq $1,(%rdi)
}

TEST(LttngPureCode, AFunctionThatOnlyComputesIsPure) {
    const Code lay_out{0x48, 0x89, 0x75, 0xf0, 0x31, 0xc0}; // mov %rsi,-0x10(%rbp); xor %eax,%eax
    const purity found = judged(begin_function + reserve_past() + lay_out + ask + ret);
    EXPECT_TRUE(found.is_pure);
    EXPECT_EQ(found.frame_bytes, 8u + 0x40u);
    EXPECT_NE(found.asked_from, nullptr);
    EXPECT_FALSE(judged(begin_function + lay_out + ret).is_pure) << "nobody is asked";
}

TEST(LttngPureCode, ACallOnTheWayIsNot) {
    EXPECT_FALSE(judged(begin_function + reserve_past() + call_other + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code{0xff, 0x53, 0x18} + ask + ret).is_pure)
        << "of a virtual function";
    EXPECT_FALSE(judged(begin_function + reserve + ask + ret).is_pure) << "as far as where writing begins";
}

TEST(LttngPureCode, NorIsOneInABranchThatComesBack) {
    const Code jump_over_call{0x74, 0x05}; // je
    EXPECT_FALSE(judged(begin_function + reserve_past() + jump_over_call + call_other + ask + ret).is_pure);
    // je 1f; call; mov %eax,%ebx; 1: nop, and where it comes back to stands behind that.
    EXPECT_FALSE(
        judged(begin_function + reserve_past() + Code{0x74, 0x07} + call_other + Code{0x89, 0xc3} + ask + ret)
            .is_pure);
    EXPECT_FALSE(judged(begin_function + Code{0x74, 0x03} + reserve + ask + ret).is_pure);
}

TEST(LttngPureCode, WhatWritesMayDoAsItLikes) {
    // je ask; strlen; reserve; write a string as far as the filter is; ret; ask: ret
    const Code write = call_other + reserve + Code{0x48, 0x89, 0x03} + Code{0xff, 0x50, 0x28} + ret;
    const Code branch{0x74, static_cast<unsigned char>(write.size())};
    EXPECT_TRUE(judged(begin_function + branch + write + ask + ret).is_pure);
}

TEST(LttngPureCode, OfWhatIsNotUnderstoodNothingIsBelieved) {
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code{0xff, 0xe0} + ask + ret).is_pure)
        << "jmp *%rax";
    EXPECT_FALSE(judged(begin_function + Code{0x74, 0x02, 0xff, 0x20} + reserve_past() + ask + ret).is_pure)
        << "jmp *(%rax)";
    EXPECT_FALSE(judged(begin_function + Code{0x74, 0x02, 0x50, 0xc3} + reserve_past() + ask + ret).is_pure)
        << "push %rax; ret";
    /* je 1f; call 2f; pause; jmp .-2; 2: mov %rax,(%rsp); ret; 1: */
    const Code retpoline{0xe8, 4, 0, 0, 0, 0xf3, 0x90, 0xeb, 0xfc, 0x48, 0x89, 0x04, 0x24, 0xc3};
    EXPECT_FALSE(judged(begin_function + Code{0x74, 14} + retpoline + reserve_past() + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code{0x06} + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code{0xe9, 0, 0, 0, 0x10} + ask + ret).is_pure)
        << "out of the object";
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code(4000, 0x90) + ask + ret).is_pure)
        << "too long";
    const surroundings unknown = {{0, UINTPTR_MAX}, nothing_unwound, is_check_failed};
    EXPECT_FALSE(purity_until_filter(ret.data(), &unknown, 0x28, 0x10).is_pure) << "its object is not known";
}

TEST(LttngPureCode, AStoreAboveTheFrameIsNotItsOwn) {
    const Code far_store{0x48, 0x89, 0x84, 0x24, 0x90, 0, 0, 0}; // mov %rax,0x90(%rsp)
    EXPECT_FALSE(judged(begin_function + reserve_past() + far_store + ask + ret).is_pure);
    /* Nor one above what is left of it: push, pop, mov %rax,0x40(%rsp), where it returns to. */
    const Code store{0x48, 0x89, 0x44, 0x24, 0x40}, near_store{0x48, 0x89, 0x44, 0x24, 0x38};
    EXPECT_FALSE(judged(take_room + Code{0x50, 0x58} + reserve_past() + store + ask + ret).is_pure);
    EXPECT_TRUE(judged(take_room + Code{0x50, 0x58} + reserve_past() + near_store + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + Code{0x48, 0x83, 0xc5, 0x10} + reserve_past() + ask + ret).is_pure)
        << "add $0x10,%rbp";
}

TEST(LttngPureCode, WhatLooksLikeTheQuestionIsACall) {
    const Code other{0xff, 0x50, 0x28}; // call *0x28(%rax): a virtual function
    EXPECT_FALSE(judged(begin_function + reserve_past() + other + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + reserve + reserve + other + ask + ret).is_pure);
    EXPECT_FALSE(judged(begin_function + Code{0xff, 0x55, 0x28} + ret).is_pure)
        << "through an argument: call *0x28(%rbp)";
}

TEST(LttngPureCode, BehindACallStandsWhatItComesBackTo) {
    Code code = begin_function + reserve_past() + Code{0x74, 0x07} + call_other +
                Code{0x50, 0x58}; // je 1f; call; push %rax; pop %rax
    code = code + Code(16 - code.size() % 16, 0x90) + ask + ret;
    EXPECT_FALSE(judged(code).is_pure);
}

TEST(LttngPureCode, BehindTheCallForADamagedStackIsNobodysCode) {
    const Code next_function = ask + ret;
    // jne 1f; ret; 1: call
    const Code end = begin_function + reserve_past() + ask + Code{0x75, 0x01} + ret;
    EXPECT_TRUE(judged(call_by_jump(end, false) + next_function).is_pure);
    EXPECT_FALSE(judged(call_by_jump(end, true) + next_function).is_pure) << "two questions";
    EXPECT_FALSE(judged(end + call_other + next_function).is_pure);
    const Code by_pointer = end + Code{0xff, 0x15};
    const auto distance = static_cast<unsigned char>(pointers_at - (function_at + by_pointer.size() + 4));
    EXPECT_TRUE(judged(by_pointer + Code{distance, 0xff, 0xff, 0xff} + next_function).is_pure)
        << "call *pointer(%rip), as without a table of jumps";
}

// What is compared with what protects the stack may be the provider's own: mov %fs:0x28,%rax; cmp %rax,%rcx; jne 1f; call; 1:
// Of what the makers of processors do not agree upon the length is not known.
TEST(LttngPureCode, WhatHasNotOneLengthIsNotUnderstood) {
    EXPECT_EQ(read({0x66, 0x0f, 0x78, 0xc0, 0xc3, 0x04}).length, 0) << "extrq $0xc3,$0x4,%xmm0";
    EXPECT_EQ(read({0xf2, 0x0f, 0x78, 0xc1, 0xc3, 0x04}).length, 0) << "insertq";
    EXPECT_EQ(read({0x66, 0xe9, 0, 0, 0, 0}).length, 0);
    EXPECT_EQ(read({0x66, 0x0f, 0x84, 0, 0, 0, 0}).length, 0);
    EXPECT_EQ(read({0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0}).length, 8) << "as for thread-local variables";
}

TEST(LttngPureCode, ACallByWhetherTheStackIsProtectedIsNoneOfItsCheck) {
    const Code compare{0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x39, 0xc1};
    const Code before = begin_function + reserve_past() + compare + Code{0x75, 0x05};
    EXPECT_FALSE(judged(call_by_jump(before, true) + ask + ret).is_pure);
    EXPECT_FALSE(judged(call_by_jump(before, false) + ask + ret).is_pure)
        << "it comes back to where others come to";
}

TEST(LttngPureCode, AFrameThatGrowsInALoopIsOfNoKnownSize) {
    EXPECT_FALSE(
        judged(begin_function + reserve_past() + Code{0x48, 0x83, 0xec, 0x10, 0x75, 0xfa} + ask + ret)
            .is_pure);
    EXPECT_FALSE(
        judged(begin_function + reserve_past() + Code{0x48, 0x81, 0xec, 0, 0x20, 0, 0} + ask + ret).is_pure);
}

__attribute__((noinline)) int throws_from(int number) {
    if (number > 100) throw number;
    return number + 1;
}
__attribute__((noinline)) int catches(int number) {
    try {
        return throws_from(number);
    } catch (int thrown) {
        return thrown - 1;
    }
}

unwind_index own_index() {
    unwind_index found{};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            auto* const index = static_cast<unwind_index*>(data);
            for (int i = 0; i < info->dlpi_phnum; i++) {
                const auto* const at =
                    reinterpret_cast<const unsigned char*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
                    index->at = at, index->end = at + info->dlpi_phdr[i].p_filesz;
            }
            for (int i = 0; i < info->dlpi_phnum; i++) {
                const auto* const at =
                    reinterpret_cast<const unsigned char*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                const bool is_around = index->at >= at && index->at < at + info->dlpi_phdr[i].p_filesz;
                if (info->dlpi_phdr[i].p_type == PT_LOAD && is_around)
                    index->first = at, index->limit = at + info->dlpi_phdr[i].p_filesz;
            }
            return 1; // the executable is the first
        },
        &found);
    return found;
}

TEST(LttngPureCode, AnExceptionMayGoOnElsewhere) {
    const unwind_index own = own_index(), none{};
    EXPECT_TRUE(may_have_landing_pads(&own, reinterpret_cast<const void*>(&catches)));
    EXPECT_FALSE(may_have_landing_pads(&own, reinterpret_cast<const void*>(&throws_from)));
    EXPECT_EQ(catches(1) + catches(200), 2 + 199);
    EXPECT_TRUE(may_have_landing_pads(&none, reinterpret_cast<const void*>(&throws_from)))
        << "it is not known";
    EXPECT_FALSE(judged(begin_function + reserve_past() + ask + ret, none).is_pure);
    unwind_index cut = own;
    for (cut.limit = own.at; cut.limit > own.first && own.at - cut.limit < 5000; cut.limit -= 7)
        may_have_landing_pads(&cut, reinterpret_cast<const void*>(&catches)); // reads nothing behind it
}

TEST(LttngPureCode, WhereADebuggerStandsNothingIsSeen) {
    EXPECT_FALSE(judged(begin_function + reserve_past() + Code{0x74, 0x01, 0xcc} + ask + ret).is_pure);
}

TEST(LttngPureCode, InALoopItMayWait) {
    const Code loop{0xff, 0xc8, 0x75, 0xfc}; // 1: dec %eax; jne 1b
    EXPECT_FALSE(judged(begin_function + reserve_past() + loop + ask + ret).is_pure);
    EXPECT_TRUE(judged(begin_function + reserve_past() + ask + loop + ret).is_pure) << "behind the question";
    EXPECT_TRUE(judged(begin_function + reserve_past() + Code{0x74, 0x02, 0x89, 0xc1} + ask + ret).is_pure)
        << "two ways that meet";
}

TEST(LttngPureCode, TheQuestionIsNotMissed) {
    const Code other{0xff, 0x50, 0x28}; // call *0x28(%rax): a virtual function
    EXPECT_FALSE(judged(take_room + reserve_past() + other + Code{0xff, 0x55, 0x28} + ret).is_pure)
        << "call *0x28(%rbp), which is no frame pointer";
    EXPECT_FALSE(judged(begin_function + reserve_past() + other + Code{0xff, 0xd0} + ret).is_pure)
        << "call *%rax";
    EXPECT_FALSE(judged(begin_function + reserve_past() + other + Code{0xff, 0x54, 0x24, 0x08} + ret).is_pure)
        << "call *0x8(%rsp)";
}

} // namespace
#endif
