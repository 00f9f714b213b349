// cmake-once
// A trace that can not be written is told about once when that begins and once when it is over, however the disk wavers.
#include "consumerd/drain/write_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

using namespace plumb;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

class WriteFailuresTest : public testing::Test {
protected:
    std::vector<std::string> lines;
    WriteFailures failures{[this](const std::string& line) { lines.push_back(line); }};
    const Error full = Error::from_errno(ENOSPC, "Could not write to x");
};

TEST_F(WriteFailuresTest, SaysNothingWhileAllIsWell) {
    failures.succeeded(second_ns);
    EXPECT_TRUE(lines.empty());
    EXPECT_TRUE(failures.verdict("t"));
    EXPECT_EQ(failures.cause(), "");
}

TEST_F(WriteFailuresTest, ADiskThatTakesEverySecondPacketIsOneLine) {
    for (uint64_t now = second_ns; now < 10 * second_ns; now += second_ns / 100) {
        failures.failed(full, 3, now);
        failures.succeeded(now + 1000);
    }
    EXPECT_THAT(lines, ElementsAre(HasSubstr("No space left on device")));
    EXPECT_EQ(failures.events(), 2700u);
}

TEST_F(WriteFailuresTest, ItIsOverWhenNothingHasFailedForAWhile) {
    failures.failed(full, 7, second_ns);
    for (uint64_t now = second_ns; now < 6 * second_ns; now += second_ns / 10)
        failures.succeeded(now);
    EXPECT_THAT(lines,
                ElementsAre(HasSubstr("No space left"), HasSubstr("7 events were lost from it meanwhile")));
    failures.failed(full, 5, 10 * second_ns);
    for (uint64_t now = 10 * second_ns; now < 20 * second_ns; now += second_ns / 10)
        failures.succeeded(now);
    EXPECT_THAT(lines.back(), HasSubstr(" 5 events were lost from it meanwhile"));
    EXPECT_EQ(lines.size(), 4u);
}

TEST_F(WriteFailuresTest, ADiskThatIsFullEveryFewSecondsDoesNotFillTheTerminal) {
    for (uint64_t now = second_ns; now < 600 * second_ns; now += second_ns / 10) {
        if (now / second_ns % 5 == 0)
            failures.failed(full, 1, now);
        else
            failures.succeeded(now);
    }
    EXPECT_LE(lines.size(), 6u);
}

TEST_F(WriteFailuresTest, TheVerdictHasTheCountAndTheFirstCause) {
    failures.failed(full, 7, 1);
    failures.failed(Error::from_errno(EROFS, "Could not write to y"), 5, 2);
    const Status verdict = failures.verdict("trace");
    ASSERT_FALSE(verdict);
    EXPECT_THAT(verdict.error().message(),
                HasSubstr("The trace in trace is not complete, 12 events are missing"));
    EXPECT_EQ(failures.cause(), "No space left on device");
}

} // namespace
