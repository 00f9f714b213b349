// cmake-once
// What is written to files of tracefs and read from its folders: in a directory that looks like it.
#include "base/file.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/kernel/tracing_instances.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class TracefsFilesTest : public testing::Test {
protected:
    TracefsFilesTest() {
        char pattern[] = "/tmp/plumb-tracefs-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    ~TracefsFilesTest() override { std::filesystem::remove_all(root_); }

    std::string path(const std::string& name) const { return root_ + "/" + name; }
    void put(const std::string& name, const std::string& content) const {
        std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
        std::ofstream(path(name)) << content;
    }
    std::string content(const std::string& name) const {
        const auto text = read_small_file(path(name));
        return text ? *text : "(none)";
    }
    time_t changed(const std::string& name) const {
        struct stat info {};
        EXPECT_EQ(::stat(path(name).c_str(), &info), 0);
        return info.st_mtime;
    }
    void set_changed(const std::string& name, time_t time) const {
        const timespec times[2] = {{time, 0}, {time, 0}};
        EXPECT_EQ(::utimensat(AT_FDCWD, path(name).c_str(), times, 0), 0);
    }

    std::string root_;
};

/* ---- write_tracefs() ---- */

TEST_F(TracefsFilesTest, HoldWhatWasWrittenLastUnlessTheyAreLists) {
    put("set_event", "sched:*\n");
    put("dynamic_events", "p:others/f f\n");
    EXPECT_TRUE(write_tracefs(path("set_event"), "irq"));
    EXPECT_EQ(content("set_event"), "irq");
    EXPECT_TRUE(write_tracefs(path("set_event"), "x", false));
    EXPECT_EQ(content("set_event"), "x");
    EXPECT_TRUE(write_tracefs(path("dynamic_events"), "-:ours/g", true));
    EXPECT_EQ(content("dynamic_events"), "p:others/f f\n-:ours/g");
    EXPECT_TRUE(write_tracefs(path("set_event"), ""));
    EXPECT_EQ(content("set_event"), "");
}

TEST_F(TracefsFilesTest, ThatCanNotBeWrittenAreSaidWithTheReason) {
    const Status missing = write_tracefs(path("missing"), "1");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().number(), ENOENT);
    EXPECT_THAT(missing.error().message(), StartsWith("Could not open " + path("missing")));
    EXPECT_FALSE(std::filesystem::exists(path("missing")));
    /* Everything else is as before: a full disk refuses as the kernel does. */
    const Status full = write_tracefs("/dev/full", "1 2");
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().number(), ENOSPC);
    EXPECT_THAT(full.error().message(), StartsWith("Could not write \"1 2\" to /dev/full"));
}

/* ---- lists ---- */

TEST_F(TracefsFilesTest, ListTheEventsThatCanBeSwitchedOn) {
    const std::string ours = tracing_instance_name(7);
    for (const char* const name : {"sched/sched_switch", "sched/sched_waking", "irq/irq_handler_entry",
                                   "ftrace/function", "plumb_own/f", "probes/mine"})
        put("events/" + std::string(name) + "/enable", "0\n");
    put("events/" + ours + "/uprobe_f/enable", "0\n");
    put("events/sched/enable", "0\n");
    put("events/sched/filter", "none\n");
    put("events/sched/sched_old/format", "");
    put("events/enable", "0\n");
    put("events/header_page", "");
    const auto events = list_tracefs_events(root_);
    ASSERT_TRUE(events);
    std::vector<std::string> names;
    for (const TracefsEvent& event : *events)
        names.push_back(event.system + ":" + event.name);
    EXPECT_THAT(names, ElementsAre("irq:irq_handler_entry", "plumb_own:f", "probes:mine",
                                   "sched:sched_switch", "sched:sched_waking"));
    const auto none = list_tracefs_events(path("missing"));
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().message(), HasSubstr(path("missing/events")));
}

