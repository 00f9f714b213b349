// cmake-once
/* Which events fulfil a condition, and why it can not be asked: fields of all kinds, in the event, in its context and in the
 * stream's; what every event has; and for each mistake what is wrong, and where. */
#include "tests/support/kernel_like_trace.h"
#include "trace/show/event_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Opened kinds() {
    KernelLikeTrace trace;
    const uint32_t first = trace.add(
        "first",
        "u8 small; i32 less; u64 big; floating_point { exp_dig = 11; mant_dig = 53; } real; string s;"
        "integer { size = 8; encoding = UTF8; } fixed[4]; u16 ports[3]; enum : u8 { new, sent = 4 } status;"
        "u8 __bytes_length; u8 bytes[__bytes_length]; string names[2]; struct { u8 deep; struct { i32 x; } "
        "er; } in;",
        "u8 prio; u8 tid;");
    const uint32_t second = trace.add("second", "i32 small; string less; u8 prio;");
    trace.event(first, 1, 7,
                Payload()
                    .add(uint8_t{9})
                    .add(uint8_t{77})
                    .add(uint8_t{200})
                    .add(int32_t{-5})
                    .add(UINT64_MAX)
                    .add(0.25)
                    .string("text")
                    .add(std::array<char, 4>{'a', 'b', 0, 'c'})
                    .add(std::array<uint16_t, 3>{1, 2, 40000})
                    .add(uint8_t{4})
                    .add(uint8_t{2})
                    .add(uint8_t{10})
                    .add(uint8_t{20})
                    .string("n0")
                    .string("n1")
                    .add(uint8_t{6})
                    .add(int32_t{-6}),
                11, "cat");
    trace.event(second, 2, 8, Payload().add(int32_t{-1}).string("-5").add(uint8_t{9}), 12, "dog");
    trace.end_packet(3);
    return trace.made();
}

std::string fulfilled(const Opened& trace, const std::string& condition, bool with_statedump = false) {
    Result<TraceReader> reader = trace.open();
    if (!reader) return reader.error().message();
    auto tree = parse_condition(condition);
    if (!tree) return tree.error().message();
    auto made = Condition::make(std::move(*tree), *reader, with_statedump);
    if (!made) return made.error().message();
    std::string found;
    while (const Event* const event = reader->next())
        found += (*made)->holds(*event) ? '+' : '-';
    return found;
}

TEST(Condition, KnowsFieldsOfEachKind) {
    const Opened trace = kinds();
    const std::pair<const char*, const char*> cases[] = {
        {"small == 200", "+-"},
        {"small == -1", "-+"},
        {"small", "++"},
        {"!small", "--"},
        {"less == -5", "+-"},
        {"less == '-5'", "-+"},
        {"less < 0 || less ~ '-?'", "++"},
        {"big == 0xffffffffffffffff && big > 0", "+-"},
        {"real == 0.25", "+-"},
        {"real + real == 0.5", "+-"},
        {"s == 'text'", "+-"},
        {"fixed == 'ab'", "+-"},
        {"ports[0] == 1", "+-"},
        {"ports[1] == 2 && ports[2] == 40000", "+-"},
        {"ports[3] == 0 || ports[3] != 0", "--"},
        {"names[1] == 'n1' && names[0] == 'n0'", "+-"},
        {"bytes[0] == 10 && bytes[1] == 20", "+-"},
        {"bytes[2] == 0", "--"},
        {"status == 4 && status == 'sent'", "+-"},
        {"status ~ 's*' && status + 1 == 5", "+-"},
        {"in.deep == 6 && in.er.x == -6", "+-"},
        {"prio == 9", "++"},
        {"tid == 77", "+-"},
        {"tid == 8", "-+"},
        {"pid == 11", "+-"},
        {"pid == 12", "-+"},
        {"cpu == 3", "++"},
        {"cpu != 3", "--"},
        {"comm == 'cat'", "+-"},
        {"comm ~ 'd*'", "-+"},
        {"procname == 'dog'", "-+"},
        {"event == 'second'", "-+"},
        {"event != 'second' && small == 200 || event == 'second' && small == -1", "++"},
        {"~small == 0", "-+"},
        {"~(small | 0xff) == -256", "+-"},
        {"-real < -0.2", "+-"},
        {"1", "++"},
        {"0.0", "--"},
        {"0x10 == 16 && 0b11 == 3 && 0X1f == 31", "++"},
    };
    for (const auto& [condition, which] : cases)
        EXPECT_EQ(fulfilled(trace, condition), which) << condition;
}

