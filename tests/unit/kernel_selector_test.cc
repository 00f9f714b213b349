// cmake-once
//
// Which events a selector on the command line means.
#include "consumerd/kernel/tracefs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plumb {
namespace {

using testing::HasSubstr;

KernelSelector selector_of(const std::string& text) {
    const Result<KernelSelector> selector = KernelSelector::parse(text);
    EXPECT_TRUE(selector) << (selector ? "" : selector.error().message());
    return selector ? *selector : KernelSelector{};
}

TEST(KernelSelector, MeansAllEventsOfASystem) {
    for (const std::string text : {"sched:*", "sched"}) {
        const KernelSelector selector = selector_of(text);
        EXPECT_EQ(selector.kind, KernelSelector::Kind::events);
        EXPECT_FALSE(selector.exclude);
        EXPECT_EQ(selector.system, "sched");
        EXPECT_EQ(selector.event, "*");
        EXPECT_EQ(selector.filter, "");
        EXPECT_TRUE(selector.matches("sched", "sched_switch")) << text;
        EXPECT_FALSE(selector.matches("sched_ext", "sched_ext_dump")) << text;
        EXPECT_FALSE(selector.matches("irq", "sched_switch")) << text;
    }
}

TEST(KernelSelector, HasGlobsForSystemAndEvent) {
    const KernelSelector selector = selector_of("s*:*_switch");
    EXPECT_TRUE(selector.matches("sched", "sched_switch"));
    EXPECT_FALSE(selector.matches("sched", "sched_waking"));
    EXPECT_FALSE(selector.matches("irq", "a_switch"));
    EXPECT_FALSE(selector_of("sched:sched_switch").matches("sched", "sched_switched"));
}

TEST(KernelSelector, LeavesOutWithAnExclamationMark) {
    const KernelSelector selector = selector_of("!sched:sched_stat_*");
    EXPECT_TRUE(selector.exclude);
    EXPECT_EQ(selector.system, "sched");
    EXPECT_TRUE(selector.matches("sched", "sched_stat_wait"));
    EXPECT_FALSE(selector.matches("sched", "sched_switch"));
    EXPECT_FALSE(selector_of("sched:x").exclude);
}

TEST(KernelSelector, MeansEntryAndExitOfASystemCall) {
    const KernelSelector selector = selector_of("syscalls:openat");
    EXPECT_TRUE(selector.matches("syscalls", "sys_enter_openat"));
    EXPECT_TRUE(selector.matches("syscalls", "sys_exit_openat"));
    EXPECT_FALSE(selector.matches("syscalls", "sys_enter_openat2"));
    EXPECT_FALSE(selector.matches("syscalls", "sys_enter_open"));
    EXPECT_FALSE(selector.matches("other", "sys_enter_openat"));
    EXPECT_TRUE(selector_of("syscalls:open*").matches("syscalls", "sys_exit_openat2"));
    EXPECT_TRUE(selector_of("syscalls").matches("syscalls", "sys_exit_openat"));
}

TEST(KernelSelector, MeansOnlyOneSideOfASystemCallByItsFullName) {
    const KernelSelector selector = selector_of("syscalls:sys_enter_openat");
    EXPECT_TRUE(selector.matches("syscalls", "sys_enter_openat"));
    EXPECT_FALSE(selector.matches("syscalls", "sys_exit_openat"));
    EXPECT_FALSE(selector_of("raw_syscalls:x").matches("raw_syscalls", "sys_enter_x"));
}

TEST(KernelSelector, NamesTheSymbolOfAProbe) {
    const KernelSelector entry = selector_of("kprobe:f");
    EXPECT_EQ(entry.kind, KernelSelector::Kind::kprobe);
    EXPECT_EQ(entry.event, "f");
    EXPECT_EQ(entry.file, "");
    EXPECT_EQ(selector_of("kretprobe:f").kind, KernelSelector::Kind::kretprobe);
}

TEST(KernelSelector, NamesFileAndSymbolOfAUserProbe) {
    const KernelSelector entry = selector_of("uprobe:/bin/x:main");
    EXPECT_EQ(entry.kind, KernelSelector::Kind::uprobe);
    EXPECT_EQ(entry.file, "/bin/x");
    EXPECT_EQ(entry.event, "main");
    const KernelSelector exit = selector_of("uretprobe:/opt/a:b/x:main");
    EXPECT_EQ(exit.kind, KernelSelector::Kind::uretprobe);
    EXPECT_EQ(exit.file, "/opt/a:b/x");
    EXPECT_EQ(exit.event, "main");
    /* Names in C++ have pairs of colons, files single ones; markers have one behind their provider. */
    const auto parts = [](const std::string& text) {
        const KernelSelector selector = selector_of(text);
        return selector.file + " " + selector.event;
    };
    EXPECT_EQ(parts("uprobe:x:f"), "x f");
    EXPECT_EQ(parts("uprobe:x:a::b"), "x a::b");
    EXPECT_EQ(parts("uprobe:x:a::b::c"), "x a::b::c");
    EXPECT_EQ(parts("uprobe:a:b:c"), "a:b c");
    EXPECT_EQ(parts("usdt:a:b:c"), "a b:c");
    EXPECT_EQ(parts("usdt:/bin/sh:b:c:d"), "/bin/sh b:c:d"); /* that is there */
    EXPECT_EQ(parts("uprobe:/bin/sh:b:c:d"), "/bin/sh b:c:d");
    EXPECT_EQ(parts("uprobe:/bin:b:c"), "/bin:b c"); /* no file, but a folder */
}

TEST(KernelSelector, HasAFilterBehindIf) {
    const KernelSelector selector = selector_of("sched:sched_switch if prev_pid > 3");
    EXPECT_EQ(selector.system, "sched");
    EXPECT_EQ(selector.event, "sched_switch");
    EXPECT_EQ(selector.filter, "prev_pid > 3");
    EXPECT_TRUE(selector.matches("sched", "sched_switch"));
    EXPECT_EQ(selector_of("kprobe:f if common_pid == 1").filter, "common_pid == 1");
}

TEST(KernelSelector, RefusesWhatNamesNoEvent) {
    for (const std::string text : {"",
                                   ":",
                                   "!",
                                   "!:",
                                   "sched:",
                                   ":x",
                                   "x if ",
                                   "x if   ",
                                   " if y",
                                   "!x if y",
                                   "uprobe:nofile",
                                   "uprobe",
                                   "uprobe::main",
                                   "uprobe:/bin/x:",
                                   "uretprobe:nofile",
                                   "!kprobe:f",
                                   "!uprobe:/bin/x:main",
                                   "kprobe:",
                                   "kprobe",
                                   "kretprobe",
                                   "sched:x if"}) {
        const Result<KernelSelector> selector = KernelSelector::parse(text);
        EXPECT_FALSE(selector) << '"' << text << '"';
        const std::string message = selector ? "" : selector.error().message();
        EXPECT_THAT(message, HasSubstr('"' + text + '"'));
    }
}

} // namespace
} // namespace plumb
