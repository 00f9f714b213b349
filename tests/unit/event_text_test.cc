// cmake-once
/* Lines of text, whole: numbers in each base, labels and bits, what steers terminals; and system calls whose entry and exit
 * are one line, with what is known where the one or the other is missing. */
#include "base/ctf_layout.h"
#include "tests/support/kernel_like_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb {
namespace {

using namespace test;
using ::testing::HasSubstr;

struct Written {
    std::string text;
    uint64_t lines = 0, threadless = 0, damaged = 0;
};

/* Events of threads in `passed_over` are not to be written. */
Written written(const Opened& trace, TextStyle style, const std::vector<uint32_t>& passed_over = {}) {
    Result<TraceReader> reader = trace.open();
    if (!reader) return {reader.error().message()};
    OutputBuffer out(-1);
    const auto writer = make_text_writer(*reader, out, std::move(style));
    while (const Event* const event = reader->next())
        if (std::find(passed_over.begin(), passed_over.end(), event->thread_id) != passed_over.end())
            writer->pass_over(*event);
        else
            writer->write(*event);
    writer->finish();
    /* Nobody knows how long before the first one there was another: as many marks as digits. */
    std::string text(out.text());
    const std::string unknown = "(+?." + std::string(9, '?') + ")";
    const std::size_t at = text.find(unknown);
    EXPECT_EQ(at == std::string::npos, text.empty());
    if (at != std::string::npos) text.replace(at, unknown.size(), "(+?)");
    return {text, writer->lines(), writer->threadless_calls(), writer->damaged_events()};
}

TextStyle pairs(int64_t min_duration_ns = 0, uint64_t lines_max = 0) {
    TextStyle style;
    style.time = TimeStyle::monotonic;
    style.pairs = true;
    style.min_duration_ns = min_duration_ns;
    style.lines_max = lines_max;
    return style;
}
TextStyle plain() {
    return {TimeStyle::monotonic, false};
}

/* The fields of the only event. */
std::string fields_of(std::string_view fields, const Payload& payload) {
    KernelLikeTrace trace;
    trace.event(trace.add("e", fields), 1, 7, payload);
    const Written all = written(trace.made(), plain());
    constexpr std::string_view start =
        "[0.000000001] (+?) e: { cpu_id = 0 }, { tid = 7, pid = 1, procname = \"cat\" }, ";
    EXPECT_TRUE(all.text.starts_with(start)) << all.text;
    EXPECT_EQ(all.lines, 1u);
    return all.text.substr(std::min(start.size(), all.text.size()));
}

TEST(EventText, ShowsIntegersInTheirBase) {
    std::string fields;
    Payload payload;
    for (const int base : {2, 8, 10, 16})
        for (const char* const is_signed : {"false", "true"}) {
            fields += fmt::format("integer {{ size = 16; base = {}; signed = {}; }} b{}{};", base, is_signed,
                                  base, is_signed);
            payload.add(uint16_t{0x8fff});
        }
    EXPECT_EQ(
        fields_of(fields, payload),
        "{ b2false = 0b1000111111111111, b2true = 0b1000111111111111, b8false = 0107777, b8true = 0107777,"
        " b10false = 36863, b10true = -28673, b16false = 0x8fff, b16true = 0x8fff }\n");
    const std::string bits(64, '1');
    EXPECT_EQ(
        fields_of("integer { size = 64; base = 2; signed = true; } x; integer { size = 64; base = 16; } y;"
                  "integer { size = 63; align = 8; base = 16; signed = true; } z;",
                  Payload().add(int64_t{-1}).add(~uint64_t{0}).add(~uint64_t{0})),
        "{ x = 0b" + bits + ", y = 0xffffffffffffffff, z = 0x7fffffffffffffff }\n");
    EXPECT_EQ(
        fields_of("i64 least; u64 most; u8 none;", Payload().add(INT64_MIN).add(UINT64_MAX).add(uint8_t{0})),
        "{ least = -9223372036854775808, most = 18446744073709551615, none = 0 }\n");
}

TEST(EventText, ShowsLabelsBesideNumbers) {
    EXPECT_EQ(
        fields_of("enum : u8 { A, \"b\\\"\\n\" = 1 ... 3, D = 9 } x[5];",
                  Payload().add(uint8_t{0}).add(uint8_t{1}).add(uint8_t{3}).add(uint8_t{4}).add(uint8_t{9})),
        "{ x = [ A (0), b\\\"\\n (1), b\\\"\\n (3), 4, D (9) ] }\n");
    EXPECT_EQ(
        fields_of(
            "enum : integer { size = 8; signed = true; base = 16; } { M = -3 ... -1, P = 0 ... 1 } x[4];",
            Payload().add(int8_t{-4}).add(int8_t{-3}).add(int8_t{-1}).add(int8_t{1})),
        "{ x = [ 0xfc, M (0xfd), M (0xff), P (0x1) ] }\n");
}

TEST(EventText, ShowsTextsStructuresAndFloatingPoint) {
    EXPECT_EQ(fields_of("struct { u8 a; string s; struct { } none; } in; u8 empty[0]; string esc; u8 last;",
                        Payload().add(uint8_t{1}).string("x").string("\x1b\"\\").add(uint8_t{2})),
              "{ in = { a = 1, s = \"x\", none = {} }, empty = [], esc = \"\\x1b\\\"\\\\\", last = 2 }\n");
    EXPECT_EQ(fields_of("floating_point { exp_dig = 8; mant_dig = 24; } f; floating_point { exp_dig = 11; "
                        "mant_dig = 53; } d;"
                        "floating_point { exp_dig = 8; mant_dig = 24; byte_order = be; } g;",
                        Payload().add(0.1f).add(-0.1).add(uint32_t{0x0000c03f})),
              "{ f = 0.1, d = -0.1, g = 1.5 }\n");
    EXPECT_EQ(fields_of("", Payload()), "{ }\n");
}

TEST(EventText, ShowsListsOfArgumentsAsLists) {
    KernelLikeTrace trace;
    const uint32_t exec = trace.add("syscall_entry_execve", "string argv; string other;");
    const uint32_t execat = trace.add("syscall_entry_execveat", "string argv;");
    const uint32_t open = trace.add("syscall_entry_open", "string argv;");
    const std::string_view list = R"(["a\"b", "c\\d\n"])";
    trace.event(exec, 1, 7, Payload().string(list).string("[x]"));
    trace.event(exec, 2, 7, Payload().string("no \"list").string("[x\"]"));
    trace.event(execat, 3, 7, Payload().string(list));
    trace.event(open, 4, 7, Payload().string(list));
    trace.event(exec, 5, 7, Payload().string("[\x1b\n\\").string(""));
    const std::string text = written(trace.made(), plain()).text;
    std::vector<std::string> fields;
    for (std::size_t at = 0; (at = text.find("}, { argv", at)) != std::string::npos; at++)
        fields.push_back(text.substr(at + 3, text.find('\n', at) - at - 3));
    EXPECT_THAT(fields, testing::ElementsAre(R"({ argv = ["a\"b", "c\\d\n"], other = "[x]" })",
                                             R"({ argv = "no \"list", other = "[x\"]" })",
                                             R"({ argv = ["a\"b", "c\\d\n"] })",
                                             R"({ argv = "[\"a\\\"b\", \"c\\\\d\\n\"]" })",
                                             R"({ argv = [\x1b\n\, other = "" })"));
}

