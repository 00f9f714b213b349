// cmake-once
//
// From the text of events/SYSTEM/NAME/format to the description that stands in a trace. The formats are those of a kernel;
// no tracefs is needed.
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
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string sched_switch_format() {
    return format_of(
        "sched_switch", "372", switch_fields,
        "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d "
        "next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | "
        "0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << "
        "1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | "
        "0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), \"|\", { 0x00000001, \"S\" }, { "
        "0x00000002, \"D\" }, { 0x00000004, \"T\" }, { 0x00000008, \"t\" }, { 0x00000010, \"X\" }, { "
        "0x00000020, \"Z\" }, { 0x00000040, \"P\" }, { 0x00000080, \"I\" }) : \"R\", REC->prev_state & "
        "(((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | "
        "0x00000040) + 1) << 1) ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio");
}

std::string exit_openat_format() {
    return format_of("sys_exit_openat", "781",
                     std::string(call_number_field) + "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n",
                     "\"0x%lx\", REC->ret");
}

std::string parse_error(const std::string& system, const std::string& format) {
    FormatParser parser;
    const Result<KernelEvent> event = parser.parse(system, format);
    EXPECT_FALSE(event);
    return event ? "" : event.error().message();
}

const EventField& field_named(const KernelEvent& event, const std::string& name) {
    static const EventField none{};
    for (const EventField& field : event.description.fields)
        if (field.name == name) return field;
    ADD_FAILURE() << "There is no field " << name;
    return none;
}

/* ---- names and types ---- */

TEST(KernelFormat, NamesTheThreadsOfSchedulerEventsAsLttngDoes) {
    const KernelEvent event = parse("sched", sched_switch_format());
    EXPECT_EQ(event.system, "sched");
    EXPECT_EQ(event.raw_name, "sched_switch");
    EXPECT_EQ(event.id, 372);
    EXPECT_FALSE(event.is_ours);
    EXPECT_EQ(event.description.full_name(), "sched_switch");
    EXPECT_EQ(event.least_bytes, 64u);
    std::vector<std::string> names;
    for (const EventField& field : event.description.fields)
        names.push_back(field.name);
    EXPECT_THAT(names, ElementsAre("prev_comm", "prev_tid", "prev_prio", "prev_state", "next_comm",
                                   "next_tid", "next_prio"));
    EXPECT_EQ(field_named(event, "prev_tid").type_name(), "i32");
    EXPECT_EQ(field_named(event, "next_comm").type_name(), "string");
}

TEST(KernelFormat, KeepsTheNameOfAPidOutsideOfTheScheduler) {
    const std::string fields = "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                               "\tfield:pid_t child_pid;\toffset:12;\tsize:4;\tsigned:1;\n"
                               "\tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n";
    const std::string format = format_of("x", "9", fields, "\"%d\", REC->pid");
    EXPECT_THAT(fields_of(parse("task", format)), ElementsAre("pid: i32", "child_pid: i32", "old_pid: i32"));
    EXPECT_THAT(fields_of(parse("sched", format)), ElementsAre("tid: i32", "child_tid: i32", "old_tid: i32"));
}

TEST(KernelFormat, NamesEventsAsLttngDoes) {
    const auto named = [](const std::string& system, const std::string& name) {
        return parse(system, format_of(name, "9", "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n",
                                       "\"%d\", REC->a"))
            .description.full_name();
    };
    EXPECT_EQ(named("irq", "softirq_entry"), "irq_softirq_entry");
    EXPECT_EQ(named("irq", "irq_handler_entry"), "irq_handler_entry");
    EXPECT_EQ(named("timer", "hrtimer_expire_exit"), "timer_hrtimer_expire_exit");
    EXPECT_EQ(named("timer", "timer_start"), "timer_start");
    EXPECT_EQ(named("kmem", "mm_page_alloc"), "kmem_mm_page_alloc");
    EXPECT_EQ(named("kmem", "kmem_cache_alloc"), "kmem_cache_alloc");
    EXPECT_EQ(named("power", "cpu_frequency"), "power_cpu_frequency");
    EXPECT_EQ(named("net", "netif_receive_skb"), "net_if_receive_skb");
    EXPECT_EQ(named("irq_vectors", "local_timer_entry"), "x86_irq_vectors_local_timer_entry");
    EXPECT_EQ(named("exceptions", "page_fault_user"), "x86_exceptions_page_fault_user");
    EXPECT_EQ(named("sched", "sched_switch"), "sched_switch");
}

