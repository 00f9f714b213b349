// cmake-once
// The strings of system calls, from the memory of a program to what a record shows: the BPF programs run here against memory of
// all kinds, and what they tell is put together as the consumer does it. Whatever can be read is shown whole, and of the rest it
// is said that it was not read; what was read at the entry is not told again at the return.
#include "consumerd/kernel/syscall_text_program.h"
#include "consumerd/kernel/syscall_texts.h"
#include "tests/support/bpf_machine.h"
#include "tests/support/replaced_syscall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asm/ptrace.h>
#include <asm/unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace {

plumb::test::BpfMachine* machine_of_test = nullptr;

} // namespace

std::optional<long> plumb::test::answer_call(long number, const long (&arguments)[6]) {
    if (number != SYS_bpf || machine_of_test == nullptr) return {};
    return machine_of_test->call(arguments[0], *reinterpret_cast<bpf_attr*>(arguments[1]));
}

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string marker = "plumb_r1_2_3_cookie";
constexpr uint64_t page_bytes = test::UserMemory::page_bytes, somewhere = 0x7f0000000000;
constexpr std::size_t piece_bytes = 383, text_pieces = 11;

const TextArguments calls = {{"openat", {{1, "filename"}}},
                             {"execve", {{0, "filename"}, {1, "argv", true}}},
                             {"execveat", {{1, "filename"}, {2, "argv", true}}},
                             {"mount", {{0, "dev_name"}, {1, "dir_name"}, {2, "type"}}},
                             {"move_mount", {{1, "from"}, {3, "to"}}},
                             {"fsconfig", {{5, "last"}}}, /* which has five: any place may be one */
                             {"fanotify_mark", {{4, "pathname"}}},
                             {"getpid", {}}};

unsigned open_descriptors() {
    unsigned count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        count++;
    return count;
}

class SyscallTextProgramTest : public testing::Test {
protected:
    SyscallTextProgramTest() {
        machine_of_test = &machine_;
        machine_.kernel_bytes = sizeof(pt_regs);
        char pattern[] = "/tmp/plumb-texts-XXXXXX";
        root_ = ::mkdtemp(pattern);
        const std::string folder = root_ + "/events/bpf_trace/bpf_trace_printk";
        std::filesystem::create_directories(folder);
        enable_ = folder + "/enable";
        machine_.on_load = [this] { set_enabled("1\n"); };
        set_enabled("0\n");
    }
    ~SyscallTextProgramTest() override {
        machine_of_test = nullptr;
        std::filesystem::remove_all(root_);
    }
    void SetUp() override {
#if !defined(__x86_64__)
        GTEST_SKIP() << "where arguments are is known of x86-64 alone";
#endif
    }

    void set_enabled(const std::string& text) const {
        std::ofstream(enable_) << text;
    }
    std::string enabled() const {
        std::string text;
        std::getline(std::ifstream(enable_), text);
        return text;
    }
    void attach(const TextArguments& arguments = calls) {
        auto program = SyscallTextProgram::attach(root_, marker, arguments);
        ASSERT_TRUE(program) << program.error().message();
        program_.emplace(std::move(*program));
    }

    /* Somewhere in the program, each time at another place of a page. */
    uint64_t text(const std::string& value) {
        const uint64_t at = next_;
        machine_.user.put(at, value + '\0');
        next_ += (value.size() + page_bytes) / page_bytes * page_bytes + page_bytes + 8;
        return at;
    }
    /* Where one begins, and nothing is. */
    uint64_t page_behind() {
        return next_ += 2 * page_bytes - next_ % page_bytes;
    }
    uint64_t list(const std::vector<uint64_t>& pointers) {
        const uint64_t at = next_;
        for (std::size_t i = 0; i <= pointers.size(); i++)
            machine_.user.put_pointer(at + i * 8, i < pointers.size() ? pointers[i] : 0);
        next_ += page_bytes * 2;
        return at;
    }
    uint64_t list_of(const std::vector<std::string>& texts) {
        std::vector<uint64_t> pointers;
        for (const std::string& each : texts)
            pointers.push_back(text(each));
        return list(pointers);
    }