TEST(EventText, NamesNumbersOfSystemCalls) {
    KernelLikeTrace trace;
    const uint32_t open = trace.add("syscall_entry_openat", "i32 dfd; i32 flags; u16 mode;");
    const uint32_t opened = trace.add("syscall_exit_openat", "i64 ret;");
    const uint32_t other = trace.add("other", "i32 flags;");
    trace.event(open, 1, 7, Payload().add(int32_t{-100}).add(int32_t{02000002}).add(uint16_t{0644}));
    trace.event(opened, 2, 7, Payload().add(int64_t{-2}));
    trace.event(opened, 3, 7, Payload().add(int64_t{3}));
    trace.event(other, 4, 7, Payload().add(int32_t{2}));
    const std::string text = written(trace.made(), plain()).text;
    EXPECT_THAT(text, HasSubstr("{ dfd = AT_FDCWD, flags = O_RDWR|O_CLOEXEC, mode = 0644 }\n"));
    EXPECT_THAT(text, HasSubstr("{ ret = -2 (ENOENT) }\n"));
    EXPECT_THAT(text, HasSubstr("{ ret = 3 }\n"));
    EXPECT_THAT(
        text, HasSubstr("other: { cpu_id = 0 }, { tid = 7, pid = 1, procname = \"cat\" }, { flags = 2 }\n"));
}

