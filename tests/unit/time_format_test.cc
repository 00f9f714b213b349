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
    EXPECT_NE(complaint("2026-02-29 12:00:60").find("no such day"), std::string::npos);
    EXPECT_NE(complaint("2026-11-31 23:59:60").find("no such day"), std::string::npos);
    EXPECT_EQ(complaint("2028-02-29 12:00"), "");
    EXPECT_EQ(complaint("2028-02-29 23:59:60"), "");
    EXPECT_NE(complaint("9999-01-01 00:00:00").find("out of range"), std::string::npos);
    EXPECT_NE(complaint("1969-12-31 00:00:00").find("out of range"), std::string::npos);
}

/* To each limit, and not beyond it. */
TEST(TimeFormat, ReadsEachPartUpToItsLimit) {
    constexpr int64_t day = 86'400'000'000'000, second = 1'000'000'000, midnight = start_ns - start_ns % day;
    const auto is_error = [](std::string_view text) {
        return !TimeFormat(TimeStyle::utc, start_ns).parse(text);
    };
    EXPECT_EQ(parsed("12:34"), midnight + (12 * 3600 + 34 * 60) * second);
    EXPECT_EQ(parsed("00:00:00"), midnight);
    EXPECT_EQ(parsed("23:59:59.999999999"), midnight + day - 1);
    EXPECT_EQ(parsed("23:59:60"), midnight + day) << "a leap second";
    EXPECT_EQ(parsed("12:34:56.1"), midnight + (12 * 3600 + 34 * 60 + 56) * second + 100'000'000);
    EXPECT_EQ(parsed("12:34:56.12345678912"), midnight + (12 * 3600 + 34 * 60 + 56) * second + 123'456'789);
    EXPECT_EQ(parsed("1:2:3"), midnight + (3600 + 2 * 60 + 3) * second);
    EXPECT_EQ(parsed("1970-01-01 00:00:00"), 0);
    EXPECT_EQ(parsed("1970-01-01T00:00:01"), second);
    EXPECT_EQ(parsed("2200-12-31 23:59:59"), 7'289'654'399 * second);
    EXPECT_EQ(parsed("2026-11-30 00:00"), midnight + 9 * day);
    EXPECT_EQ(parsed("2026-12-31 00:00"), midnight + 40 * day);
    EXPECT_EQ(parsed("2026-1-1 0:0"), 1'767'225'600 * second);
    EXPECT_EQ(parsed("2026-11-21 23:59:60"), midnight + day);
    for (const char* const text : {"24:00",
                                   "23:60",
                                   "23:59:61",
                                   "2026-00-01 00:00",
                                   "2026-13-01 00:00",
                                   "2026-01-00 00:00",
                                   "2026-01-32 00:00",
                                   "2026-01-01",
                                   "2026-01-01 ",
                                   "2026-01-01_00:00",
                                   "2026-01-01  00:00",
                                   "2026-01 00:00",
                                   "2026 00:00",
                                   "2026-01-01 00",
                                   "1969-12-31 00:00",
                                   "2201-01-01 00:00",
                                   "x-01-01 00:00",
                                   "2026-x-01 00:00",
                                   "2026-01-x 00:00",
                                   "12:x",
                                   "12:34:x",
                                   "12:34:",
                                   "12:34:56,5",
                                   "12:34:56.5x",
                                   "12:34x",
                                   "-12:34",
                                   "4294967296:00",
                                   "2026-01-01-00:00"})
        EXPECT_TRUE(is_error(text)) << text;
}

TEST(TimeFormat, ReadsSpansToTheNanosecond) {
    const std::pair<const char*, int64_t> cases[] = {
        {"+0", 0},
        {"+0.000000001", 1},
        {"+0.0000000019", 1},
        {"+1.5ms", 1'500'000},
        {"+1.5us", 1'500},
        {"+1.9ns", 1},
        {"+1.5min", 90'000'000'000},
        {"+0.000000001m", 60},
        {"+1.000000001h", 3'600'000'003'600},
        {"+1.25d", 108'000'000'000'000},
        {"+1h", 3'600'000'000'000},
        {"+61s", 61'000'000'000},
    };
    for (const auto& [text, ns] : cases)
        EXPECT_EQ(parsed(text), start_ns + ns) << text;
    EXPECT_EQ(parsed("+1.5s", TimeStyle::monotonic), start_ns + 1'500'000'000);
    const TimeFormat monotonic(TimeStyle::monotonic, start_ns, 1'000);
    EXPECT_EQ(monotonic.parse("2.5").value_or(0), 2'500'001'000);
    EXPECT_EQ(monotonic.parse("2.5min").value_or(0), 150'000'001'000);
    EXPECT_EQ(monotonic.parse("+2.5").value_or(0), start_ns + 2'500'000'000);
    EXPECT_EQ(monotonic.parse("2026-11-21 00:00").has_value(),
              TimeFormat(TimeStyle::local, start_ns).parse("2026-11-21 00:00").has_value());
    EXPECT_FALSE(monotonic.parse("x"));
    EXPECT_FALSE(monotonic.parse("9223372037"));
    /* As far as 64 bits reach. */
    constexpr int64_t left = INT64_MAX - start_ns;
    EXPECT_EQ(parsed("+" + std::to_string(left) + "ns"), INT64_MAX);
    EXPECT_EQ(parsed("+" + std::to_string(left + 1) + "ns"), -1);
    EXPECT_EQ(parsed("+9223372036854775807s"), -1);
    EXPECT_EQ(parsed("+106751d"), -1);
}

/* A trace of one night: what is half a day and more before its begin is of the day after. */
TEST(TimeFormat, TakesTheNearestDayAndNeverADateForAnother) {
    constexpr int64_t second = 1'000'000'000, noon = 1'795'262'400 * second; /* 2026-11-21 12:00:00 UTC */
    const auto at = [](int64_t start, std::string_view text) {
        return TimeFormat(TimeStyle::utc, start).parse(text).value_or(-1);
    };
    EXPECT_EQ(at(noon, "00:00:00"), noon + 12 * 3600 * second);
    EXPECT_EQ(at(noon - 1, "00:00:00"), noon - 12 * 3600 * second);
    EXPECT_EQ(at(noon + 1, "00:00:00"), noon + 12 * 3600 * second);
    EXPECT_EQ(at(noon, "00:00:01"), noon - (12 * 3600 - 1) * second);
    EXPECT_EQ(at(noon, "23:59:59"), noon + (12 * 3600 - 1) * second);
    EXPECT_EQ(at(noon + 5 * 3600 * second, "2026-11-21 00:00:00"), noon - 12 * 3600 * second);
    EXPECT_EQ(at(noon + 5 * 3600 * second, "04:00"), noon + 16 * 3600 * second);
}

TEST(TimeFormat, ShowsDatesAndDifferencesOfAnySize) {
    EXPECT_EQ(shown({TimeStyle::utc, 0}, INT64_MAX, true), "2262-04-11 23:47:16.854775807");
    EXPECT_EQ(shown({TimeStyle::utc, 0}, INT64_MIN, true), "1677-09-21 00:12:43.145224192");
    EXPECT_EQ(shown({TimeStyle::utc, 0}, 0, true), "1970-01-01 00:00:00.000000000");
    EXPECT_EQ(shown({TimeStyle::utc, 0}, 1'000'000'000, true), "1970-01-01 00:00:01.000000000");
    EXPECT_EQ(shown({TimeStyle::utc, 0}, 9'876'543'210, true), "1970-01-01 00:00:09.876543210");
    EXPECT_EQ(shown({TimeStyle::seconds, 5}, 5, true), "+0.000000000");
    EXPECT_EQ(shown({TimeStyle::monotonic, 0, 5}, 5, true), "0.000000000");
    OutputBuffer out(-1);
    TimeFormat::put_difference(out, INT64_MAX, INT64_MIN);
    TimeFormat::put_difference(out, INT64_MIN, INT64_MAX);
    TimeFormat::put_difference(out, 3, 3);
    TimeFormat::put_difference(out, 1'999'999'999, 0);
    EXPECT_EQ(out.text(), "+18446744073.709551615-18446744073.709551615+0.000000000+1.999999999");
    /* One after the other, as a writer has it. */
    TimeFormat format(TimeStyle::utc, 0);
    OutputBuffer times(-1);
    for (const int64_t time : {999'999'999L, 1'000'000'000L, 1'000'000'001L, 999'999'999L}) {
        format.put_time(times, time);
        times.put(' ');
    }
    format.put_date_and_time(times, 86'400'000'000'000);
    EXPECT_EQ(times.text(), "00:00:00.999999999 00:00:01.000000000 00:00:01.000000001 00:00:00.999999999 "
                            "1970-01-02 00:00:00.000000000");
    TimeFormat machines(TimeStyle::monotonic, 0, 5);
    machines.set_monotonic_zero(7);
    EXPECT_EQ(shown(machines, 8), "0.000000001");
}

TEST(TimeFormat, SaysWhatAPointInTimeIs) {
    const Result<int64_t> time = TimeFormat(TimeStyle::utc, start_ns).parse("tomorrow");
    ASSERT_FALSE(time);
    EXPECT_EQ(
        time.error().message(),
        "`tomorrow` is not a point in time. Write 12:34:56.5, \"2026-01-31 12:34:56.5\", or +1.5s, +200ms, "
        "+5min, +1h or +2d from the start.");
    EXPECT_EQ(complaint("2201-01-01 00:00"),
              "`2201-01-01 00:00` is out of range: a trace knows the years 1970 to 2200.");
    EXPECT_EQ(complaint("2026-02-30 00:00"),
              "`2026-02-30 00:00` is not a point in time: its month has no such day.");
    EXPECT_TRUE(complaint("1969 00:00-").starts_with("`1969 00:00-` is not a point in time. Write "));
}

TEST(OutputBuffer, EscapesWhatSteersATerminal) {
    EXPECT_EQ(escaped("plain \xc3\xa9 \"\\\n\x1b[2J\x7f"), "plain \xc3\xa9 \\\"\\\\\\n\\x1b[2J\\x7f");
    EXPECT_EQ(escaped("\xc2\x9b\xff"), "\\xc2\\x9b\\xff");
    EXPECT_EQ(json_string("a\"\x01\xff"), "\"a\\\"\\u0001\xef\xbf\xbd\"");
}

} // namespace
} // namespace plumb