TEST(KernelFormat, DescribesTheEntryOfASystemCallByItsArguments) {
    const KernelEvent event = parse("syscalls", enter_openat_format());
    EXPECT_EQ(event.raw_name, "sys_enter_openat");
    EXPECT_EQ(event.description.name, "syscall_entry_openat");
    EXPECT_THAT(fields_of(event), ElementsAre("dfd: i32", "filename: x64", "flags: i32", "mode: u64"));
    EXPECT_EQ(event.least_bytes, 48u);
}

TEST(KernelFormat, DescribesTheExitOfASystemCallByItsResult) {
    const KernelEvent event = parse("syscalls", exit_openat_format());
    EXPECT_EQ(event.description.name, "syscall_exit_openat");
    EXPECT_THAT(fields_of(event), ElementsAre("ret: i64"));
}

TEST(KernelFormat, TakesUserIdsAsUnsignedAndProcessIdsAsSignedArguments) {
    const KernelEvent event =
        parse("syscalls", format_of("sys_enter_x", "321",
                                    "\tfield:uid_t uid;\toffset:16;\tsize:8;\tsigned:0;\n"
                                    "\tfield:pid_t pid;\toffset:24;\tsize:8;\tsigned:0;\n"
                                    "\tfield:unsigned int n;\toffset:32;\tsize:8;\tsigned:0;\n"
                                    "\tfield:int * p;\toffset:40;\tsize:8;\tsigned:0;\n"
                                    "\tfield:size_t s;\toffset:48;\tsize:8;\tsigned:0;\n",
                                    "\"%lx\", ((unsigned long)(REC->uid))"));
    EXPECT_THAT(fields_of(event), ElementsAre("uid: u32", "pid: i32", "n: u32", "p: x64", "s: u64"));
}

TEST(KernelFormat, HasArgumentsOfSystemCallsAsLongAsTheirTypes) {
    std::string fields;
    unsigned at = 16;
    for (const char* const type :
         {"u32",           "unsigned",        "const __u32", "qid_t",        "const enum landlock_rule_type",
          "const int",     "const clockid_t", "__s32",       "mqd_t",        "key_serial_t",
          "key_t",         "rwf_t",           "timer_t",     "const size_t", "u64",
          "aio_context_t", "unsigned long",   "off_t",       "loff_t",       "const long"})
        fields += fmt::format("\tfield:{} f{};\toffset:{};\tsize:8;\tsigned:0;\n", type, at,
                              std::exchange(at, at + 8));
    std::vector<std::string> types;
    for (const std::string& field : fields_of(parse("syscalls", format_of("sys_enter_x", "321", fields))))
        types.push_back(field.substr(field.find(' ') + 1));
    EXPECT_THAT(types, ElementsAre("u32", "u32", "u32", "u32", "u32", "i32", "i32", "i32", "i32", "i32",
                                   "i32", "i32", "i32", "u64", "u64", "u64", "u64", "i64", "i64", "i64"));
}

TEST(KernelFormat, KeepsTheNumberAndTheWidthsOfEventsThatAreNoSystemCalls) {
    const KernelEvent event =
        parse("raw", format_of("sys_enter_x", "5",
                               std::string(call_number_field) +
                                   "\tfield:int wide;\toffset:16;\tsize:8;\tsigned:0;\n",
                               "\"%d\", REC->__syscall_nr"));
    EXPECT_EQ(event.description.name, "sys_enter_x");
    EXPECT_THAT(fields_of(event), ElementsAre("__syscall_nr: i32", "wide: u64"));
}

TEST(KernelFormat, HasIntegersOfEverySize) {
    const KernelEvent event = parse("x", format_of("sizes", "5",
                                                   "\tfield:u8 a;\toffset:8;\tsize:1;\tsigned:0;\n"
                                                   "\tfield:s8 b;\toffset:9;\tsize:1;\tsigned:1;\n"
                                                   "\tfield:short c;\toffset:10;\tsize:2;\tsigned:1;\n"
                                                   "\tfield:u32 d;\toffset:12;\tsize:4;\tsigned:0;\n"
                                                   "\tfield:s64 e;\toffset:16;\tsize:8;\tsigned:1;\n"
                                                   "\tfield:void * f;\toffset:24;\tsize:8;\tsigned:0;\n"
                                                   "\tfield:struct t g;\toffset:32;\tsize:6;\tsigned:0;\n",
                                                   "\"%d\", REC->a"));
    EXPECT_THAT(fields_of(event),
                ElementsAre("a: u8", "b: i8", "c: i16", "d: u32", "e: i64", "f: x64", "g: x8[6]"));
}