/* A number that an enumeration has no label for is none of its labels. */
TEST(Condition, TakesNumbersWithoutALabelForNoneOfThem) {
    KernelLikeTrace trace;
    const uint32_t event = trace.add("e", "enum : u8 { new, sent = 4 } status;");
    const uint32_t other = trace.add("f", "u8 x;");
    for (const uint8_t value : {uint8_t{0}, uint8_t{4}, uint8_t{5}})
        trace.event(event, value + 1u, 7, Payload().add(value));
    trace.event(other, 9, 7, Payload().add(uint8_t{1}));
    trace.end_packet();
    const Opened made = trace.made();
    EXPECT_EQ(fulfilled(made, "status == 'sent'"), "-+--");
    EXPECT_EQ(fulfilled(made, "status != 'sent'"), "+-+-");
    EXPECT_EQ(fulfilled(made, "!(status == 'sent')"), "+-+-");
    EXPECT_EQ(fulfilled(made, "status !~ 's*'"), "+-+-");
    EXPECT_EQ(fulfilled(made, "status < 'sent'"), "+---");
    EXPECT_EQ(fulfilled(made, "status != 4"), "+-+-");
}

/* The message without its picture, and the column that it points at. */
std::pair<std::string, std::size_t> mistake(const Opened& trace, const std::string& condition) {
    const std::string message = fulfilled(trace, condition);
    const std::size_t end = message.find(":\n    "), line = message.rfind('\n');
    if (end == std::string::npos) return {message, 0};
    EXPECT_EQ(message.substr(end + 6, line - end - 6), condition);
    return {message.substr(0, end), message.size() - line - 6};
}

