// Who has asked to be told that tracepoints are switched (plumb_watch_changes) is told, and wakes.
// cmake-link: plumb::tp-async_static kinds_c
#include "tests/fixtures/kinds_events.h"
#include "tests/support/tracepoint_fixture.h"

#include <plumb/control.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace plumb::test;

namespace {

uint32_t changes_of(const plumb_watch& watch) {
    return __atomic_load_n(&watch.changes, __ATOMIC_SEQ_CST);
}

// For at most five seconds. Whether it was woken, or has missed nothing before it slept.
bool wait_for_change(plumb_watch& watch, uint32_t seen) {
    const timespec limit = {5, 0};
    const long result = syscall(SYS_futex, &watch.changes, FUTEX_WAIT, seen, &limit, nullptr, 0);
    return (result == 0 || errno == EAGAIN) && changes_of(watch) != seen;
}

} // namespace

TEST_F(Tracepoint, tells_everybody_who_watches) {
    static plumb_watch first, second; // for as long as the process lives
    plumb_watch_changes(&first);
    plumb_watch_changes(&second);
    bool was_woken = false, was_on = false;
    const uint32_t seen = changes_of(first), seen_by_second = changes_of(second);
    std::thread watcher([&] {
        was_woken = wait_for_change(first, seen);
        was_on = plumb_enabled(kinds, number);
    });
    usleep(100'000); // until it sleeps
    on();
    watcher.join();
    EXPECT_TRUE(was_woken);
    EXPECT_TRUE(was_on);
    EXPECT_NE(changes_of(second), seen_by_second);

    const uint32_t seen_on = changes_of(first);
    apply(state_.remove(0));
    EXPECT_NE(changes_of(first), seen_on);
    EXPECT_FALSE(plumb_enabled(kinds, number));
}