TEST(KernelFormat, ShowsAddressesOfProbesAsAddresses) {
    const std::string fields = "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
                               "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
                               "\tfield:u64 other;\toffset:24;\tsize:8;\tsigned:0;\n";
    const KernelEvent event = parse("plumb_1_2", format_of("kretprobe_vfs_write", "1700", fields));
    EXPECT_TRUE(field_named(event, "__probe_func").hex);
    EXPECT_TRUE(field_named(event, "__probe_ret_ip").hex);
    EXPECT_FALSE(field_named(event, "other").hex);
}

TEST(KernelFormat, MakesStringsOfCharacterArraysAndArraysOfOthers) {
    const KernelEvent event =
        parse("x", format_of("arrays", "5",
                             "\tfield:char name[8];\toffset:8;\tsize:8;\tsigned:0;\n"
                             "\tfield:unsigned int words[3];\toffset:20;\tsize:12;\tsigned:0;\n"
                             "\tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;\n",
                             "\"%s\", REC->name"));
    EXPECT_THAT(fields_of(event), ElementsAre("name: string", "words: u32[3]", "args: u64[6]"));
}

TEST(KernelFormat, KeepsAnArrayWithoutElements) {
    const KernelEvent event =
        parse("x", format_of("none", "5",
                             "\tfield:unsigned int words[0];\toffset:8;\tsize:0;\tsigned:0;\n"
                             "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n",
                             "\"%d\", REC->a"));
    EXPECT_THAT(fields_of(event), ElementsAre(StartsWith("words: "), "a: i32"));
}

TEST(KernelFormat, KeepsEveryByteOfAnArrayOfNumbers) {
    /* 10.0.0.1 is no text that ends behind the 10. */
    const KernelEvent event =
        parse("sock", format_of("bytes", "5",
                                "\tfield:__u8 saddr[4];\toffset:8;\tsize:4;\tsigned:0;\n"
                                "\tfield:u8 fsid[16];\toffset:12;\tsize:16;\tsigned:0;\n"
                                "\tfield:unsigned char addr[6];\toffset:28;\tsize:6;\tsigned:0;\n"
                                "\tfield:__data_loc u8[] buf;\toffset:36;\tsize:4;\tsigned:0;\n",
                                "\"\""));
    EXPECT_THAT(fields_of(event), ElementsAre("saddr: x8[4]", "fsid: x8[16]", "addr: x8[6]", "buf: x8[]"));
}

TEST(KernelFormat, MakesSequencesOfDynamicArraysAndStringsOfDynamicCharacters) {
    const KernelEvent event =
        parse("x", format_of("dynamic", "5",
                             "\tfield:__data_loc char[] file;\toffset:8;\tsize:4;\tsigned:0;\n"
                             "\tfield:__rel_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n"
                             "\tfield:__data_loc u64[] addrs;\toffset:16;\tsize:4;\tsigned:0;\n"
                             "\tfield:__rel_loc u32[] sizes;\toffset:20;\tsize:4;\tsigned:0;\n",
                             "\"%s\", __get_str(file)"));
    EXPECT_THAT(fields_of(event),
                ElementsAre("file: string", "path: string", "addrs: u64[]", "sizes: u32[]"));
    EXPECT_EQ(event.least_bytes, 24u);
}

TEST(KernelFormat, KnowsTheSizeOfElementsByTheNamesThatCHas) {
    const KernelEvent event =
        parse("x", format_of("dynamic", "5",
                             "\tfield:__data_loc unsigned int[] lengths;\toffset:8;\tsize:4;\tsigned:0;\n"
                             "\tfield:__data_loc unsigned long[] words;\toffset:12;\tsize:4;\tsigned:0;\n",
                             "\"\""));
    EXPECT_THAT(fields_of(event), ElementsAre("lengths: u32[]", "words: u64[]"));
    const std::pair<const char*, const char*> sizes[] = {{"short", "u16"},
                                                         {"unsigned short", "u16"},
                                                         {"int", "u32"},
                                                         {"long", "u64"},
                                                         {"long long", "u64"},
                                                         {"unsigned long long", "u64"},
                                                         {"__u16", "u16"},
                                                         {"__u32", "u32"},
                                                         {"__u64", "u64"},
                                                         {"size_t", "u64"},
                                                         {"pid_t", "u32"},
                                                         {"struct unknown", "x8"},
                                                         {"int ", "u32"},
                                                         {"unsigned int", "u32"},
                                                         {"unsigned long", "u64"},
                                                         {"u16", "u16"},
                                                         {"u32", "u32"},
                                                         {"u64", "u64"},
                                                         {"s16", "u16"},
                                                         {"s32", "u32"},
                                                         {"s64", "u64"}};
    for (const auto& [type, size] : sizes) {
        const std::string field =
            fmt::format("\tfield:__data_loc {}[] a;\toffset:8;\tsize:4;\tsigned:0;\n", type);
        EXPECT_THAT(fields_of(parse("x", format_of("dynamic", "5", field, "\"\""))),
                    ElementsAre(fmt::format("a: {}[]", size)))
            << type;
    }
}