TEST(EventText, ShowsContextsOfEventsBehindThoseOfTheStream) {
    KernelLikeTrace trace;
    trace.event(trace.add("e", "u8 x;", "u8 prio; string what;"), 5, 7,
                Payload().add(uint8_t{3}).string("w").add(uint8_t{4}));
    EXPECT_EQ(written(trace.made(), plain()).text,
              "[0.000000005] (+?) e: { cpu_id = 0 }, { tid = 7, pid = 1, procname = \"cat\" }, "
              "{ prio = 3, what = \"w\" }, { x = 4 }\n");
}

TEST(EventText, ColorsTimesEventsNamesAndTexts) {
    KernelLikeTrace trace;
    trace.event(trace.add("e", "string s; u8 x;"), 5, 7, Payload().string("t").add(uint8_t{4}));
    EXPECT_EQ(
        written(trace.made(), {TimeStyle::monotonic, true}).text,
        "[\x1b[32m0.000000005\x1b[0m] (+?) \x1b[1;35me\x1b[0m: { \x1b[36mcpu_id\x1b[0m = 0 }, "
        "{ \x1b[36mtid\x1b[0m = 7, \x1b[36mpid\x1b[0m = 1, \x1b[36mprocname\x1b[0m = \x1b[33m\"cat\"\x1b[0m "
        "}, "
        "{ \x1b[36ms\x1b[0m = \x1b[33m\"t\"\x1b[0m, \x1b[36mx\x1b[0m = 4 }\n");
}

/* Calls as the kernel shows them. `lines` of what is written begin with the time and end with the fields. */
class CallsOfTheKernel : public testing::Test {
protected:
    static constexpr uint64_t second = 1'000'000'000;
    void enter(uint64_t time_ns, uint32_t tid, uint32_t fd) {
        trace.event(entry, time_ns, tid, Payload().add(fd));
    }
    void leave(uint64_t time_ns, uint32_t tid, int64_t ret) {
        trace.event(exit, time_ns, tid, Payload().add(ret));
    }
    /* Without what is the same in all. */
    std::string shown(TextStyle style, const std::vector<uint32_t>& passed_over = {}) {
        all = written(trace.made(), std::move(style), passed_over);
        std::string text = all.text;
        for (const std::string_view same : {", pid = 1, procname = \"cat\"", "{ cpu_id = 0 }, "})
            for (std::size_t at; (at = text.find(same)) != std::string::npos;)
                text.erase(at, same.size());
        return text;
    }
    KernelLikeTrace trace;
    Written all;
    uint32_t entry = trace.add("syscall_entry_read", "u32 fd;");
    uint32_t exit = trace.add("syscall_exit_read", "i64 ret;");
    uint32_t other = trace.add("other", "u8 x;");
};

TEST_F(CallsOfTheKernel, AreOneLineEachWhereTheyReturn) {
    enter(0, 7, 3);
    trace.event(other, 1, 7, Payload().add(uint8_t{1}));
    enter(2, 8, 4);
    leave(3, 7, 5);
    leave(second + 12, 8, -11);
    EXPECT_EQ(shown(pairs()),
              "[0.000000001] (+?) other: { tid = 7 }, { x = 1 }\n"
              "[0.000000003] (+0.000000002) read: { tid = 7 }, { fd = 3 } -> { ret = 5 } after 0.000000003\n"
              "[1.000000012] (+1.000000009) read: { tid = 8 }, { fd = 4 } -> { ret = -11 (EAGAIN) }"
              " after 1.000000010\n");
    EXPECT_EQ(all.lines, 3u);
    EXPECT_EQ(all.threadless, 0u);
}