TEST_F(TracefsFilesTest, ListTheProbesThatSomebodyMade) {
    const auto listed = [&] {
        std::vector<std::string> names;
        for (const ListedProbe& probe : list_probes(root_))
            names.push_back(probe.name + " at " + probe.place);
        return names;
    };
    EXPECT_THAT(listed(), IsEmpty()); /* there is no such file */
    put("dynamic_events", "p:plumb_1_2/kprobe_f vfs_read arg1=%di\n"
                          "r4096:plumb_1_2/kretprobe_f vfs_read\n"
                          "nonsense\n"
                          "\n"
                          "p:others/g /bin/x:0x0000000000001234\n"
                          "e:h\n");
    EXPECT_THAT(listed(), ElementsAre("plumb_1_2/kprobe_f at vfs_read", "plumb_1_2/kretprobe_f at vfs_read",
                                      "others/g at /bin/x:0x0000000000001234", "h at "));
    put("dynamic_events", std::string(100000, '\n') + "p:a/b c\n"); /* more than a small file has */
    EXPECT_THAT(listed(), ElementsAre("a/b at c"));
}

/* ---- instances ---- */

TEST_F(TracefsFilesTest, OfAnInstanceHaveTheOptionsThatARecordingNeeds) {
    const std::vector<std::string> off = {"stacktrace", "userstacktrace", "block", "record-cmd",
                                          "record-tgid"};
    for (const std::string& option : off)
        put("one/options/" + option, "1\n");
    for (const char* const option : {"markers", "overwrite", "print-parent"})
        put("one/options/" + std::string(option), "0\n");
    set_own_options(path("one"));
    for (const std::string& option : off)
        EXPECT_EQ(content("one/options/" + option), "0") << option;
    EXPECT_EQ(content("one/options/markers"), "1");
    EXPECT_EQ(content("one/options/overwrite"), "0\n");
    EXPECT_EQ(content("one/options/print-parent"), "0\n");
    set_own_options(path("another")); /* a kernel without any of them */
    EXPECT_FALSE(std::filesystem::exists(path("another")));
}

TEST_F(TracefsFilesTest, OfAnInstanceThatIsStoppedKeepWhatTheBuffersHold) {
    const auto make = [&](const std::string& name) {
        const std::string folder = "instances/" + name;
        put(folder + "/tracing_on", "1\n");
        put(folder + "/events/" + name + "/enable", "1\n");
        put(folder + "/events/enable", "1\n");
        put(folder + "/set_event", "sched:sched_switch\n");
        return folder;
    };
    const std::string first = make("first"), second = make("second");
    set_changed(first, 0); /* as its maker left it */
    set_changed(second, 1000);
    stop_instance(root_, "first");
    stop_instance(root_, "second");
    for (const auto& [folder, name] : {std::pair(first, "first"), std::pair(second, "second")}) {
        EXPECT_EQ(content(folder + "/tracing_on"), "0");
        EXPECT_EQ(content(folder + "/events/" + name + "/enable"), "0");
        EXPECT_EQ(content(folder + "/events/enable"), "1\n");
        EXPECT_EQ(content(folder + "/set_event"), "sched:sched_switch\n");
    }
    EXPECT_LT(::time(nullptr) - changed(first), 100) << "its time begins where it was found";
    EXPECT_EQ(changed(second), 1000) << "and only once";
    stop_instance(root_, "missing");
    EXPECT_FALSE(std::filesystem::exists(path("instances/missing")));
}

TEST_F(TracefsFilesTest, OfAnInstanceAreMadeForOne) {
    const std::string made = path("made");
    {
        const auto lock = make_tracing_instance(made);
        ASSERT_TRUE(lock);
        EXPECT_EQ(changed("made"), 0) << "it was not found by anybody";
        struct stat info {};
        ASSERT_EQ(::stat(made.c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777, 0700u);
        const auto another = take_tracing_instance(made);
        ASSERT_FALSE(another);
        EXPECT_EQ(another.error().number(), EBUSY);
        EXPECT_EQ(another.error().message(), "Another plumb command has the tracing instance " + made + ".");
    }
    EXPECT_TRUE(take_tracing_instance(made));
    const auto twice = make_tracing_instance(made);
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().number(), EEXIST);
    EXPECT_THAT(twice.error().message(), StartsWith("Could not make the tracing instance " + made));
    const auto nowhere = make_tracing_instance(path("missing/made"));
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().number(), ENOENT);
    const auto missing = take_tracing_instance(path("missing"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().number(), ENOENT);
    EXPECT_THAT(missing.error().message(), StartsWith("Could not open " + path("missing")));
    put("file", "");
    EXPECT_EQ(take_tracing_instance(path("file")).error().number(), ENOTDIR);
}

