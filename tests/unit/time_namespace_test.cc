// cmake-once
// Time is the machine's, in whatever time namespace it is asked for.
#include "base/processes.h"
#include "base/time_namespace.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

std::uint64_t shown_ns(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * second_ns + static_cast<std::uint64_t>(now.tv_nsec);
}

/* Whether `is_right` in a child whose clocks are shifted so; nothing: that may not be done here. */
std::optional<bool> in_namespace(const std::string& offsets, const std::function<bool()>& is_right) {
    const pid_t child = ::fork();
    if (child == 0) {
        constexpr int new_time = 0x00000080; /* CLONE_NEWTIME */
        if (::unshare(new_time) != 0) ::_exit(2);
        std::ofstream file("/proc/self/timens_offsets");
        file << offsets << std::flush;
        if (!file.good()) ::_exit(2);
        const pid_t inner = ::fork();
        if (inner == 0) ::_exit(is_right() ? 0 : 1);
        int status = 0;
        ::waitpid(inner, &status, 0);
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return {};
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What a child says that asks for the first time: what is found out once stays. */
struct Times {
    std::uint64_t monotonic = 0, boottime = 0, started = 0;
};
Times times_of(std::uint32_t process_id) {
    return {machine_time_ns(CLOCK_MONOTONIC), boottime_now_ns(),
            process_start_boottime_ns(process_id).value_or(0)};
}
Times asked_by_child(std::uint32_t process_id) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const Times times = times_of(process_id);
        (void)!::write(ends[1], &times, sizeof(times));
        ::_exit(0);
    }
    Times times;
    EXPECT_EQ(::read(ends[0], &times, sizeof(times)), static_cast<ssize_t>(sizeof(times)));
    ::waitpid(child, nullptr, 0);
    for (const int end : ends)
        ::close(end);
    return times;
}

/* The first of these tests: nobody has asked yet. */
TEST(TimeNamespace, TimesAreTheMachinesInAShiftedOne) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Times before = asked_by_child(self);
    ASSERT_NE(before.started, 0u);
    const auto is_shortly_behind = [](std::uint64_t time, std::uint64_t earlier) {
        return time >= earlier && time < earlier + 100 * second_ns;
    };
    for (const char* offsets :
         {"monotonic 100000 5\nboottime 500000 7\n", "monotonic 3 0\nboottime -1 0\n"}) {
        const auto is_right = in_namespace(offsets, [&] {
            const Times inside = times_of(self);
            const auto own = own_time_offsets(), expected = parse_time_offsets(offsets);
            return own && own->boottime_ns == expected->boottime_ns &&
                   own->monotonic_ns == expected->monotonic_ns &&
                   is_shortly_behind(inside.monotonic, before.monotonic) &&
                   is_shortly_behind(inside.boottime, before.boottime) &&
                   is_shortly_behind(inside.started + second_ns, before.started + second_ns - 20'000'000) &&
                   inside.started < before.started + 20'000'000 && is_same_process(self, inside.started) &&
                   !is_same_process(self, inside.started - 1);
        });
        if (!is_right) GTEST_SKIP() << "no time namespace may be made here";
        EXPECT_TRUE(*is_right) << offsets;
    }
}

TEST(TimeNamespace, OffsetsAreReadToTheNanosecond) {
    const auto both =
        parse_time_offsets("monotonic           86400         7\nboottime            -3600 999999999\n");
    ASSERT_TRUE(both);
    EXPECT_EQ(both->monotonic_ns, 86'400'000'000'007);
    EXPECT_EQ(both->boottime_ns, -3'600'000'000'000 + 999'999'999);
    const auto none = parse_time_offsets("monotonic 0 0\nboottime 0 0\n");
    ASSERT_TRUE(none);
    EXPECT_EQ(none->monotonic_ns, 0);
    EXPECT_EQ(none->boottime_ns, 0);
    for (const char* text : {"", "monotonic 1 2\n", "monotonic 1 2\nboottime 3\n",
                             "boottime 1 2\nmonotonic 3 4\n", "monotonic x 2\nboottime 3 4\n"})
        EXPECT_FALSE(parse_time_offsets(text)) << text;
}

TEST(TimeNamespace, ClocksThatNothingShiftsAreAsTheyAre) {
    const TimeOffsets offsets = own_time_offsets().value_or(TimeOffsets{});
    for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC, CLOCK_BOOTTIME}) {
        const std::uint64_t shift =
            clock == CLOCK_MONOTONIC  ? static_cast<std::uint64_t>(offsets.monotonic_ns)
            : clock == CLOCK_BOOTTIME ? static_cast<std::uint64_t>(offsets.boottime_ns)
                                      : 0;
        const std::uint64_t before = shown_ns(clock) - shift, told = machine_time_ns(clock),
                            behind = shown_ns(clock) - shift;
        EXPECT_GE(told, before) << clock;
        EXPECT_LE(told, behind) << clock;
    }
}

} // namespace
} // namespace plumb
