// cmake-once
//
// From the text of events/SYSTEM/NAME/format to the steps by which an event of it becomes a payload: what is copied from where,
// and what is told beside the event.
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/tracefs.h"
#include "tests/support/kernel_pages.h"
#include "tests/support/parsed_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using namespace test;

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelFormat, OfAnEventWithoutFieldsHasTheCommonOnes) {
    EXPECT_EQ(parse("x", format_of("none", "5", "")).least_bytes, 8u);
    EXPECT_EQ(parse("syscalls", format_of("sys_enter_sync", "5", call_number_field)).call_offset, 8);
}

/* ---- texts of system calls ---- */

TEST(KernelFormat, TellsTextsInThePlaceOfPointersWhereTheCallBegins) {
    FormatParser parser;
    parser.know_told_texts({{"openat", {{1, "filename", false}}}, {"penat", {{1, "filename", false}}}});
    const auto told = [&](const std::string& system, const std::string& format) {
        const auto event = parser.parse(system, format);
        EXPECT_TRUE(event);
        return event ? *event : KernelEvent{};
    };
    const KernelEvent entry = told("syscalls", enter_openat_format());
    EXPECT_THAT(fields_of(entry), ElementsAre("dfd: i32", "filename: string", "flags: i32", "mode: u64"));
    ASSERT_EQ(entry.steps.size(), 4u);
    EXPECT_EQ(entry.steps[1].kind, RawStep::Kind::told_text);
    EXPECT_EQ(entry.steps[1].from, 1);
    ASSERT_EQ(entry.told_texts.size(), 1u);
    EXPECT_EQ(entry.told_texts[0].name, "filename");
    const std::string with_filename =
        std::string(call_number_field) + "\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n";
    for (const auto& [system, name] :
         {std::pair("other", "sys_enter_openat"), std::pair("syscalls", "sys_exit_openat"),
          std::pair("syscalls", "sys_enter_open")})
        EXPECT_THAT(told(system, format_of(name, "9", with_filename)).told_texts, IsEmpty()) << name;
}

TEST(KernelFormat, OfLateTextsIsThatOfAnEventOfOurOwn) {
    const KernelEvent event = late_text_event();
    EXPECT_EQ(event.id, 65535);
    EXPECT_EQ(event.description.full_name(), "syscall_late_text");
    EXPECT_THAT(fields_of(event), ElementsAre("call: string", "argument: string", "text: string"));
    for (const EventField& field : event.description.fields) {
        EXPECT_EQ(field.size, 1);
        EXPECT_FALSE(field.is_signed);
        EXPECT_FALSE(field.hex);
    }
}

/* ---- labels ---- */

TEST(KernelFormat, HasLabelsOfNumbersAlone) {
    const std::string field = "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n";
    const auto labels = [&](const std::string& symbols) {
        const KernelEvent event =
            parse("x", format_of("y", "5", field, "\"%s\", __print_symbolic(REC->a, " + symbols + ")"));
        std::vector<std::string> shown;
        for (const EventLabel& label : event.description.fields.at(0).labels)
            shown.push_back(fmt::format("{} {}", label.first, label.name));
        return shown;
    };
    EXPECT_THAT(labels("{ 1, \"ONE\" }, { 0x10, \"HEX\" }, { 3, \"THREE\" }"),
                ElementsAre("1 ONE", "16 HEX", "3 THREE"));
    EXPECT_THAT(labels("{ NOBODY_KNOWS, \"X\" }, { 2, \"TWO\" }"), ElementsAre("2 TWO"));
    EXPECT_THAT(labels("{ 0x1ffffffffffffffff, \"X\" }, { 2, \"TWO\" }"), ElementsAre("2 TWO"));
    EXPECT_THAT(labels("{ 2x, \"X\" }, { 2, \"TWO\" }"), testing::AnyOf(IsEmpty(), ElementsAre("2 TWO")));
}