TEST_F(CallsOfTheKernel, SayWhereEntriesAndExitsMayBeOfTwo) {
    trace.environment(split_calls_entry, "pread64 read readv");
    const uint32_t reads = trace.add("syscall_entry_rea", "u32 fd;"),
                   ends = trace.add("syscall_exit_rea", "i64 ret;");
    enter(0, 7, 3);
    leave(3, 7, 5);
    trace.event(reads, 4, 7, Payload().add(uint32_t{1}));
    trace.event(ends, 5, 7, Payload().add(int64_t{2}));
    EXPECT_EQ(shown(pairs()),
              "[0.000000003] (+?) read: { tid = 7 }, { fd = 3 } -> { ret = 5 } after 0.000000003"
              " <the exit may be of a later call>\n"
              "[0.000000005] (+0.000000002) rea: { tid = 7 }, { fd = 1 } -> { ret = 2 } after 0.000000001\n");
}

TEST_F(CallsOfTheKernel, WithoutPairsAreAsTheyWereWritten) {
    enter(0, 7, 3);
    leave(3, 7, 5);
    EXPECT_EQ(shown(plain()), "[0.000000000] (+?) syscall_entry_read: { tid = 7 }, { fd = 3 }\n"
                              "[0.000000003] (+0.000000003) syscall_exit_read: { tid = 7 }, { ret = 5 }\n");
}

TEST_F(CallsOfTheKernel, SayWhatOfThemIsMissing) {
    leave(1, 7, 1); /* its entry was before the trace */
    enter(2, 7, 2); /* its exit was lost */
    enter(3, 7, 3); /* and so was this one's */
    const uint32_t pipe = trace.add("syscall_exit_pipe", "i64 ret;");
    trace.event(pipe, 4, 7, Payload().add(int64_t{0})); /* of which the entry was lost */
    enter(5, 9, 4);                                     /* have not returned at the end */
    enter(6, 8, 5);
    EXPECT_EQ(shown(pairs()),
              "[0.000000001] (+?) syscall_exit_read: { tid = 7 }, { ret = 1 }\n"
              "[0.000000002] (+0.000000001) syscall_entry_read: { tid = 7 }, { fd = 2 } <exit not seen>\n"
              "[0.000000003] (+0.000000001) syscall_entry_read: { tid = 7 }, { fd = 3 } <exit not seen>\n"
              "[0.000000004] (+0.000000001) syscall_exit_pipe: { tid = 7 }, { ret = 0 }\n"
              "[0.000000005] (+0.000000001) syscall_entry_read: { tid = 9 }, { fd = 4 } <unfinished>\n"
              "[0.000000006] (+0.000000001) syscall_entry_read: { tid = 8 }, { fd = 5 } <unfinished>\n");
}

TEST_F(CallsOfTheKernel, MayBeThoseOnlyThatTookAsLong) {
    enter(0, 7, 1);
    leave(9, 7, 0);
    enter(10, 7, 2);
    leave(20, 7, 0);
    trace.event(other, 21, 7, Payload().add(uint8_t{1}));
    enter(30, 7, 3);
    enter(40, 7, 4); /* nobody knows how long the one before took */
    enter(45, 8, 5);
    enter(51, 9, 6);
    trace.event(other, 55, 6, Payload().add(uint8_t{1}));
    EXPECT_EQ(shown(pairs(10)),
              "[0.000000020] (+?) read: { tid = 7 }, { fd = 2 } -> { ret = 0 } after 0.000000010\n"
              "[0.000000040] (+0.000000020) syscall_entry_read: { tid = 7 }, { fd = 4 } <unfinished>\n"
              "[0.000000045] (+0.000000005) syscall_entry_read: { tid = 8 }, { fd = 5 } <unfinished>\n");
    EXPECT_EQ(all.lines, 3u);
}

