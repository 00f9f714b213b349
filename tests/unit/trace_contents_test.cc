// cmake-once
/* What a trace has, counted and told: why nothing is shown of it, with what there is instead; and how much of each event and
 * thread, whoever has read which part. */
#include "trace/show/trace_contents.h"

#include "tests/support/kernel_like_trace.h"
#include "trace/show/trace_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb {
namespace {

using namespace test;
using ::testing::ElementsAre;

/* Thread 7 is named "b\na" and, later, "dd"; 8 "c"; 9 has no name. */
class Contents : public testing::Test {
protected:
    Contents() {
        const uint32_t other = kernel.add("other", "u8 x;");
        const uint32_t often = kernel.add("often", "u8 x;");
        kernel.add("never", "u8 x;");
        const auto event = [&](uint32_t number, uint64_t time, uint32_t tid, uint32_t pid,
                               std::string_view name) {
            kernel.event(number, time, tid, Payload().add(uint8_t{1}), pid, name);
        };
        event(other, 1'000'000'000, 7, 5, "b\na");
        event(often, 1'000'000'001, 8, 8, "c");
        event(often, 1'000'000'002, 7, 5, "b\na");
        event(often, 1'000'000'003, 9, 8, "");
        event(often, 1'000'000'004, 8, 8, "c");
        event(often, 1'000'000'005, 7, 5, "dd");
        event(often, 2'500'000'000, 7, 5, "dd");
        kernel.end_packet(1, 3);
        trace = kernel.made();
    }
    std::vector<std::string> why(const FilterOptions& wanted, TimeStyle style = TimeStyle::utc) const {
        Result<TraceReader> reader = trace.open();
        return TraceContents(*reader).why_nothing(wanted, style);
    }
    KernelLikeTrace kernel;
    Opened trace;
};

TEST_F(Contents, AreToldForEachThatIsNotThere) {
    EXPECT_THAT(why({{}, {1, 7, 2}, {}, {}}),
                ElementsAre("no event is of thread 1; the trace has 7 (dd), 8 (c), 9.",
                            "no event is of thread 2; the trace has 7 (dd), 8 (c), 9."));
    EXPECT_THAT(why({{}, {}, {8, 1}, {}}),
                ElementsAre("no event is of process 1; the trace has 5 (dd), 8 (c)."));
    EXPECT_THAT(why({{}, {}, {}, {"d*", "c", "[a]"}}),
                ElementsAre("no event is of a thread called [a]; the trace has dd, c."));
    EXPECT_THAT(why({{}, {3}, {4}, {"e"}}).size(), 3u);
    EXPECT_THAT(
        why({{}, {7}, {8}, {"c"}}),
        ElementsAre(
            "nothing is shown: no event is left by all that was asked for; the trace has often, other, from "
            "1970-01-01 00:00:01.000000000 to 1970-01-01 00:00:02.500000000."));
}

TEST_F(Contents, AreToldOfTimesBeforeAndAfter) {
    FilterOptions wanted;
    wanted.since_ns = 2'500'000'001;
    EXPECT_THAT(
        why(wanted),
        ElementsAre("nothing is shown: the last event is of 1970-01-01 00:00:02.500000000, before --since."));
    EXPECT_THAT(why(wanted, TimeStyle::seconds),
                ElementsAre("nothing is shown: the last event is of +1.500000000, before --since."));
    wanted.since_ns = 2'500'000'000;
    EXPECT_THAT(why(wanted).at(0), testing::HasSubstr("no event is left"));
    wanted.until_ns = 2'499'999'999;
    EXPECT_THAT(why(wanted), ElementsAre("nothing is shown: --since is after --until."));
    wanted.since_ns = wanted.until_ns;
    EXPECT_THAT(why(wanted).at(0), testing::HasSubstr("no event is left"));
    wanted = {};
    wanted.until_ns = 999'999'999;
    EXPECT_THAT(
        why(wanted),
        ElementsAre("nothing is shown: the first event is of 1970-01-01 00:00:01.000000000, after --until."));
    wanted.until_ns = 1'000'000'000;
    EXPECT_THAT(why(wanted).at(0), testing::HasSubstr("no event is left"));
}

TEST_F(Contents, AreTheMostFrequentFirst) {
    KernelLikeTrace many;
    uint64_t time = 1;
    for (int i = 0; i < 9; i++) {
        const uint32_t number = many.add(fmt::format("e{}", i), "u8 x;");
        for (int events = 0; events <= i; events++)
            many.event(number, time++, static_cast<uint32_t>(100 + i), Payload().add(uint8_t{1}), 1,
                       fmt::format("n{}", i));
    }
    trace = many.made();
    EXPECT_THAT(why({}).at(0), testing::HasSubstr("the trace has e8, e7, e6, e5, e4, e3, e2, e1, ..., from"));
    EXPECT_THAT(
        why({{}, {1}, {}, {}}).at(0),
        testing::EndsWith(
            "has 108 (n8), 107 (n7), 106 (n6), 105 (n5), 104 (n4), 103 (n3), 102 (n2), 101 (n1), ...."));
    EXPECT_THAT(why({{}, {}, {2}, {}}).at(0), testing::EndsWith("the trace has 1 (n0)."));
    EXPECT_THAT(why({{}, {}, {}, {"x"}}).at(0),
                testing::EndsWith("the trace has n8, n7, n6, n5, n4, n3, n2, n1, ...."));
}

TEST_F(Contents, MayBeNoneOrHaveNoNames) {
    trace.streams.clear();
    EXPECT_THAT(why({}), ElementsAre("the trace has no events."));
    KernelLikeTrace nameless;
    nameless.event(nameless.add("e", "u8 x;"), 1, 7, Payload().add(uint8_t{1}), 5, "");
    trace = nameless.made();
    EXPECT_THAT(why({{}, {}, {}, {"x"}}),
                ElementsAre("no event is of a thread called x; the trace has no names."));
    EXPECT_THAT(why({{}, {6}, {}, {}}), ElementsAre("no event is of thread 6; the trace has 7."));
}

TEST_F(Contents, OfPlumbHaveNamesByTheStatedump) {
    trace = Named();
    EXPECT_THAT(why({{}, {1}, {}, {}}),
                ElementsAre("no event is of thread 1; the trace has 11 (another), 10 (server), 99."));
    EXPECT_THAT(why({{}, {}, {1}, {}}),
                ElementsAre("no event is of process 1; the trace has 10 (server), 0."));
    EXPECT_THAT(why({}).at(0), testing::HasSubstr("the trace has app:n, from"));
}

TEST_F(Contents, AreSummedUp) {
    const std::string wanted =
        "7 events from 1970-01-01 00:00:01.000000000 to 1970-01-01 00:00:02.500000000 (+1.500000000 s)\n\n"
        "         events  event\n"
        "              6  often\n"
        "              1  other\n\n"
        "         events      pid      tid  thread\n"
        "              4        5        7  dd\n"
        "              2        8        8  c\n"
        "              1        8        9  -\n\n"
        "lost: 0 events, 0 packets; not readable: 0 packets, 0 unknown events\n";
    const std::string json =
        "{\"events\":7,\"first_ns\":1000000000,\"last_ns\":2500000000,\"by_event\":{\"often\":6,\"other\":1},"
        "\"threads\":[{\"pid\":5,\"tid\":7,\"comm\":\"dd\",\"events\":4},"
        "{\"pid\":8,\"tid\":8,\"comm\":\"c\",\"events\":2},{\"pid\":8,\"tid\":9,\"comm\":\"\",\"events\":1}],"
        "\"lost\":{\"events\":0,\"packets\":0,\"damaged_packets\":0,\"unknown_events\":0}}\n";
    for (const bool at_once : {false, true}) {
        Result<TraceReader> reader = trace.open();
        TraceSummary summary(*reader);
        if (at_once)
            EXPECT_TRUE(summary.add_all(EventFilter(*reader, {})));
        else
            while (const Event* const event = reader->next())
                summary.add(*event);
        EXPECT_EQ(summary.event_count(), 7u);
        OutputBuffer text(-1), object(-1);
        summary.put_text(text, TimeStyle::utc);
        summary.put_json(object);
        EXPECT_EQ(text.text(), wanted);
        EXPECT_EQ(object.text(), json);
    }
}

TEST_F(Contents, AreSummedUpUntilATime) {
    FilterOptions options;
    options.since_ns = 1'000'000'001;
    options.until_ns = 1'000'000'004;
    Result<TraceReader> reader = trace.open();
    TraceSummary summary(*reader);
    EXPECT_FALSE(summary.add_all(EventFilter(*reader, options)));
    EXPECT_EQ(summary.event_count(), 4u);
    OutputBuffer out(-1);
    summary.put_text(out, TimeStyle::seconds);
    EXPECT_TRUE(out.text().starts_with("4 events from +0.000000001 to +0.000000004 (+0.000000003 s)\n"))
        << out.text();
    TraceSummary none(*reader);
    OutputBuffer empty(-1);
    none.put_text(empty, TimeStyle::seconds);
    EXPECT_TRUE(empty.text().starts_with("0 events\n\n         events  event\n\n")) << empty.text();
}

/* Whoever read its last event knows what a thread is called; of streams read side by side, the newer name. */
TEST_F(Contents, HaveTheNewestNameOfEachThreadWhoeverReadIt) {
    for (const bool is_first_newer : {false, true}) {
        KernelLikeTrace two;
        const uint32_t number = two.add("e", "u8 x;");
        two.event(number, is_first_newer ? 50 : 10, 7, Payload().add(uint8_t{1}), 5,
                  is_first_newer ? "new" : "old");
        two.end_packet();
        two.end_stream();
        two.event(number, is_first_newer ? 20 : 60, 7, Payload().add(uint8_t{1}), 5,
                  is_first_newer ? "old" : "new");
        two.event(number, is_first_newer ? 51 : 61, 7, Payload().add(uint8_t{1}), 5, "");
        const Opened opened = two.made();
        Result<TraceReader> reader = opened.open();
        TraceSummary summary(*reader);
        EXPECT_TRUE(summary.add_all(EventFilter(*reader, {})));
        OutputBuffer out(-1);
        summary.put_json(out);
        EXPECT_EQ(
            out.text(),
            fmt::format(
                "{{\"events\":3,\"first_ns\":{},\"last_ns\":{},\"by_event\":{{\"e\":3}},"
                "\"threads\":[{{\"pid\":5,\"tid\":7,\"comm\":\"new\",\"events\":3}}],"
                "\"lost\":{{\"events\":0,\"packets\":0,\"damaged_packets\":0,\"unknown_events\":0}}}}\n",
                is_first_newer ? 20 : 10, is_first_newer ? 51 : 61));
    }
}

TEST_F(Contents, SayWhatEachStreamLost) {
    KernelLikeTrace two;
    const uint32_t number = two.add("e", "u8 x;");
    two.event(number, 10, 7, Payload().add(uint8_t{1}));
    two.end_packet(0, 5);
    two.event(number, 20, 7, Payload().add(uint8_t{1}));
    two.end_packet(0, 1'239);
    two.end_stream();
    two.event(number + 1, 30, 7, Payload().add(uint8_t{1}));
    const Opened opened = two.made();
    Result<TraceReader> reader = opened.open();
    TraceSummary summary(*reader);
    EXPECT_TRUE(summary.add_all(EventFilter(*reader, {})));
    OutputBuffer table(-1), objects(-1), text(-1);
    TraceSummary::put_streams(table, *reader);
    TraceSummary::put_streams_json(objects, *reader);
    summary.put_text(text, TimeStyle::seconds);
    EXPECT_EQ(table.text(), "    lost events  lost packets  damaged packets  unknown events  stream\n"
                            "          1,234             0                0               0  stream 0\n"
                            "              0             0                1               1  stream 1\n");
    EXPECT_EQ(objects.text(),
              "{\"stream\":\"stream "
              "0\",\"lost\":{\"events\":1234,\"packets\":0,\"damaged_packets\":0,\"unknown_events\":0}}\n"
              "{\"stream\":\"stream "
              "1\",\"lost\":{\"events\":0,\"packets\":0,\"damaged_packets\":1,\"unknown_events\":1}}\n");
    EXPECT_TRUE(
        text.text().ends_with("lost: 1,234 events, 0 packets; not readable: 1 packets, 1 unknown events\n"));
}

TEST(Grouped, HasACommaForEachThousand) {
    EXPECT_EQ(grouped(0), "0");
    EXPECT_EQ(grouped(999), "999");
    EXPECT_EQ(grouped(1'000), "1,000");
    EXPECT_EQ(grouped(12'345), "12,345");
    EXPECT_EQ(grouped(123'456), "123,456");
    EXPECT_EQ(grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

} // namespace
} // namespace plumb