TEST(KernelFormat, HasLabelsOfTheFieldThatIsShownByThem) {
    const std::string fields = "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n"
                               "\tfield:u32 b;\toffset:12;\tsize:4;\tsigned:0;\n";
    const auto labelled = [&](const std::string& print) {
        const KernelEvent event = parse("x", format_of("y", "5", fields, print));
        return std::pair(event.description.fields.at(0).labels.size(),
                         event.description.fields.at(1).labels.size());
    };
    using Pair = std::pair<std::size_t, std::size_t>;
    const std::string one = ", { 1, \"ONE\" })", two = ", { 1, \"ONE\" }, { 2, \"TWO\" })";
    EXPECT_EQ(labelled("\"%s\", __print_symbolic(REC->b" + one), Pair(0, 1));
    EXPECT_EQ(labelled("\"%d %s\", REC->a, __print_symbolic(REC->b" + one), Pair(0, 1));
    EXPECT_EQ(labelled("\"%s %s\", __print_symbolic(REC->a" + one + ", __print_symbolic(REC->b" + two),
              Pair(1, 2));
    EXPECT_EQ(labelled("\"%s\", REC->a ? __print_symbolic(REC->a" + two + " : __print_symbolic(REC->b" + one),
              Pair(2, 1));
    EXPECT_EQ(labelled("\"%s\", __print_symbolic((int)REC->b" + one), Pair(0, 1));
    EXPECT_EQ(labelled("\"%s\", __print_symbolic(REC->b & 0xff" + one), Pair(0, 1));
    EXPECT_EQ(labelled("\"%s\", __print_symbolic(REC->b | 1" + one),
              Pair(0, 0)); /* another value than the field's */
    EXPECT_EQ(labelled("\"%s\", __print_symbolic(REC->b + REC->a" + one), Pair(0, 0));
    /* Of tables that differ nobody knows which one counts. */
    EXPECT_EQ(labelled("\"%s %s\", __print_symbolic(REC->a" + two + ", __print_symbolic(REC->a" + one),
              Pair(0, 0));
    EXPECT_EQ(labelled("\"%s\", (REC->b == 1) ? __print_symbolic(REC->a & 0xff" + two +
                       " : __print_symbolic(REC->a" + one),
              Pair(0, 0));
    EXPECT_EQ(
        labelled("\"%s\", REC->b ? __print_symbolic(REC->a" + two + " : __print_flags(REC->a, \"|\"" + two),
        Pair(0, 0));
    EXPECT_EQ(labelled("\"%s%s%s\", __print_symbolic(REC->a" + one + ", __print_symbolic(REC->a" + two +
                       ", __print_symbolic(REC->a" + one),
              Pair(0, 0));
    EXPECT_EQ(labelled("\"%s\", REC->b ? __print_symbolic(REC->a" + two + " : __print_symbolic(REC->a" + two),
              Pair(2, 0));
    EXPECT_EQ(
        parse("x", format_of("y", "5", fields,
                             "\"%s%s\", __print_symbolic(REC->a" + two + ", __print_symbolic(REC->a" + one))
            .description.fields.at(0)
            .type,
        PLUMB_FIELD_INTEGER);
}

TEST(KernelFormat, ShowsConstantStringsAsTheKernelListsThem) {
    FormatParser parser;
    parser.know_constant_strings("0xffffffff82000010 : \"b \\\"c\\\"\"\n0xffffffff82000008 : \"a\"\n"
                                 "0x0 : \"none\"\n0x20 : unquoted\n0x30 : \"half\n\n0x40 : \"\"\n");
    const std::string format = format_of("one", "5",
                                         "\tfield:const char * s;\toffset:8;\tsize:8;\tsigned:0;\n"
                                         "\tfield:char * t;\toffset:16;\tsize:8;\tsigned:0;\n");
    const auto event = parser.parse("rcu", format);
    ASSERT_TRUE(event);
    std::vector<std::string> labels;
    for (const EventLabel& label : event->description.fields.at(0).labels)
        labels.push_back(fmt::format("{:#x} {}", static_cast<std::uint64_t>(label.first), label.name));
    EXPECT_THAT(labels, ElementsAre("0xffffffff82000008 a", "0xffffffff82000010 b \\\"c\\\"", "0x40 "));
    EXPECT_EQ(event->description.fields[1].type, PLUMB_FIELD_INTEGER);
    EXPECT_EQ(parse("rcu", format).description.fields.at(0).type, PLUMB_FIELD_INTEGER); /* nothing is known */
}

/* ---- steps ---- */

/* Kind, place and length of each; those of strings say where their location is. */
std::vector<std::string> steps_of(const KernelEvent& event) {
    static constexpr const char* kinds[] = {"copy",  "name", "fixed",    "io",     "string",
                                            "probe", "told", "sequence", "parent", "child"};
    std::vector<std::string> steps;
    for (const RawStep& step : event.steps)
        steps.push_back(fmt::format("{}{} {} {}", kinds[static_cast<int>(step.kind)],
                                    step.is_relative ? " relative" : "", step.from, step.bytes));
    return steps;
}

TEST(KernelFormat, CopiesNeighboursTogetherAndNothingElse) {
    const KernelEvent event =
        parse("x", format_of("many", "5",
                             "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n"
                             "\tfield:u16 b;\toffset:12;\tsize:2;\tsigned:0;\n"
                             "\tfield:u8 c;\toffset:15;\tsize:1;\tsigned:0;\n"
                             "\tfield:u8 odd[3];\toffset:16;\tsize:3;\tsigned:0;\n"
                             "\tfield:char comm[16];\toffset:19;\tsize:16;\tsigned:0;\n"
                             "\tfield:char other[15];\toffset:35;\tsize:15;\tsigned:0;\n"
                             "\tfield:u16 d;\toffset:50;\tsize:2;\tsigned:0;\n"
                             "\tfield:__rel_loc char[] s;\toffset:52;\tsize:4;\tsigned:0;\n"
                             "\tfield:u32 e;\toffset:56;\tsize:4;\tsigned:0;\n"
                             "\tfield:__data_loc u16[] n;\toffset:60;\tsize:4;\tsigned:0;\n"));
    EXPECT_THAT(steps_of(event),
                ElementsAre("copy 8 6", "copy 15 4", "name 19 16", "fixed 35 15", "copy 50 2",
                            "string relative 52 0", "copy 56 4", "sequence 60 2"));
    EXPECT_EQ(event.dynamic_fields, 2u);
    EXPECT_EQ(event.least_bytes, 64u);
    for (const EventField& field : event.description.fields)
        if (field.type == PLUMB_FIELD_STRING) {
            EXPECT_EQ(field.size, 1) << field.name;
            EXPECT_FALSE(field.is_signed || field.hex) << field.name;
            EXPECT_EQ(field.array_length, 0) << field.name;
        }
    EXPECT_THAT(fields_of(event), ElementsAre("a: u32", "b: u16", "c: u8", "odd: x8[3]", "comm: string",
                                              "other: string", "d: u16", "s: string", "e: u32", "n: u16[]"));
}