    struct Shown {
        std::vector<std::string> texts; /* "1=/etc": of an argument of which something was told */
        std::size_t messages = 0;
    };
    static pt_regs registers_of(uint32_t call, const std::vector<uint64_t>& arguments) {
        pt_regs registers;
        std::memset(&registers, 0xa5, sizeof(registers));
        registers.orig_rax = call;
        registers.cs = 0x33;
        unsigned long* const places[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                         &registers.r10, &registers.r8,  &registers.r9};
        for (std::size_t i = 0; i < arguments.size(); i++)
            *places[i] = arguments[i];
        return registers;
    }
    Shown told(uint32_t call, bool is_late) {
        TextsOfCall texts;
        for (const std::string& message : machine_.printed) {
            const auto each = told_text(message, marker);
            EXPECT_TRUE(each) << message;
            if (!each) continue;
            EXPECT_EQ(each->tag.is_late, is_late) << message;
            EXPECT_EQ(each->tag.call, call) << message;
            if (each->tag.state == TextTag::State::not_read || each->tag.state == TextTag::State::null) {
                EXPECT_EQ(each->text, "") << message;
            }
            texts.add(*each);
        }
        texts.end();
        Shown shown{{}, machine_.printed.size()};
        for (unsigned i = 0; i < syscall_arguments_max; i++)
            if (texts.is_told(i)) shown.texts.push_back(fmt::format("{}={}", i, texts.text(i)));
        machine_.printed.clear();
        return shown;
    }
    Shown enter(uint32_t call, const std::vector<uint64_t>& arguments) {
        const pt_regs registers = registers_of(call, arguments);
        machine_.hit("sys_enter", &registers, call);
        return told(call, false);
    }
    Shown leave(uint32_t call, const std::vector<uint64_t>& arguments) {
        const pt_regs registers = registers_of(call, arguments);
        machine_.hit("sys_exit", &registers, 0);
        return told(call, true);
    }
    std::vector<std::string> entered(uint32_t call, const std::vector<uint64_t>& arguments) {
        return enter(call, arguments).texts;
    }
    std::vector<std::string> left(uint32_t call, const std::vector<uint64_t>& arguments) {
        return leave(call, arguments).texts;
    }

    test::BpfMachine machine_;
    std::optional<SyscallTextProgram> program_;
    std::string root_, enable_;
    uint64_t next_ = somewhere;
};

std::string pattern(std::size_t length) {
    std::string made;
    while (made.size() < length)
        made += fmt::format("{:x}/", made.size());
    return made.substr(0, length);
}

TEST_F(SyscallTextProgramTest, ATextIsShownWholeHoweverLongAPathIs) {
    attach();
    for (const std::size_t length : {0UL, 1UL, 381UL, 382UL, 383UL, 384UL, 385UL, 765UL, 766UL, 767UL, 1149UL,
                                     3830UL, 3831UL, 4095UL, 4096UL, 4212UL}) {
        const std::string path = pattern(length);
        const auto shown = enter(__NR_openat, {7, text(path), 9});
        EXPECT_THAT(shown.texts, ElementsAre("1=" + path)) << length;
        EXPECT_EQ(shown.messages, length / piece_bytes + 1) << length;
        EXPECT_THAT(left(__NR_openat, {7, text(path), 9}), IsEmpty());
    }
    for (const std::size_t length : {4213UL, 4214UL, 9000UL}) {
        const std::string path = pattern(length);
        EXPECT_THAT(entered(__NR_openat, {7, text(path), 9}),
                    ElementsAre("1=" + path.substr(0, text_pieces * piece_bytes) + "..."))
            << length;
        EXPECT_THAT(left(__NR_openat, {7, text(path), 9}), IsEmpty());
    }
}

