// cmake-once
/* Points in time, read and written: nothing is rounded, and what was printed can be given back. */
#include "trace/show/time_format.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

constexpr int64_t start_ns = 1'795'238'043'464'729'250; /* 2026-11-21 05:14:03.464729250 UTC */

std::string shown(TimeFormat format, int64_t time_ns, bool with_date = false) {
    OutputBuffer out(-1);
    if (with_date)
        format.put_date_and_time(out, time_ns);
    else
        format.put_time(out, time_ns);
    return std::string(out.text());
}

int64_t parsed(std::string_view text, TimeStyle style = TimeStyle::utc) {
    Result<int64_t> time = TimeFormat(style, start_ns).parse(text);
    return time ? *time : -1;
}

TEST(TimeFormat, ShowsEachStyle) {
    EXPECT_EQ(shown({TimeStyle::utc, start_ns}, start_ns), "05:14:03.464729250");
    EXPECT_EQ(shown({TimeStyle::utc, start_ns}, start_ns, true), "2026-11-21 05:14:03.464729250");
    EXPECT_EQ(shown({TimeStyle::seconds, start_ns}, start_ns + 1'000'000'001), "+1.000000001");
    EXPECT_EQ(shown({TimeStyle::seconds, start_ns}, start_ns - 5), "-0.000000005");
    EXPECT_EQ(shown({TimeStyle::monotonic, start_ns, start_ns - 86'400'000'000'005}, start_ns),
              "86400.000000005");
    EXPECT_EQ(shown({TimeStyle::monotonic, start_ns, start_ns}, start_ns - 5, true), "-0.000000005");
    EXPECT_EQ(shown({TimeStyle::utc, 0}, -1, true), "1969-12-31 23:59:59.999999999");
}

TEST(TimeFormat, ReadsWhatItShows) {
    EXPECT_EQ(parsed("05:14:03.464729250"), start_ns);
    EXPECT_EQ(parsed("2026-11-21 05:14:03.464729250"), start_ns);
    EXPECT_EQ(parsed("2026-11-21T05:14:03.464729250"), start_ns);
    EXPECT_EQ(parsed("+1.000000001"), start_ns + 1'000'000'001);
    const TimeFormat monotonic(TimeStyle::monotonic, start_ns, start_ns - 86'400'000'000'005);
    EXPECT_EQ(monotonic.parse(shown(monotonic, start_ns + 77)).value_or(0), start_ns + 77);
    EXPECT_EQ(monotonic.parse("+77ns").value_or(0), start_ns + 77);
    TimeFormat local(TimeStyle::local, start_ns);
    EXPECT_EQ(parsed(shown(local, start_ns + 77), TimeStyle::local), start_ns + 77);
}

TEST(TimeFormat, ReadsOffsetsInEachUnit) {
    EXPECT_EQ(parsed("+1.5s"), start_ns + 1'500'000'000);
    EXPECT_EQ(parsed("+20ms"), start_ns + 20'000'000);
    EXPECT_EQ(parsed("+0.5us"), start_ns + 500);
    EXPECT_EQ(parsed("+7ns"), start_ns + 7);
    EXPECT_EQ(parsed("+2us"), start_ns + 2'000);
    EXPECT_EQ(parsed("+3"), start_ns + 3'000'000'000);
    EXPECT_EQ(parsed("+10000000000ns"), start_ns + 10'000'000'000);
    EXPECT_EQ(parsed("+5min"), start_ns + 300'000'000'000);
    EXPECT_EQ(parsed("+5m"), start_ns + 300'000'000'000);
    EXPECT_EQ(parsed("+1.5h"), start_ns + 5'400'000'000'000);
    EXPECT_EQ(parsed("+2d"), start_ns + 172'800'000'000'000);
}

TEST(TimeFormat, TakesTheDayAfterWhereMidnightIsCrossed) {
    constexpr int64_t late = 1'795'305'599'000'000'000; /* 2026-11-21 23:59:59 UTC */
    Result<int64_t> time = TimeFormat(TimeStyle::utc, late).parse("00:00:01");
    ASSERT_TRUE(time);
    EXPECT_EQ(*time, late + 2'000'000'000);
}

TEST(TimeFormat, RefusesNonsense) {
    for (const char* text : {"",
                             "+",
                             "+x",
                             "+1.5x",
                             "+9999999d",
                             "+18446744073709551615s",
                             "12",
                             "25:00:00",
                             "12:61:00",
                             "12:00:00.",
                             "2026-13-01 00:00:00",
                             "99999-01-01 00:00:00",
                             "12:00:00 tomorrow",
                             "+99999999999999999999s",
                             "+s",
                             "+.5s",
                             "+1.",
                             "+1.s",
                             "+1.5.5",
                             "+1.5.5s",
                             "+-1s",
                             "+ 1s",
                             "+1 s"})
        EXPECT_EQ(parsed(text), -1) << text;
}

std::string complaint(std::string_view text) {
    const Result<int64_t> time = TimeFormat(TimeStyle::utc, start_ns).parse(text);
    return time ? "" : time.error().message();
}

TEST(TimeFormat, SaysWhichDayOrYearThereIsNot) {
    EXPECT_NE(complaint("2026-02-30 00:00:00").find("no such day"), std::string::npos);
    EXPECT_NE(complaint("2026-02-29 12:00").find("no such day"), std::string::npos);
    EXPECT_EQ(complaint("2028-02-29 12:00"), "");
    EXPECT_NE(complaint("9999-01-01 00:00:00").find("out of range"), std::string::npos);
    EXPECT_NE(complaint("1969-12-31 00:00:00").find("out of range"), std::string::npos);
}

TEST(OutputBuffer, EscapesWhatSteersATerminal) {
    EXPECT_EQ(escaped("plain \xc3\xa9 \"\\\n\x1b[2J\x7f"), "plain \xc3\xa9 \\\"\\\\\\n\\x1b[2J\\x7f");
    EXPECT_EQ(escaped("\xc2\x9b\xff"), "\\xc2\\x9b\\xff");
    EXPECT_EQ(json_string("a\"\x01\xff"), "\"a\\\"\\u0001\xef\xbf\xbd\"");
}

} // namespace
} // namespace plumb