TEST(KernelFormat, HasArraysOfWhatTheirLengthCanBeMadeOf) {
    const KernelEvent event =
        parse("x", format_of("arrays", "5",
                             "\tfield:u32 whole[2];\toffset:8;\tsize:8;\tsigned:0;\n"
                             "\tfield:u32 cut[2];\toffset:16;\tsize:7;\tsigned:0;\n"
                             "\tfield:s8 small[3];\toffset:23;\tsize:3;\tsigned:1;\n"
                             "\tfield:struct s three;\toffset:26;\tsize:3;\tsigned:0;\n"
                             "\tfield:struct s two;\toffset:30;\tsize:2;\tsigned:0;\n"));
    EXPECT_THAT(fields_of(event),
                ElementsAre("whole: u32[2]", "cut: x8[7]", testing::AnyOf("small: i8[3]", "small: x8[3]"),
                            "three: x8[3]", "two: u16"));
}

TEST(KernelFormat, HasLettersOfBlockRequestsAsNumbersAndAsText) {
    const std::string format = format_of("block_rq_issue", "5",
                                         "\tfield:char rwbs[8];\toffset:8;\tsize:8;\tsigned:0;\n"
                                         "\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n");
    const KernelEvent event = parse("block", format);
    EXPECT_THAT(fields_of(event), ElementsAre("rwbs: x32", "rwbs_text: string", "comm: string"));
    EXPECT_THAT(steps_of(event), ElementsAre("io 8 8", "fixed 8 8", "name 16 16"));
    EXPECT_THAT(fields_of(parse("x", format)), ElementsAre("rwbs: string", "comm: string"));
}

TEST(KernelFormat, SaysWhoseThreadsAForkIsOf) {
    const std::string fields = "\tfield:char parent_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                               "\tfield:pid_t parent_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                               "\tfield:char child_comm[16];\toffset:28;\tsize:16;\tsigned:0;\n"
                               "\tfield:pid_t child_pid;\toffset:44;\tsize:4;\tsigned:1;\n"
                               "\tfield:pid_t pid;\toffset:48;\tsize:4;\tsigned:1;\n";
    const KernelEvent event = parse("sched", format_of("sched_process_fork", "5", fields));
    EXPECT_THAT(fields_of(event),
                ElementsAre("parent_comm: string", "parent_tid: i32", "parent_pid: i32", "child_comm: string",
                            "child_tid: i32", "child_pid: i32", "tid: i32"));
    EXPECT_THAT(steps_of(event), ElementsAre("name 8 16", "copy 24 4", "parent 24 4", "name 28 16",
                                             "copy 44 4", "child 44 4", "copy 48 4"));
    EXPECT_EQ(event.parent_at, 24);
    EXPECT_EQ(event.child_at, 44);
    EXPECT_EQ(event.thread_news, ThreadNews::made);
    EXPECT_EQ(parse("task", format_of("sched_process_fork", "5", fields)).thread_news, ThreadNews::none);
    EXPECT_EQ(parse("sched", format_of("sched_process_exec", "5", fields)).thread_news, ThreadNews::none);
    EXPECT_EQ(parse("task", format_of("task_newtask", "5", fields)).thread_news, ThreadNews::began);
    EXPECT_EQ(parse("sched", format_of("task_newtask", "5", fields)).thread_news, ThreadNews::none);
    EXPECT_EQ(parse("task", format_of("task_rename", "5", fields)).thread_news, ThreadNews::renamed);
    EXPECT_EQ(parse("sched", format_of("task_rename", "5", fields)).thread_news, ThreadNews::none);
}

TEST(KernelFormat, HasTextsOfProbesThatMayNotBeThere) {
    const KernelEvent event =
        parse("plumb_r1", format_of("uprobe_f", "5",
                                    "\tfield:__data_loc char[] early;\toffset:8;\tsize:4;\tsigned:0;\n"
                                    "\tfield:unsigned long __probe_ip;\toffset:12;\tsize:8;\tsigned:0;\n"
                                    "\tfield:__data_loc char[] late;\toffset:20;\tsize:4;\tsigned:0;\n"));
    EXPECT_THAT(steps_of(event), ElementsAre("string 8 0", "copy 12 8", "probe 20 0"));
}

} // namespace
} // namespace plumb