/* Each of the six is where the processor's calling convention has it. */
TEST_F(SyscallTextProgramTest, TextsAreThoseOfTheirArguments) {
    attach();
    const std::vector<uint64_t> all = {text("zero"),  text("one"),  text("two"),
                                       text("three"), text("four"), text("five")};
    EXPECT_THAT(entered(__NR_openat, all), ElementsAre("1=one"));
    EXPECT_THAT(entered(__NR_mount, all), ElementsAre("0=zero", "1=one", "2=two"));
    EXPECT_THAT(entered(__NR_move_mount, all), ElementsAre("1=one", "3=three"));
    EXPECT_THAT(entered(__NR_fanotify_mark, all), ElementsAre("4=four"));
    EXPECT_THAT(entered(__NR_fsconfig, all), ElementsAre("5=five"));
    EXPECT_THAT(entered(__NR_mount, {0, all[1], 0}), ElementsAre("0=(null)", "1=one", "2=(null)"));
    for (const uint32_t other : {uint32_t{__NR_getpid}, uint32_t{__NR_close}, 1023U, 1024U, 0xffffffffU})
        EXPECT_THAT(entered(other, all), IsEmpty()) << other;
}

/* Their numbers mean other calls, and the kernel has no events of them. */
TEST_F(SyscallTextProgramTest, ProgramsOf32BitsAreLeftAlone) {
    attach();
    pt_regs registers = registers_of(__NR_openat, {7, text("path")});
    machine_.user.set_absent(registers.rsi);
    registers.cs = 0x23;
    machine_.hit("sys_enter", &registers, __NR_openat);
    machine_.hit("sys_exit", &registers, 0);
    EXPECT_THAT(machine_.printed, IsEmpty());
    registers.cs = 0x33;
    machine_.is_kernel_readable = false;
    machine_.hit("sys_enter", &registers, __NR_openat);
    EXPECT_THAT(machine_.printed, IsEmpty());
}

TEST_F(SyscallTextProgramTest, WhatWasNotInMemoryIsReadWhereTheCallReturns) {
    attach();
    const uint64_t first = text("first"), second = text("second"), third = text("third");
    const std::vector<uint64_t> arguments = {first, second, third};
    machine_.user.set_absent(first);
    machine_.user.set_absent(third);
    EXPECT_THAT(entered(__NR_mount, arguments), ElementsAre("0=(not read)", "1=second", "2=(not read)"));
    machine_.user.set_absent(first, false);
    EXPECT_THAT(left(__NR_mount, arguments), ElementsAre("0=first")) << "and of the third nothing new";
    machine_.user.set_absent(third, false);
    EXPECT_THAT(left(__NR_mount, arguments), IsEmpty()) << "only once";
}

TEST_F(SyscallTextProgramTest, WhatWasReadInPartIsNotReadAgain) {
    attach();
    const std::string path = pattern(1000);
    const uint64_t end_of_page = page_behind();
    for (const std::size_t there : {384UL, 385UL, 766UL, 767UL, 999UL}) {
        const uint64_t at = end_of_page - there;
        machine_.user.put(at, path + '\0');
        machine_.user.set_absent(end_of_page);
        const std::string shown = path.substr(0, (there - 1) / piece_bytes * piece_bytes) + "...";
        EXPECT_THAT(entered(__NR_openat, {0, at}), ElementsAre("1=" + shown)) << there;
        machine_.user.set_absent(end_of_page, false);
        EXPECT_THAT(left(__NR_openat, {0, at}), IsEmpty()) << there;
    }
    machine_.user.put(end_of_page - 383, path + '\0');
    machine_.user.set_absent(end_of_page);
    EXPECT_THAT(entered(__NR_openat, {0, end_of_page - 383}), ElementsAre("1=(not read)"));
    machine_.user.set_absent(end_of_page, false);
    EXPECT_THAT(left(__NR_openat, {0, end_of_page - 383}), ElementsAre("1=" + path));
}