TEST(Condition, SaysWhatCanNotBeAsked) {
    const Opened trace = kinds();
    const struct {
        const char* condition;
        const char* why;
        std::size_t column;
    } cases[] = {
        {"s", "s is a text: compare it with something", 0},
        {"1 == 1 && s", "s is a text, and a number is wanted here", 10},
        {"s && 1", "s is a text, and a number is wanted here", 0},
        {"s == 1", "s is a text, and 1 is a number: they can not be compared", 2},
        {"1.5 < s", "1.5 is a number, and s is a text: they can not be compared", 4},
        {"big == 'x'", "big is a number, and \"x\" is a text: they can not be compared", 4},
        {"(big + 1) == s", "this is a number, and s is a text: they can not be compared", 10},
        {"(big > 1) == s", "this is a number, and s is a text: they can not be compared", 10},
        {"(s ~ 'x') ~ 'y'", "this is a number, and a text is wanted here", 3},
        {"(real && big) == s", "this is a number, and s is a text: they can not be compared", 14},
        {"-big == s", "this is a number, and s is a text: they can not be compared", 5},
        {"18446744073709551615 == 'x'",
         "18446744073709551615 is a number, and \"x\" is a text: they can not be compared", 21},
        {"!s", "s is a text, and a number is wanted here", 1},
        {"1 + -'x'", "\"x\" is a text, and a number is wanted here", 5},
        {"big ~ 'x'", "big is a number, and a text is wanted here", 0},
        {"s ~ big", "big is a number, and a text is wanted here", 4},
        {"s !~ 5", "5 is a number, and a text is wanted here", 5},
        {"s ~ '['", "this is not a pattern: the set that [ begins has no end", 4},
        {"s + 1", "s is a text, and a number is wanted here", 0},
        {"1 + s", "s is a text, and a number is wanted here", 4},
        {"real & 1", "only integers have bits", 5},
        {"1 << real", "only integers have bits", 2},
        {"~real", "only integers have bits", 0},
        {"1 + ~1.5", "only integers have bits", 4},
        {"(big + real) | 1", "only integers have bits", 13},
        {"~(real + big)", "only integers have bits", 0},
        {"-real | 1", "only integers have bits", 6},
        {"comm", "comm is a text: compare it with something", 0},
        {"cpu == 'x'", "cpu is a number, and \"x\" is a text: they can not be compared", 4},
        {"cpu[0] == 1", "no event of the trace has a field cpu[0]", 0},
        {"nothing == 1", "no event of the trace has a field nothing", 0},
        {"1 && nothing", "no event of the trace has a field nothing", 5},
        {"smal == 1", "no event of the trace has a field smal, but some have small", 0},
        {"smalll[1] == 1", "no event of the trace has a field smalll[1], but some have small", 0},
        {"sxall == 1", "no event of the trace has a field sxall, but some have small", 0},
        {"msall == 1", "no event of the trace has a field msall, but some have small", 0},
        {"xxxll == 1", "no event of the trace has a field xxxll", 0},
        {"x == 1", "no event of the trace has a field x, but some have in.er.x", 0},
        {"procnames == 'x'", "no event of the trace has a field procnames, but some have procname", 0},
        {"pri == 1", "no event of the trace has a field pri, but some have prio", 0},
        {"in == 1", "in has parts: name one, in.deep", 0},
        {"in.er == 1", "in.er has parts: name one, in.er.x", 0},
        {"in[0] == 1", "in has no elements", 0},
        {"big[0] == 1", "big has no elements", 0},
        {"s.x == 1", "no event of the trace has a field s.x, but some have in.er.x", 0},
        {"ports == 1", "ports has elements: name one, ports[0]", 0},
        {"names == 'n0'", "names has elements: name one, names[0]", 0},
        {"__bytes_length == 1", "no event of the trace has a field __bytes_length", 0},
    };
    for (const auto& [condition, why, column] : cases)
        EXPECT_EQ(mistake(trace, condition), std::pair(std::string(why), column)) << condition;
    /* Bits are had by what is known to be an integer: -1, !real, and what joins or compares. */
    for (const char* const condition : {"-1 | 1", "!real | 1", "(real && real) | 1", "(real || s == '') << 1",
                                        "(real < 1) & 1", "(s ~ 'x') | 1", "~(big + 1) | 1", "~(-1)"})
        EXPECT_EQ(mistake(trace, condition).first.size(), 2u) << condition;
}

TEST(Condition, NamesTheBitsOfNumbers) {
    SampleMetadata sample;
    EventField state = integer_field("state", 4), other = integer_field("other", 4);
    state.labels = {{1, "S"}, {2, "D"}};
    other.labels = {{1, "X"}};
    state.has_flags = other.has_flags = true;
    const uint16_t id = sample.add("", "sched", {state, other});
    SampleStream stream(ctf_stream_records, 0);
    for (const uint32_t value : {0, 1, 2, 3, 4, 7})
        stream.event(id, base_ns + value, 1, Payload().add(value).add(value));
    stream.end_packet();
    const Opened trace{sample.text(), {stream.bytes()}};
    EXPECT_EQ(fulfilled(trace, "state == 'S'"), "-+----");
    EXPECT_EQ(fulfilled(trace, "state == 'S|D'"), "---+--");
    EXPECT_EQ(fulfilled(trace, "state ~ '*D*'"), "--++-+");
    EXPECT_EQ(fulfilled(trace, "state == 'S|D|0x4' && other == 'X|0x6'"), "-----+");
    EXPECT_EQ(fulfilled(trace, "state ~ '*'"), "-+++-+") << "0 and 4 have no names";
    EXPECT_EQ(fulfilled(trace, "state & 4"), "----++");
}