/* ---- labels ---- */

TEST(KernelFormat, TakesLabelsFromSymbols) {
    const std::string format =
        format_of("softirq_raise", "221", "\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n",
                  "\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, "
                  "\"TIMER\" }, { 2, \"NET_TX\" })");
    const KernelEvent event = parse("soft", format);
    const EventField& vec = field_named(event, "vec");
    EXPECT_EQ(vec.type, PLUMB_FIELD_ENUM);
    EXPECT_EQ(vec.size, 4);
    EXPECT_THAT(vec.labels,
                ElementsAre(EventLabel(0, "HI"), EventLabel(1, "TIMER"), EventLabel(2, "NET_TX")));
    /* Trace Compass ends its analysis where this is not a number. */
    const KernelEvent interrupt = parse("irq", format);
    EXPECT_EQ(field_named(interrupt, "vec").type, PLUMB_FIELD_INTEGER);
    EXPECT_EQ(field_named(interrupt, "vec").labels, vec.labels);
}

TEST(KernelFormat, TakesLabelsFromFlagsInsideOfAnExpression) {
    const KernelEvent event = parse("sched", sched_switch_format());
    const EventField& state = field_named(event, "prev_state");
    EXPECT_EQ(state.type, PLUMB_FIELD_INTEGER);
    EXPECT_EQ(state.size, 8);
    EXPECT_TRUE(state.is_signed);
    EXPECT_TRUE(state.has_flags);
    EXPECT_FALSE(state.hex);
    EXPECT_THAT(state.labels, ElementsAre(EventLabel(1, "S"), EventLabel(2, "D"), EventLabel(4, "T"),
                                          EventLabel(8, "t"), EventLabel(16, "X"), EventLabel(32, "Z"),
                                          EventLabel(64, "P"), EventLabel(128, "I")));
    EXPECT_THAT(field_named(event, "prev_prio").labels, IsEmpty());
}

/* Tools compute with them. */
TEST(KernelFormat, LeavesFlagSetsIntegers) {
    const std::string fields = "\tfield:unsigned long gfp_flags;\toffset:8;\tsize:8;\tsigned:0;\n"
                               "\tfield:int mask;\toffset:16;\tsize:4;\tsigned:1;\n"
                               "\tfield:u8 small;\toffset:20;\tsize:1;\tsigned:0;\n"
                               "\tfield:u8 shifted;\toffset:21;\tsize:1;\tsigned:0;\n";
    const KernelEvent event = parse(
        "kmem",
        format_of(
            "mm_page_alloc", "9", fields,
            "\"%s %s %s %s\", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, \"|\", {( unsigned long)((( "
            "gfp_t)((((1UL))) << (6))) | (( gfp_t)((((1UL))) << (7)))), \"BOTH\" }, {( unsigned long)(( "
            "gfp_t)((((1UL))) << (6))), \"IO\" }, { 0, \"0\" }) : \"none\", __print_flags(REC->mask, \"|\", "
            "{ "
            "0x80000000, \"TOP\" }, { 0x100000000, \"BEYOND\" }), __print_flags(REC->small & 0xf, \"|\", { "
            "1, "
            "\"ONE\" }, { 256, \"BEYOND\" }), __print_flags(REC->shifted >> 2, \"|\", { 1, \"FOUR\" })"));
    const EventField& gfp = field_named(event, "gfp_flags");
    EXPECT_EQ(gfp.type, PLUMB_FIELD_INTEGER);
    EXPECT_TRUE(gfp.has_flags);
    EXPECT_TRUE(gfp.hex);
    EXPECT_THAT(gfp.labels, ElementsAre(EventLabel(192, "BOTH"), EventLabel(64, "IO")));
    EXPECT_EQ(gfp.type_name(), "flags x64 { BOTH = 0xc0, IO = 0x40 }");
    EXPECT_EQ(field_named(event, "mask").type_name(), "flags i32 { TOP = 0x80000000 }");
    EXPECT_THAT(field_named(event, "mask").labels, ElementsAre(EventLabel(-2147483648, "TOP")));
    EXPECT_THAT(field_named(event, "small").labels, ElementsAre(EventLabel(1, "ONE")));
    EXPECT_THAT(field_named(event, "shifted").labels, IsEmpty());
}