TEST_F(SyscallTextProgramTest, ThreadsAndCallsDoNotTakeEachOthersTexts) {
    attach();
    const uint64_t one = text("one"), other = text("other");
    machine_.user.set_absent(one);
    machine_.thread = 0x100000001;
    EXPECT_THAT(entered(__NR_mount, {one, one, one}).size(), 3U);
    machine_.user.set_absent(one, false);
    machine_.thread = 0x100000002;
    EXPECT_THAT(left(__NR_mount, {one, one, one}), IsEmpty());
    machine_.thread = 0x200000001;
    EXPECT_THAT(left(__NR_mount, {one, one, one}), IsEmpty());
    machine_.thread = 0x100000001;
    EXPECT_THAT(left(__NR_getpid, {one, one, one}), IsEmpty()) << "has no texts, and takes none";
    EXPECT_THAT(left(__NR_openat, {other, other, other}), ElementsAre("1=other")) << "has this one alone";
    EXPECT_THAT(left(__NR_mount, {one, one, one}), IsEmpty()) << "a call that did not return";
}

/* execve() has come back, and its arguments have gone. */
TEST_F(SyscallTextProgramTest, ANewProgramHasNoneOfTheOldOnesTexts) {
    attach();
    const uint64_t path = text("/bin/ls"), arguments = list_of({"ls"});
    machine_.user.set_absent(path);
    machine_.user.set_absent(arguments);
    EXPECT_THAT(entered(__NR_execve, {path, arguments}), ElementsAre("0=(not read)", "1=(not read)"));
    EXPECT_THAT(left(__NR_execve, {0, 0}), IsEmpty());
}

std::string shown_list(const std::vector<std::string>& texts, const char* end = "]") {
    std::string shown;
    for (const std::string& each : texts)
        shown += (shown.empty() ? "[\"" : ", \"") + each + '"';
    return (shown.empty() ? "[" : shown) + end;
}

TEST_F(SyscallTextProgramTest, OfAListEachTextIsShownUpToThirtyTwo) {
    attach();
    std::vector<std::string> texts;
    for (unsigned count = 0; count <= 34; count++) {
        const uint64_t pointers = list_of(texts);
        const auto shown = shown_list({texts.begin(), texts.begin() + std::min(count, list_pieces_max)},
                                      count <= list_pieces_max ? "]" : ", ...]");
        EXPECT_THAT(entered(__NR_execve, {text("/bin/ls"), pointers}),
                    ElementsAre("0=/bin/ls", "1=" + shown));
        EXPECT_THAT(entered(__NR_execveat, {0, text("ls"), pointers}), ElementsAre("1=ls", "2=" + shown));
        EXPECT_THAT(left(__NR_execve, {text("/bin/ls"), pointers}), IsEmpty());
        texts.push_back(fmt::format("-{}", count));
    }
}

/* Each begins when fewer than 32 pieces were told before it, and is shown whole then. */
TEST_F(SyscallTextProgramTest, LongTextsOfAListTakeTheRoomOfOthers) {
    attach();
    for (const std::size_t pieces : {1, 2, 3, 8, 10, 11}) {
        const std::string longest = pattern(pieces * piece_bytes - 1);
        const std::size_t fit = (list_pieces_max + pieces - 1) / pieces;
        for (const std::size_t count : {fit, fit + 1}) {
            const std::vector<std::string> texts(count, longest);
            const auto shown = entered(__NR_execve, {text("x"), list_of(texts)});
            EXPECT_THAT(shown,
                        ElementsAre("0=x", "1=" + shown_list({fit, longest}, count <= fit ? "]" : ", ...]")))
                << pieces << " pieces, " << count;
        }
    }
}