TEST(Condition, KnowsNamesAsTheStatedumpTellsThem) {
    const Named trace;
    const auto which = [&](const std::string& condition) {
        Result<TraceReader> reader = trace.open();
        FilterOptions options;
        options.condition = condition;
        EventFilter filter(*reader, std::move(options));
        const Status taken = filter.take_condition([&] { return trace.open(); });
        if (!taken) return taken.error().message();
        EXPECT_TRUE(filter.goes_by_thread());
        std::string found;
        while (const Event* const event = reader->next())
            if (!event->info->is_statedump) found += filter.wants(*event) ? '+' : '-';
        return found;
    };
    EXPECT_EQ(which("comm == 'worker'"), "+++++-----");
    EXPECT_EQ(which("comm == 'another' && pid == 20"), "-----++--+");
    EXPECT_EQ(which("comm ~ '*'"), "+++++++-++") << "nobody knows the name of 99";
    EXPECT_EQ(which("tid == 99"), "-------+--");
    EXPECT_EQ(which("cpu == 0 && n > 7"), "--------++");
    EXPECT_EQ(which("n > 5 &&"), "something is missing here:\n    n > 5 &&\n            ^");
}

/* A file name that was read where the call returned; the trace may end before that, and threads take turns. */
TEST(Condition, KnowsStringsOfSystemCallsThatAreToldLate) {
    KernelLikeTrace trace;
    const uint32_t open = trace.add("syscall_entry_open", "string filename; string mode;");
    const uint32_t opened = trace.add("syscall_exit_open", "i64 ret;");
    const uint32_t late = trace.add("syscall_late_text", "string call; string argument; string text;");
    const auto enter = [&](uint64_t time_ns, uint32_t tid, const char* name) {
        trace.event(open, time_ns, tid, Payload().string(name).string("m"));
    };
    const auto tell = [&](uint64_t time_ns, uint32_t tid, const char* call, const char* name) {
        trace.event(late, time_ns, tid, Payload().string(call).string("filename").string(name));
    };
    enter(1, 7, "(not read)"); /* told at 4 */
    enter(1, 8, "(not read)"); /* never told: the next one is */
    tell(3, 7, "stat", "/of another call");
    tell(4, 7, "open", "/a");
    trace.event(opened, 5, 7, Payload().add(int64_t{3}));
    enter(6, 7, "/b");
    enter(7, 8, "(not read)");
    tell(8, 8, "open", "/c");
    enter(9, 8, "(not read)");
    tell(10, 8, "open", "/a"); /* and the trace ends */
    const Opened made = trace.made();
    const auto which = [&](const std::string& condition) {
        Result<TraceReader> reader = made.open();
        FilterOptions options;
        options.condition = condition;
        options.patterns = {"syscall_entry_open"};
        EventFilter filter(*reader, std::move(options));
        EXPECT_TRUE(filter.take_condition([&] { return made.open(); }));
        std::string found;
        while (const Event* const event = reader->next())
            if (event->info->name == "syscall_entry_open") found += filter.wants(*event) ? '+' : '-';
        return found;
    };
    EXPECT_EQ(which("filename == '/a'"), "+---+");
    EXPECT_EQ(which("filename ~ '/*'"), "+-+++");
    EXPECT_EQ(which("filename == '(not read)'"), "-+---");
    EXPECT_EQ(which("mode == 'm' && filename != '/b'"), "++-++");
}

TEST(Condition, IsAskedOfTheStatedumpOnlyWhereThatIsShown) {
    const Named trace;
    EXPECT_EQ(fulfilled(trace, "base == 0x1000", true).size(), 14u);
    EXPECT_THAT(fulfilled(trace, "base == 0x1000"), HasSubstr("no event of the trace has a field base"));
    const auto asked = [&](FilterOptions options) {
        Result<TraceReader> reader = trace.open();
        options.condition = "base == 0x1000";
        EventFilter filter(*reader, std::move(options));
        return static_cast<bool>(filter.take_condition([&] { return trace.open(); }));
    };
    FilterOptions shown, named;
    shown.statedump = true;
    named.patterns = {"plumb_statedump:object"};
    EXPECT_TRUE(asked(shown));
    EXPECT_TRUE(asked(named));
    EXPECT_FALSE(asked({}));
}