TEST_F(CallsOfTheKernel, ThatAreUnfinishedAreNoMoreThanWasAskedFor) {
    for (uint32_t tid = 1; tid < 6; tid++)
        enter(tid, tid, tid);
    trace.event(other, 9, 9, Payload().add(uint8_t{1}));
    EXPECT_EQ(written(trace.made(), pairs(0, 3)).lines, 3u);
    EXPECT_EQ(written(trace.made(), pairs(0, 1)).lines, 1u);
    EXPECT_EQ(written(trace.made(), pairs(0, 0)).lines, 6u);
    EXPECT_EQ(written(trace.made(), pairs(0, 9)).lines, 6u);
}

/* Of who selects: what is not to be written has ended all the same. */
TEST_F(CallsOfTheKernel, EndByExitsThatAreNotWritten) {
    enter(1, 7, 1);
    leave(2, 7, 0);
    const auto end_of = [&](TextStyle style, uint64_t passed_over_at, bool of_entry) {
        const Opened opened = trace.made();
        Result<TraceReader> reader = opened.open();
        OutputBuffer out(-1);
        const auto writer = make_text_writer(*reader, out, std::move(style));
        while (const Event* const event = reader->next())
            if (event->time_ns == static_cast<int64_t>(passed_over_at))
                writer->pass_over(*event);
            else
                writer->write(*event);
        writer->finish();
        const std::string text(out.text());
        EXPECT_EQ(text.empty(), !of_entry) << text;
        return text;
    };
    EXPECT_THAT(
        end_of(pairs(), 2, true),
        HasSubstr(
            "syscall_entry_read: { cpu_id = 0 }, { tid = 7, pid = 1, procname = \"cat\" }, { fd = 1 }\n"));
    EXPECT_THAT(end_of(pairs(1), 2, true), HasSubstr("{ fd = 1 }\n"));
    end_of(pairs(2), 2, false);
    EXPECT_THAT(end_of(pairs(), 1, true), HasSubstr("syscall_exit_read"));
    EXPECT_EQ(shown(pairs(), {7}), "");
}

TEST_F(CallsOfTheKernel, OfNoThreadAreNotJoined) {
    enter(1, 0, 1);
    leave(2, 0, 0);
    const std::string text = shown(pairs());
    EXPECT_THAT(text, HasSubstr("syscall_entry_read: { tid = 0 }, { fd = 1 }\n"));
    EXPECT_THAT(text, HasSubstr("syscall_exit_read: { tid = 0 }, { ret = 0 }\n"));
    EXPECT_EQ(all.threadless, 2u);
    EXPECT_EQ(all.lines, 2u);
}

TEST_F(CallsOfTheKernel, ThatDoNotReturnAreWrittenWhereTheyAre) {
    std::vector<uint32_t> lone;
    for (const std::string name : {"exit", "exit_group", "rt_sigreturn", "uprobe", "uretprobe"}) {
        lone.push_back(trace.add("syscall_entry_" + name, "u8 x;"));
        trace.add("syscall_exit_" + name, "i64 ret;");
    }
    lone.push_back(trace.add("syscall_entry_unseen", "u8 x;")); /* its exits were not recorded */
    enter(1, 7, 1);
    uint64_t at = 2;
    for (const uint32_t number : lone)
        trace.event(number, at++, 7, Payload().add(uint8_t{1}));
    EXPECT_EQ(shown(pairs()),
              "[0.000000001] (+?) syscall_entry_read: { tid = 7 }, { fd = 1 } <exit not seen>\n"
              "[0.000000002] (+0.000000001) syscall_entry_exit: { tid = 7 }, { x = 1 }\n"
              "[0.000000003] (+0.000000001) syscall_entry_exit_group: { tid = 7 }, { x = 1 }\n"
              "[0.000000004] (+0.000000001) syscall_entry_rt_sigreturn: { tid = 7 }, { x = 1 }\n"
              "[0.000000005] (+0.000000001) syscall_entry_uprobe: { tid = 7 }, { x = 1 }\n"
              "[0.000000006] (+0.000000001) syscall_entry_uretprobe: { tid = 7 }, { x = 1 }\n"
              "[0.000000007] (+0.000000001) syscall_entry_unseen: { tid = 7 }, { x = 1 }\n");
}

