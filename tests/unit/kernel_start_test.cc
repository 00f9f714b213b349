// cmake-once
/* What the kernel is told to record of its own start, and when that can be taken. */
#include "consumerd/kernel/kernel_start.h"

#include "consumerd/kernel/tracefs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace plumb {
namespace {

class KernelStartTest : public testing::Test {
protected:
    KernelStartTest() {
        char pattern[] = "/tmp/plumb-start-XXXXXX";
        EXPECT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
        for (const char* event : {"sched/sched_switch", "sched/sched_waking", "task/task_newtask",
                                  "task/task_rename", "irq/irq_handler_entry", "syscalls/sys_enter_openat",
                                  "syscalls/sys_exit_openat", "syscalls/sys_enter_close"})
            write(std::string("events/") + event + "/enable", "0\n");
        write("set_event", "sched:sched_switch\n");
        write("tracing_on", "1\n");
        write("trace_clock", "local global [x86-tsc] mono\n");
    }
    ~KernelStartTest() override { std::filesystem::remove_all(root_); }

    void write(const std::string& name, const std::string& text) const {
        const std::filesystem::path path = root_ + "/" + name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    std::string parameters(const std::vector<std::string>& patterns, plumb_clock_mode mode = PLUMB_CLOCK_TSC,
                           uint64_t bytes = 4 << 20) const {
        std::vector<KernelSelector> selectors;
        for (const std::string& pattern : patterns)
            selectors.push_back(*KernelSelector::parse(pattern));
        const auto made = kernel_start_parameters(root_, selectors, mode, bytes);
        return made ? *made : made.error().message();
    }
    std::string found(plumb_clock_mode mode = PLUMB_CLOCK_TSC,
                      const std::string& line = "quiet trace_event=sched:") const {
        const auto start = KernelStart::find(root_, mode, line);
        return start ? "found" : start.error().message();
    }

    std::string root_;
};

constexpr const char* tasks = "task:";

TEST_F(KernelStartTest, NamesWholeSystemsWhereTheyAreChosen) {
    const auto of = [](const std::string& events,
                       const std::string& rest = "trace_clock=x86-tsc trace_buf_size=4096K") {
        return "trace_event=" + events + " " + rest;
    };
    EXPECT_EQ(parameters({"sched:*"}), of("sched:,task:"));
    EXPECT_EQ(parameters({"sched:sched_switch"}), of("sched:sched_switch,task:"));
    EXPECT_EQ(parameters({"sched:*", "irq:*"}), of("irq:,sched:,task:"));
    EXPECT_EQ(parameters({"sched:*", "!sched:sched_waking"}), of("sched:sched_switch,task:"));
    EXPECT_EQ(parameters({"task:task_rename"}), of(tasks)) << "both tell of names";
    EXPECT_EQ(parameters({"syscalls:openat"}),
              of("syscalls:sys_enter_openat,syscalls:sys_exit_openat,task:"));
    EXPECT_EQ(parameters({"sched:*", "irq:* if irq == 1", "kprobe:vfs_read"}), of("sched:,task:"))
        << "what has a filter, or is a probe, begins later";
    EXPECT_EQ(parameters({"irq:*"}, PLUMB_CLOCK_MONOTONIC, 1 << 20),
              of("irq:,task:", "trace_clock=mono trace_buf_size=1024K"));
    EXPECT_EQ(parameters({"irq:*"}, PLUMB_CLOCK_BOOTTIME, 1),
              of("irq:,task:", "trace_clock=boot trace_buf_size=64K"));
}

TEST_F(KernelStartTest, SaysWhatTheKernelCanNotRecord) {
    EXPECT_NE(parameters({"irq:* if irq == 1"}).find("None of the kernel's events"), std::string::npos);
    EXPECT_NE(parameters({"nothing:*"}).find("None of the kernel's events"), std::string::npos);
    EXPECT_NE(parameters({"irq:*"}, PLUMB_CLOCK_REALTIME).find("no clock of real time"), std::string::npos);
    for (int i = 0; i < 100; i++)
        write("events/long/a_long_name_" + std::to_string(i) + "/enable", "0\n");
    EXPECT_EQ(parameters({"long:*"}).find("no room"), std::string::npos);
    EXPECT_NE(parameters({"long:*", "!long:a_long_name_7"}).find("has no room for 100 events"),
              std::string::npos)
        << "with the two of threads counted as one system";
}

TEST_F(KernelStartTest, IsFoundWhereItCanBeJoined) {
    EXPECT_EQ(found(), "found");
    EXPECT_NE(found(PLUMB_CLOCK_TSC, "quiet").find("has no trace_event="), std::string::npos);
    EXPECT_NE(found(PLUMB_CLOCK_MONOTONIC).find("has the clock x86-tsc, and the recording mono"),
              std::string::npos);
    EXPECT_NE(found(PLUMB_CLOCK_REALTIME).find("has the clock x86-tsc, and the recording real"),
              std::string::npos);
    write("tracing_on", "0\n");
    EXPECT_NE(found().find("was ended, or taken, before"), std::string::npos);
    write("tracing_on", "1\n");
    write("set_event", "");
    EXPECT_NE(found().find("was ended, or taken, before"), std::string::npos);
    write("set_event", "a:b\n");
    write("trace_clock", "[local] mono\n");
    EXPECT_NE(found().find("has the clock local"), std::string::npos);
    write("trace_clock", "no brackets\n");
    EXPECT_NE(found().find("has the clock , and"), std::string::npos);
    std::filesystem::remove(root_ + "/tracing_on");
    EXPECT_NE(found().find("was ended, or taken, before"), std::string::npos);
}

/* Each page as long as it is, and the rest of it empty; and the machine's buffer as it was made. */
TEST_F(KernelStartTest, IsTakenWhole) {
    write("buffer_size_kb", "4096\n");
    write("trace", "");
    write("events/enable", "1");
    write("per_cpu/cpu0/trace_pipe_raw", std::string(4096, 'a') + std::string(100, 'b'));
    write("per_cpu/cpu0/stats",
          "entries: 1\noverrun: 3\ncommit overrun: 1\ndropped events: 2\nread events: 0\n");
    write("per_cpu/cpu3/trace_pipe_raw", "");
    write("per_cpu/cpu3/stats", "overrun: 0\n");
    auto start = KernelStart::find(root_, PLUMB_CLOCK_TSC, "trace_event=a:");
    ASSERT_TRUE(start);
    const Status taken = start->take({0, 3}, 4096);
    ASSERT_TRUE(taken) << taken.error().message();
    const KernelStart::Cpu* const first = start->of(0);
    ASSERT_NE(first, nullptr);
    ASSERT_EQ(first->pages.size(), 2u * 4096);
    EXPECT_EQ(first->pages[4096 + 99], std::byte{'b'});
    EXPECT_EQ(first->pages[4096 + 100], std::byte{0});
    EXPECT_EQ(first->lost, 6u);
    EXPECT_GT(first->until, 0u);
    ASSERT_NE(start->of(3), nullptr);
    EXPECT_TRUE(start->of(3)->pages.empty());
    EXPECT_GT(start->of(3)->until, 0u);
    EXPECT_EQ(start->of(1), nullptr);
    const auto content = [this](const char* name) {
        std::ifstream in(root_ + "/" + name);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(content("events/enable"), "0");
    EXPECT_EQ(content("trace_clock").substr(0, 5), "local");
    EXPECT_EQ(content("buffer_size_kb").substr(0, 4), "1408");
    EXPECT_EQ(content("tracing_on").substr(0, 1), "1");
    EXPECT_FALSE(start->take({7}, 4096)) << "there is no such buffer";
}

} // namespace
} // namespace plumb