/* Names of fields are theirs, then those of the event's context, then those of all events. */
TEST(Condition, WithoutAProcessorHasNone) {
    const Opened trace{"trace { major = 1; minor = 8; byte_order = le; };\n"
                       "event { name = \"a\"; fields := struct { integer { size = 8; } x; }; };\n",
                       {{1, 2}}};
    EXPECT_EQ(fulfilled(trace, "cpu == 0 || cpu != 0"), "--");
    EXPECT_EQ(fulfilled(trace, "comm == '' || comm != ''"), "--");
    EXPECT_EQ(fulfilled(trace, "pid == 0 || pid != 0"), "--") << "nor a process";
    EXPECT_EQ(fulfilled(trace, "tid == 0 || tid != 0"), "--");
    EXPECT_EQ(fulfilled(trace, "x == 2"), "-+");
}

/* Plumb's records say whose they are, and those of the kernel's idle threads that they are nobody's. */
TEST(Condition, KnowsTheIdleThreadsOfTheKernel) {
    SampleMetadata sample;
    const uint16_t id = sample.add("kernel", "irq", {integer_field("irq", 4)});
    SampleStream stream(ctf_stream_records, 3);
    stream.event(id, base_ns, 0, Payload().add(1u));
    stream.event(id, base_ns + 1, 7, Payload().add(1u));
    stream.end_packet();
    const Opened trace{sample.text(), {stream.bytes()}};
    EXPECT_EQ(fulfilled(trace, "tid == 0"), "+-");
    EXPECT_EQ(fulfilled(trace, "tid != 0"), "-+");
    EXPECT_EQ(fulfilled(trace, "pid == 0"), "+-");
    EXPECT_EQ(fulfilled(trace, "pid != 0"), "--") << "nobody knows of which process 7 is";
    Result<TraceReader> reader = trace.open();
    EXPECT_THAT(text_of(*reader, true), HasSubstr("\"tid\":0,\"fields\""));
}

TEST(Condition, ComparesFloatsAsTheyAreShown) {
    KernelLikeTrace trace;
    const uint32_t id = trace.add("e", "floating_point { exp_dig = 8; mant_dig = 24; } price;");
    trace.event(id, 1, 7, Payload().add(0.1f));
    trace.event(id, 2, 7, Payload().add(0.25f));
    trace.event(id, 3, 7, Payload().add(std::numeric_limits<float>::infinity()));
    const Opened made = trace.made();
    EXPECT_EQ(fulfilled(made, "price == 0.1"), "+--");
    EXPECT_EQ(fulfilled(made, "price > 0.1"), "-++");
    EXPECT_EQ(fulfilled(made, "price >= 0.25"), "-++");
}

class Filter : public testing::Test {
protected:
    Filter() {
        const uint32_t switched = kernel.add("sched_switch", "u32 prev_tid; u32 next_tid;");
        const uint32_t woken = kernel.add("sched_wakeup", "u32 tid; u32 other;");
        const uint32_t forked = kernel.add("sched_process_fork", "u32 parent_tid; u32 child_tid;");
        const uint32_t text = kernel.add("sched_text", "string tid;");
        const uint32_t irq = kernel.add("irq_entry", "u32 tid;");
        kernel.event(switched, 1, 1, Payload().add(7u).add(8u), 1, "ab");
        kernel.event(switched, 2, 7, Payload().add(8u).add(9u), 2, "bc");
        kernel.event(woken, 3, 1, Payload().add(7u).add(0u), 3, "bc");
        kernel.event(woken, 4, 1, Payload().add(0u).add(7u), 3, "bd");
        kernel.event(forked, 5, 1, Payload().add(7u).add(0u), 3, "");
        kernel.event(forked, 6, 1, Payload().add(0u).add(7u), 3, "x");
        kernel.event(text, 7, 1, Payload().string("7"), 3, "x");
        kernel.event(irq, 8, 1, Payload().add(7u), 3, "x");
        trace = kernel.made();
    }
    std::string which(FilterOptions options) {
        Result<TraceReader> reader = trace.open();
        EventFilter filter(*reader, std::move(options));
        idle = filter.idle_patterns();
        std::string found;
        while (const Event* const event = reader->next()) {
            if (filter.is_past(*event)) break;
            found += filter.wants(*event) ? '+' : '-';
        }
        return found;
    }
    KernelLikeTrace kernel;
    Opened trace;
    std::vector<std::string> idle;
};