/* For the kernel, what execveat() began has come from execve(). */
TEST_F(CallsOfTheKernel, ThatBeginProgramsEndByEitherName) {
    const uint32_t at = trace.add("syscall_entry_execveat", "string argv;");
    trace.add("syscall_exit_execveat", "i64 ret;");
    const uint32_t exec = trace.add("syscall_entry_execve", "string argv;");
    const uint32_t exec_exit = trace.add("syscall_exit_execve", "i64 ret;");
    trace.event(at, 1, 7, Payload().string("[\"a\"]"));
    trace.event(exec_exit, 2, 7, Payload().add(int64_t{0}));
    trace.event(exec, 3, 7, Payload().string("[\"b\"]"));
    trace.event(exec_exit, 4, 7, Payload().add(int64_t{0}));
    enter(5, 7, 1);
    trace.event(exec_exit, 6, 7, Payload().add(int64_t{0}));
    EXPECT_EQ(shown(pairs()),
              "[0.000000002] (+?) execveat: { tid = 7 }, { argv = [\"a\"] } -> { ret = 0 } after "
              "0.000000001\n"
              "[0.000000004] (+0.000000002) execve: { tid = 7 }, { argv = [\"b\"] } -> { ret = 0 } after "
              "0.000000001\n"
              "[0.000000005] (+0.000000001) syscall_entry_read: { tid = 7 }, { fd = 1 } <exit not seen>\n"
              "[0.000000006] (+0.000000001) syscall_exit_execve: { tid = 7 }, { ret = 0 }\n");
}

/* What could be read only where the call returned. */
TEST_F(CallsOfTheKernel, ShowTextsThatCameLate) {
    const uint32_t open = trace.add("syscall_entry_open", "string filename; string mode;");
    const uint32_t opened = trace.add("syscall_exit_open", "i64 ret;");
    const uint32_t late = trace.add("syscall_late_text", "string call; string argument; string text;");
    trace.event(late, 1, 7, Payload().string("open").string("filename").string("nobody's"));
    trace.event(open, 2, 7, Payload().string("").string("m"));
    trace.event(late, 3, 7, Payload().string("open").string("filename").string("/a"));
    trace.event(late, 4, 7, Payload().string("open").string("filename").string("/a/b"));
    trace.event(opened, 5, 7, Payload().add(int64_t{3}));
    trace.event(open, 6, 7, Payload().string("").string("m"));
    trace.event(opened, 7, 7, Payload().add(int64_t{3}));
    trace.event(open, 8, 7, Payload().string("").string("m"));
    trace.event(late, 9, 7, Payload().string("open").string("mode").string("x"));
    EXPECT_EQ(
        shown(pairs()),
        "[0.000000001] (+?) syscall_late_text: { tid = 7 }, { call = \"open\", argument = "
        "\"filename\", "
        "text = \"nobody's\" }\n"
        "[0.000000005] (+0.000000004) open: { tid = 7 }, { filename = \"/a/b\", mode = \"m\" } -> { ret = 3 }"
        " after 0.000000003\n"
        "[0.000000007] (+0.000000002) open: { tid = 7 }, { filename = \"\", mode = \"m\" } -> { ret = 3 }"
        " after 0.000000001\n"
        "[0.000000008] (+0.000000001) syscall_entry_open: { tid = 7 }, { filename = \"\", mode = \"x\" } "
        "<unfinished>\n");
}