TEST(KernelFormat, FindsLabelsOfAFieldThatIsRenamed) {
    const KernelEvent event =
        parse("sched", format_of("x", "5", "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n",
                                 "\"%s\", __print_symbolic(REC->pid, { 0, \"idle\" })"));
    EXPECT_THAT(field_named(event, "tid").labels, ElementsAre(EventLabel(0, "idle")));
}

TEST(KernelFormat, ShowsConstantStringsWhereAnEventHasTheirAddress) {
    const std::string format =
        format_of("rcu_utilization", "123", "\tfield:const char * s;\toffset:8;\tsize:8;\tsigned:0;\n",
                  "\"%s\", REC->s");
    FormatParser parser;
    parser.know_constant_strings(
        "0xffffffff82819b3f : \"Start context switch\"\n0xffffffff82818cca : \"thaw_processes\"\n"
        "0xffffffff82818cca : \"thaw_processes\"\nnothing\n");
    const auto event = parser.parse("rcu", format);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->description.fields[0].type, PLUMB_FIELD_ENUM);
    EXPECT_TRUE(event->description.fields[0].hex);
    EXPECT_THAT(
        event->description.fields[0].labels,
        ElementsAre(EventLabel(static_cast<std::int64_t>(0xffffffff82818cca), "thaw_processes"),
                    EventLabel(static_cast<std::int64_t>(0xffffffff82819b3f), "Start context switch")));
    const auto of_program = parser.parse("syscalls", enter_openat_format());
    ASSERT_TRUE(of_program);
    EXPECT_EQ(of_program->description.fields[1].type, PLUMB_FIELD_INTEGER);
}

TEST(KernelFormat, LosesOnlyLabelsWhereThePrintFormatIsNotUnderstood) {
    const KernelEvent event =
        parse("x", format_of("odd", "5", "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n",
                             "\"%s\", no_such_function(REC->a, &&& ))"));
    EXPECT_THAT(fields_of(event), ElementsAre("a: i32"));
}

/* ---- what makes no sense ---- */

TEST(KernelFormat, RefusesWhatMakesNoSense) {
    EXPECT_THAT(parse_error("x", ""), HasSubstr("no name"));
    EXPECT_THAT(parse_error("x", "hello"), HasSubstr("no name"));
    EXPECT_THAT(parse_error("x", "ID: 5\nname: x\n"), HasSubstr("no name"));
    EXPECT_THAT(parse_error("x", "name: y"), HasSubstr("x:y"));
    EXPECT_THAT(parse_error("x", "name: y\nID: none\n"), HasSubstr("x:y"));
}

TEST(KernelFormat, RefusesFieldsThatMakeNoSense) {
    EXPECT_THAT(parse_error("x", "name: y\nID: 5\nformat:\n\tfield:int a;\toffset:no;\n"), HasSubstr("x:y"));
    EXPECT_THAT(parse_error("x", "name: y\nID: 5\n"), HasSubstr("x:y"));
    EXPECT_THAT(parse_error("x", "name: y\nID: 5\nrubbish\n"), HasSubstr("x:y"));
    EXPECT_THAT(parse_error("x", format_of("y", "5", "\tfield:int a;\toffset:8;\n", "\"\"")),
                HasSubstr("x:y"));
}

TEST(KernelFormat, RefusesNumbersThatNoRecordHolds) {
    const std::string field = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n";
    EXPECT_EQ(parse("x", format_of("y", "65534", field, "\"%d\", REC->a")).id, 65534);
    /* That of an event of our own. */
    EXPECT_THAT(parse_error("x", format_of("y", "65535", field, "\"%d\", REC->a")), HasSubstr("65535"));
    EXPECT_THAT(parse_error("x", format_of("y", "65536", field, "\"%d\", REC->a")), HasSubstr("65536"));
    EXPECT_THAT(parse_error("x", format_of("y", "0", field, "\"%d\", REC->a")), HasSubstr("number 0"));
}

TEST(KernelFormat, ParsesManyFormatsAfterAnErrorWithOneParser) {
    FormatParser parser;
    EXPECT_FALSE(parser.parse("x", "name: y\nID: none\n"));
    EXPECT_TRUE(parser.parse("sched", sched_switch_format()));
    EXPECT_TRUE(parser.parse("syscalls", enter_openat_format()));
    const Result<KernelEvent> exit = parser.parse("syscalls", exit_openat_format());
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->id, 781);
}

} // namespace
} // namespace plumb