TEST_F(Filter, FollowsAThreadThroughTheScheduler) {
    EXPECT_EQ(which({{}, {7}, {}, {}}), "+++-++--");
    EXPECT_EQ(which({{}, {9}, {}, {}}), "-+------");
    EXPECT_EQ(which({{}, {8, 9}, {}, {}}), "++------");
    EXPECT_EQ(which({{}, {}, {2}, {}}), "-+------") << "by process nobody is followed";
    EXPECT_EQ(which({{}, {}, {}, {"b*"}}), "-+++----");
    EXPECT_EQ(which({{}, {}, {}, {"ab", "x"}}), "+----+++");
    EXPECT_EQ(which({{}, {7}, {3}, {"b?"}}), "--+-----");
}

TEST_F(Filter, KnowsEventsOfTheKernelByWhatStandsThere) {
    EXPECT_EQ(which({{"sched_*"}, {}, {}, {}}), "+++++++-");
    EXPECT_EQ(which({{"!sched_*"}, {}, {}, {}}), "-------+");
    EXPECT_EQ(which({{"*", "!irq_entry"}, {}, {}, {}}), "+++++++-");
    EXPECT_EQ(which({{"sched_switch", "irq_entry", "!sched_switch"}, {}, {}, {}}), "-------+");
    EXPECT_THAT(idle, ElementsAre());
    EXPECT_EQ(which({{"sched", "irq_entry", "!nosuch", "sched_switch:*"}, {}, {}, {}}), "-------+");
    EXPECT_THAT(idle, ElementsAre("sched", "!nosuch", "sched_switch:*"));
}

/* Names of functions in C++ have colons, and are no providers. */
TEST_F(Filter, TakesNamesOfProbesAsTheyStand) {
    const uint32_t probe = kernel.add("uprobe_shop::Cart::add(int)", "u32 x;");
    kernel.event(probe, 9, 1, Payload().add(1u));
    const uint32_t event = kernel.add("shop:order", "u32 x;");
    kernel.event(event, 10, 1, Payload().add(1u));
    trace = kernel.made();
    EXPECT_EQ(which({{"uprobe_*add*"}, {}, {}, {}}), "--------+-");
    EXPECT_EQ(which({{"uprobe_shop::*"}, {}, {}, {}}), "--------+-");
    EXPECT_EQ(which({{"shop"}, {}, {}, {}}), "---------+");
    EXPECT_EQ(which({{"*Cart*"}, {}, {}, {}}), "--------+-");
}

TEST(KernelStatedump, IsShownIfItIsNamed) {
    SampleMetadata sample;
    const uint16_t id = sample.add("", "lttng_statedump_start", {integer_field("x", 4)});
    SampleStream stream(ctf_stream_records, 3);
    stream.event(id, base_ns, 7, Payload().add(1u));
    stream.end_packet();
    const Opened trace{sample.text(), {stream.bytes()}};
    Result<TraceReader> reader = trace.open();
    const Event* const event = reader->next();
    EXPECT_TRUE(EventFilter(*reader, {{"lttng_statedump_*"}, {}, {}, {}}).wants(*event));
    EXPECT_FALSE(EventFilter(*reader, {{"*"}, {}, {}, {}}).wants(*event));
}

TEST_F(Filter, TakesTimesWithTheirEnds) {
    FilterOptions options;
    EXPECT_FALSE(options.selects());
    options.since_ns = 3;
    EXPECT_TRUE(options.selects());
    options.until_ns = 6;
    EXPECT_EQ(which(options), "--++++");
    for (FilterOptions one : {FilterOptions{{"a"}, {}, {}, {}}, FilterOptions{{}, {1}, {}, {}},
                              FilterOptions{{}, {}, {1}, {}}, FilterOptions{{}, {}, {}, {"a"}}})
        EXPECT_TRUE(one.selects());
    FilterOptions until, condition, statedump;
    until.until_ns = 6;
    condition.condition = "1";
    statedump.statedump = true;
    EXPECT_TRUE(until.selects());
    EXPECT_TRUE(condition.selects());
    EXPECT_FALSE(statedump.selects());
}

} // namespace
} // namespace plumb