/* ---- what killed recorders left ---- */

TEST_F(TracefsFilesTest, OfWhoIsGoneAreTakenAwayAndOthersAreNot) {
    const std::string gone = tracing_instance_name(1), taken = tracing_instance_name(2),
                      full = tracing_instance_name(3);
    for (const std::string& name : {gone, taken, full})
        std::filesystem::create_directories(path("instances/" + name));
    put("instances/" + full + "/tracing_on", "1"); /* no rmdir() takes it away */
    put("dynamic_events", "");
    TracefsLeftovers leftovers;
    EXPECT_TRUE(leftovers.empty());
    leftovers.instances = {gone, taken, full, tracing_instance_name(4)};
    leftovers.probes = {gone + "/a", taken + "/b", full + "/c"};
    const auto lock = take_tracing_instance(path("instances/" + taken));
    ASSERT_TRUE(lock);
    const Status removed = remove_tracefs_leftovers(root_, leftovers);
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().number(), ENOTEMPTY);
    EXPECT_THAT(removed.error().message(),
                StartsWith("Could not remove " + path("instances/" + full) + ", which a killed plumb left"));
    EXPECT_FALSE(std::filesystem::exists(path("instances/" + gone)));
    EXPECT_TRUE(std::filesystem::exists(path("instances/" + taken)));
    EXPECT_EQ(content("dynamic_events"), "-:" + gone + "/a-:" + full + "/c");
    leftovers.instances = {"file"};
    leftovers.probes.clear();
    put("instances/file", "");
    EXPECT_EQ(remove_tracefs_leftovers(root_, leftovers).error().number(), ENOTDIR);
    /* A probe that is not there any more is no trouble; that it can not be said to anybody is. */
    leftovers.instances.clear();
    leftovers.probes = {gone + "/a"};
    std::filesystem::remove(path("dynamic_events"));
    EXPECT_TRUE(remove_tracefs_leftovers(root_, leftovers));
    std::filesystem::create_directory(path("dynamic_events"));
    EXPECT_EQ(remove_tracefs_leftovers(root_, leftovers).error().number(), EISDIR);
}

TEST_F(TracefsFilesTest, AreLeftoversWhicheverOfTheirKindsThereIs) {
    TracefsLeftovers one;
    EXPECT_TRUE(one.empty());
    for (auto kind : {&TracefsLeftovers::instances, &TracefsLeftovers::probes, &TracefsLeftovers::kept,
                      &TracefsLeftovers::not_judged}) {
        TracefsLeftovers some;
        (some.*kind).push_back("x");
        EXPECT_FALSE(some.empty());
    }
}

TEST(TracingInstanceName, HasItsPartsInTheirOrder) {
    struct stat memory {};
    ASSERT_EQ(::stat("/dev/shm", &memory), 0);
    const std::string front = fmt::format("plumb_r{}_{:x}_{:x}_", ::getpid(), memory.st_dev, memory.st_ino);
    EXPECT_EQ(tracing_instance_name(0xabc), front + "0000000000000abc");
    EXPECT_THAT(tracing_instance_name(), StartsWith(front + "s"));
    EXPECT_EQ(tracing_instance_name().size(), front.size() + 17);
    for (const std::string& name :
         {tracing_instance_name(1), tracing_instance_name(), tracing_instance_name() + "_2"})
        EXPECT_TRUE(is_tracing_instance_name(name)) << name;
    for (const char* const name :
         {"", "plumb", "plumb_r", "plumb_r1_2_3_", "plumb_r1_2_3_000000000000000",
          "plumb_r1_2_g_0000000000000000", "plumb_r1_g_3_0000000000000000", "plumb_ra_2_3_0000000000000000",
          "plumb_1_2", "xplumb_r1_2_3_0000000000000000"})
        EXPECT_FALSE(is_tracing_instance_name(name)) << name;
    EXPECT_TRUE(is_tracing_instance_name("plumb_r1_2_3_0000000000000000"));
    EXPECT_TRUE(is_tracing_instance_name("plumb_n1_2_3"));
    EXPECT_TRUE(is_tracing_instance_name("plumb_n1_2_3_4"));
    EXPECT_FALSE(is_tracing_instance_name("plumb_n1_2_3x"));
}

} // namespace
} // namespace plumb