/* In one packet nothing is missing; between two, what the trace says. */
TEST_F(CallsOfTheKernel, SayThatEventsWereLostMeanwhile) {
    enter(10, 7, 1);
    leave(20, 7, 0);
    enter(30, 7, 2);
    trace.end_packet();
    leave(40, 7, 0);
    const auto with_loss = [&](std::vector<LossPlace> places) {
        TextStyle style = pairs();
        KernelLikeTrace copy = trace;
        const Opened made = copy.made();
        style.losses = {{{}, {{60, 61}}}, {made.streams[0], std::move(places)}, {{}, {{90, 91}}}};
        const std::string text = written(made, std::move(style)).text;
        EXPECT_EQ(text.find("lost meanwhile>", 0), text.rfind("lost meanwhile>"));
        EXPECT_THAT(text.substr(0, text.find('\n')), testing::Not(HasSubstr("lost")));
        return text.find("{ fd = 2 } -> { ret = 0 } after 0.000000010 <events were lost meanwhile>\n") !=
               std::string::npos;
    };
    EXPECT_FALSE(with_loss({}));
    EXPECT_TRUE(with_loss({{5, 35}}));
    EXPECT_TRUE(with_loss({{32, 35}}));
    EXPECT_TRUE(with_loss({{5, 30}}));
    EXPECT_FALSE(with_loss({{5, 29}}));
    EXPECT_TRUE(with_loss({{40, 50}}));
    EXPECT_FALSE(with_loss({{41, 50}}));
    EXPECT_TRUE(with_loss({{5, 29}, {31, 32}, {41, 50}}));
    EXPECT_FALSE(with_loss({{5, 29}, {41, 50}}));
}

/* What another processor lost, the thread may have done there. */
TEST_F(CallsOfTheKernel, SayThatEventsOfAnotherProcessorWereLostMeanwhile) {
    enter(10, 7, 1);
    leave(20, 7, 0);
    trace.end_packet();
    trace.end_stream();
    enter(1, 8, 2);
    trace.end_packet(1, 0);
    enter(15, 8, 3);
    trace.end_packet(1, 3);
    enter(17, 8, 4);
    trace.end_packet(1, 3);
    const Opened made = trace.made();
    TextStyle style = pairs();
    style.losses = made.open()->loss_places();
    ASSERT_EQ(style.losses.size(), 1u);
    const std::string line = "{ fd = 1 } -> { ret = 0 } after 0.000000010";
    EXPECT_THAT(written(made, style).text, HasSubstr(line + " <events were lost meanwhile>\n"));
    style.losses[0].file = made.streams[0]; /* as if that were its own */
    EXPECT_THAT(written(made, style).text, HasSubstr(line + "\n"));
}

/* What is not shown says how late it is all the same, and what a call was given. */
TEST_F(CallsOfTheKernel, AreJoinedWithWhatIsPassedOver) {
    const uint32_t late = trace.add("syscall_late_text", "string call; string argument; string text;");
    const uint32_t open = trace.add("syscall_entry_open", "string filename;");
    trace.add("syscall_exit_open", "i64 ret;");
    trace.event(open, 10, 7, Payload().string("/a"));
    trace.event(late, 20, 7, Payload().string("stat").string("filename").string("/of another call"));
    trace.event(late, 1000, 8, Payload().string("open").string("filename").string("/nobody's"));
    EXPECT_THAT(written(trace.made(), pairs(990), {8}).text,
                HasSubstr("{ filename = \"/a\" } <unfinished>\n"));
    EXPECT_EQ(written(trace.made(), pairs(991), {8}).text, "");
    trace.event(late, 1001, 7, Payload().string("open").string("filename").string("/b"));
    TextStyle style = pairs();
    const Opened made = trace.made();
    Result<TraceReader> reader = made.open();
    OutputBuffer out(-1);
    const auto writer = make_text_writer(*reader, out, style);
    while (const Event* const event = reader->next())
        if (event->info->name == "syscall_late_text")
            writer->pass_over(*event);
        else
            writer->write(*event);
    writer->finish();
    EXPECT_THAT(std::string(out.text()), HasSubstr("{ filename = \"/b\" } <unfinished>\n"));
}

TEST_F(CallsOfTheKernel, ThatEndTooEarlyAreShownAsFarAsTheyAre) {
    EXPECT_EQ(written({"trace { major = 1; minor = 8; byte_order = le; };"
                       "event { name = \"a\"; fields := struct { integer { size = 8; } x; integer { size = "
                       "32; } y; }; };",
                       {{1, 2, 3, 4, 5, 6}}},
                      plain())
                  .text,
              "[0.000000000] (+?) a: { x = 1, y = 84148994 }\n");
}

} // namespace
} // namespace plumb