TEST_F(SyscallTextProgramTest, WhatOfAListWasNotReadIsSaidInItsPlace) {
    attach();
    const uint64_t path = text("x");
    const std::vector<uint64_t> texts = {text("a"), text("b"), text("c")};
    const uint64_t pointers = list(texts);
    EXPECT_THAT(entered(__NR_execve, {path, 0}), ElementsAre("0=x", "1=(null)"));
    EXPECT_THAT(entered(__NR_execve, {path, pointers}), ElementsAre("0=x", R"(1=["a", "b", "c"])"));
    const char* const missing[] = {R"(1=[(not read), "b", "c"])", R"(1=["a", (not read), "c"])",
                                   R"(1=["a", "b", (not read)])"};
    for (std::size_t i = 0; i < texts.size(); i++) {
        machine_.user.set_absent(texts[i]);
        EXPECT_THAT(entered(__NR_execve, {path, pointers}), ElementsAre("0=x", missing[i]));
        machine_.user.set_absent(texts[i], false);
        EXPECT_THAT(left(__NR_execve, {path, pointers}), ElementsAre(R"(1=["a", "b", "c"])"))
            << "all of it, and the path was told";
        EXPECT_THAT(left(__NR_execve, {path, pointers}), IsEmpty());
    }
}

TEST_F(SyscallTextProgramTest, AListWhosePointersWereNotReadIsReadLate) {
    attach();
    const uint64_t path = text("x"), first = text("a"), second = text("b");
    const uint64_t end_of_page = page_behind();
    for (const unsigned there : {0U, 1U, 2U}) {
        const uint64_t pointers = end_of_page - there * 8;
        machine_.user.put_pointer(pointers, first);
        machine_.user.put_pointer(pointers + 8, second);
        machine_.user.put_pointer(pointers + 16, 0);
        machine_.user.set_absent(end_of_page);
        const char* const shown[] = {"1=(not read)", R"(1=["a", (not read), ...])",
                                     R"(1=["a", "b", (not read), ...])"};
        EXPECT_THAT(entered(__NR_execve, {path, pointers}), ElementsAre("0=x", shown[there]));
        if (there == 0) {
            EXPECT_THAT(left(__NR_execve, {path, pointers}), IsEmpty()) << "that was said before";
            EXPECT_THAT(entered(__NR_execve, {path, pointers}), ElementsAre("0=x", shown[there]));
        }
        machine_.user.set_absent(end_of_page, false);
        EXPECT_THAT(left(__NR_execve, {path, pointers}), ElementsAre(R"(1=["a", "b"])")) << there;
    }
}

TEST_F(SyscallTextProgramTest, WithoutListsTheProgramsAreShorter) {
    attach();
    const std::size_t with = machine_.attached.front().code.size();
    machine_.attached.clear();
    attach({{"openat", {{1, "filename"}}}});
    EXPECT_LT(machine_.attached.front().code.size(), with / 4);
    EXPECT_THAT(entered(__NR_openat, {0, text("path")}), ElementsAre("1=path"));
}

/* Loading what may print switches an event of the machine's on, a moment later since 6.12. */
TEST_F(SyscallTextProgramTest, TheMachinesOwnEventOfPrintingIsAsItWas) {
    attach();
    EXPECT_EQ(enabled(), "0");
    program_.reset();
    set_enabled("1\n");
    attach();
    EXPECT_EQ(enabled(), "1") << "somebody wanted it";
}

/* Nothing is left of it, and the machine is as it was. */
TEST_F(SyscallTextProgramTest, WhateverTheKernelRefusesItIsAnError) {
    attach({{"openat", {{1, "filename"}}}});
    const unsigned calls_of_one = machine_.calls;
    EXPECT_EQ(calls_of_one, 9U) << "three tables, two values, two programs at two places";
    program_.reset();
    const unsigned open_before = open_descriptors();
    for (unsigned call = 1; call <= calls_of_one; call++) {
        machine_.calls = 0;
        machine_.fails_at = call;
        set_enabled("0\n");
        const auto program = SyscallTextProgram::attach(root_, marker, {{"openat", {{1, "filename"}}}});
        if (call == 6 || call == 8) { /* tried again, for what the verifier says */
            EXPECT_TRUE(program) << call;
            continue;
        }
        ASSERT_FALSE(program) << call;
        EXPECT_EQ(program.error().number(), EPERM) << program.error().message();
        EXPECT_EQ(open_descriptors(), open_before) << call;
        EXPECT_EQ(enabled(), "0") << call;
    }
}

} // namespace
} // namespace plumb
