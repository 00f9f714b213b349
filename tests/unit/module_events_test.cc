// cmake-once
// The kernel's events by plumb.ko: what is taken of what the module tells of itself, which of it is chosen, what the module is
// asked for then, and what is said when it refuses. The module is one of this test's own: it answers by the system call that
// plumb.ko has; /proc/kallsyms and tracefs are files that lie in their place.
#include "consumerd/channel/channel_reader.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/kernel/module_events.h"
#include "tests/support/module_of_test.h"
#include "tests/support/replaced_syscall.h"
#include "tests/support/scratch_shm.h"

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asm/unistd.h>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <unistd.h>
#include <vector>

namespace {

plumb::test::Module* module_of_test = nullptr;
int signals_to_come = 0; /* while the module is asked */

long result_of(int error) {
    if (error == 0) return 0;
    errno = error;
    return -1;
}

} // namespace

std::optional<long> plumb::test::answer_call(long number, const long (&arguments)[6]) {
    if (number != PLUMB_SYSCALL || module_of_test == nullptr) return {};
    return result_of(static_cast<int>(
        module_of_test->open(arguments[0], *reinterpret_cast<plumb_descriptor_request*>(arguments[1]))));
}

extern "C" PLUMB_TEST_TAKES_ALL_ARGUMENTS int ioctl(int descriptor, unsigned long request, ...) noexcept {
    va_list list;
    va_start(list, request);
    void* const argument = va_arg(list, void*);
    va_end(list);
    if (module_of_test == nullptr || descriptor != module_of_test->descriptor) {
        const long arguments[6] = {descriptor, static_cast<long>(request), reinterpret_cast<long>(argument)};
        return static_cast<int>(plumb::test::raw_call(SYS_ioctl, arguments));
    }
    const unsigned operation = request & 0xff;
    const std::size_t bytes = request >> 16 & 0x3fff;
    if (static_cast<std::uint32_t>(request) != PLUMB_IOCTL(operation, bytes))
        return static_cast<int>(result_of(ENOTTY));
    if (signals_to_come > 0) return signals_to_come--, static_cast<int>(result_of(EINTR));
    return static_cast<int>(result_of(module_of_test->answer(operation, bytes, argument)));
}

namespace plumb {
namespace {

using test::event;
using test::field;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << content;
}

/* Folders of this process's own, once. */
bool has_own_kernel() {
    static const bool has = [] {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
            return false;
        for (const char* const place : {"/sys/kernel", "/sys/module"})
            if (::mount("tmpfs", place, "tmpfs", 0, "mode=0755") != 0) return false;
        write("/sys/kernel/symbols", "");
        return ::mount("/sys/kernel/symbols", "/proc/kallsyms", nullptr, MS_BIND, nullptr) == 0;
    }();
    return has;
}

class ModuleEventsTest : public testing::Test {
protected:
    void SetUp() override {
#if !defined(__x86_64__)
        GTEST_SKIP() << "plumb.ko is for x86-64";
#endif
        if (!has_own_kernel()) GTEST_SKIP() << "nothing may be mounted here";
        module_of_test = &module_;
        module_.events = {event("sched", "sched_switch", {field("prev_pid"), field("next_pid")}),
                          event("sched", "sched_wakeup", {field("pid")}),
                          event("task", "task_newtask", {field("pid")}),
                          event("task", "task_rename", {field("pid")}), event("net", "net_dev_xmit")};
        std::filesystem::create_directories("/sys/module/plumb");
        set_symbols({});
        const std::string tracing = "/sys/kernel/tracing";
        for (const char* const file : {"trace_clock", "set_event"})
            write(tracing + "/" + file, "");
        std::filesystem::create_directories(tracing + "/instances");
        for (const char* const call : {"sys_enter_openat", "sys_exit_openat", "sys_enter_close",
                                       "sys_enter_no_call", "sys_enter_uretprobe"})
            write(fmt::format("{}/events/syscalls/{}/format", tracing, call),
                  std::string("name: ") + call +
                      "\nID: 7\nformat:\n"
                      "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                      "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                      "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
                      "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
                      "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
                      "\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n");
    }
    void TearDown() override {
        module_of_test = nullptr;
        if (has_own_kernel()) std::filesystem::remove_all("/sys/module/plumb");
    }

    static void set_symbols(const std::vector<std::string>& functions) {
        std::ofstream file("/sys/kernel/symbols"); /* the same one, as /proc/kallsyms is */
        for (const std::string& name : functions)
            file << "ffffffff81000000 T " << name << "\n";
    }
    ModuleEvents open() {
        auto events = ModuleEvents::open();
        EXPECT_TRUE(events) << events.error().message();
        return std::move(*events);
    }
    static Status choose(ModuleEvents& events, const std::vector<std::string>& texts,
                         bool file_names = true) {
        std::vector<KernelSelector> selectors;
        for (const std::string& text : texts) {
            auto selector = KernelSelector::parse(text);
            EXPECT_TRUE(selector) << text;
            selectors.push_back(std::move(*selector));
        }
        return events.choose(selectors, file_names);
    }
    /* What is chosen, in its order; those for ourselves with a star. */
    std::vector<std::string> chosen(const std::vector<std::string>& texts, bool file_names = true) {
        ModuleEvents events = open();
        const Status done = choose(events, texts, file_names);
        if (!done) return {"- " + done.error().message()};
        std::vector<std::string> names;
        for (const ModuleEvent& each : events.chosen())
            names.push_back((each.is_ours ? "*" : "") + each.name);
        return names;
    }
    std::vector<std::string> notes(const std::vector<std::string>& texts) {
        ModuleEvents events = open();
        const Status done = choose(events, texts);
        EXPECT_TRUE(done) << done.error().message();
        return events.notes();
    }

    test::Module module_;
};

TEST_F(ModuleEventsTest, DescribesWhatTheModuleTells) {
    module_.events = {
        event("sched", "sched_process_fork",
              {field("parent_comm", PLUMB_FIELD_STRING, 1),
               field("parent_pid", PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_SIGNED), field("parent_tgid"),
               field("child_tgid"), field("address", PLUMB_FIELD_INTEGER, 8, PLUMB_FIELD_HEX),
               field("bytes", PLUMB_FIELD_ARRAY, 1, 0, 300), field("none", 0), field("newer", 255)}),
        event("irq", "softirq_entry"),
        event(std::string(32, 's'), std::string(64, 'n'), {field(std::string(44, 'f'))})};
    const ModuleEvents events = open();
    ASSERT_EQ(events.all().size(), 3U);
    const ModuleEvent& fork = events.all()[0];
    EXPECT_EQ(fork.description.full_name(), "sched:sched_process_fork");
    EXPECT_EQ(fork.description.log_level, PLUMB_DEBUG_SYSTEM);
    std::vector<std::string> fields;
    for (const EventField& each : fork.description.fields)
        fields.push_back(fmt::format("{} {} {}{}{} {}", each.name, static_cast<int>(each.type), each.size,
                                     each.is_signed ? " signed" : "", each.hex ? " hex" : "",
                                     each.array_length));
    EXPECT_THAT(fields, ElementsAre("parent_comm 4 1 0", "parent_tid 1 4 signed 0", "parent_pid 1 4 0",
                                    "child_pid 1 4 0", "address 1 8 hex 0", "bytes 6 1 300", "none 1 4 0",
                                    "newer 7 4 0"));
    EXPECT_EQ(events.all()[1].name, "softirq_entry");
    EXPECT_EQ(events.all()[1].description.name, "irq_softirq_entry") << "as in a trace of LTTng";
    EXPECT_EQ(events.all()[1].index, 1U);
    EXPECT_EQ(events.all()[2].system, std::string(32, 's')) << "without a NUL";
    EXPECT_EQ(events.all()[2].name, std::string(64, 'n'));
    EXPECT_EQ(events.all()[2].description.fields[0].name, std::string(44, 'f'));
}

TEST_F(ModuleEventsTest, WithMoreFieldsThanARecordHasIsLeftOut) {
    const std::vector<plumb_kernel_field> most(PLUMB_EVENT_MAX_FIELDS, field("f"));
    std::vector<plumb_kernel_field> more = most;
    more.push_back(field("f"));
    module_.events = {event("a", "more", more), event("a", "most", most)};
    const ModuleEvents events = open();
    ASSERT_EQ(events.all().size(), 1U);
    EXPECT_EQ(events.all()[0].name, "most");
    EXPECT_EQ(events.all()[0].index, 1U);
    EXPECT_EQ(events.all()[0].description.fields.size(), PLUMB_EVENT_MAX_FIELDS);
}

TEST_F(ModuleEventsTest, WhyTheModuleIsNotThereIsSaid) {
    const auto why = [] {
        const auto events = ModuleEvents::open();
        return events ? "" : events.error().message();
    };
    module_.not_opened = EPERM;
    EXPECT_THAT(why(), HasSubstr("Run as root, or with CAP_PERFMON."));
    module_.not_opened = EOPNOTSUPP;
    EXPECT_THAT(why(), HasSubstr("is an older one"));
    module_.not_opened = ENOMEM;
    EXPECT_THAT(why(), StartsWith("plumb.ko gives no events of the kernel"));
    EXPECT_THAT(why(), testing::Not(HasSubstr("older one")));
    module_.not_opened = 0;
    module_.errors[PLUMB_KERNEL_DESCRIBE] = EINVAL;
    EXPECT_THAT(why(), StartsWith("plumb.ko does not tell of its events"));
    std::filesystem::remove_all("/sys/module/plumb");
    EXPECT_THAT(why(), StartsWith("plumb.ko is not loaded."));
}

/* Those that tell the names of threads come along, unseen. */
TEST_F(ModuleEventsTest, PatternsChooseAndLeaveOut) {
    EXPECT_THAT(chosen({"sched:*"}),
                ElementsAre("sched_switch", "sched_wakeup", "*task_newtask", "*task_rename"));
    EXPECT_THAT(chosen({"sched:*", "!sched:sched_wakeup"}),
                ElementsAre("sched_switch", "*task_newtask", "*task_rename"));
    EXPECT_THAT(chosen({"!sched:sched_wakeup", "sched:*"}),
                ElementsAre("sched_switch", "sched_wakeup", "*task_newtask", "*task_rename"));
    EXPECT_THAT(chosen({"task:task_rename"}), ElementsAre("*task_newtask", "task_rename"));
    EXPECT_THAT(chosen({"net:*", "!nothing:*"}),
                ElementsAre("*task_newtask", "*task_rename", "net_dev_xmit"));
    EXPECT_THAT(chosen({"nothing:*"}),
                ElementsAre(StartsWith(
                    "- No event of plumb.ko matches 'nothing:*'; it has those of net, sched, task.")));
    EXPECT_THAT(chosen({"uprobe:/bin/sh:main"}),
                ElementsAre(HasSubstr("functions of the kernel, and not of programs")));
}

/* The tests of each chosen event's filter, as a number; none: -. */
TEST_F(ModuleEventsTest, FiltersAreJoined) {
    const auto filters = [this](const std::vector<std::string>& texts) {
        ModuleEvents events = open();
        const Status done = choose(events, texts);
        if (!done) return std::vector<std::string>{"- " + done.error().message()};
        std::vector<std::string> found;
        for (const ModuleEvent& each : events.chosen())
            if (!each.is_ours)
                found.push_back(each.name +
                                (each.filter ? fmt::format(" {}", each.filter->test_count) : " -"));
        return found;
    };
    EXPECT_THAT(filters({"sched:sched_switch if prev_pid > 1"}), ElementsAre("sched_switch 1"));
    EXPECT_THAT(filters({"sched:sched_switch if prev_pid > 1", "sched:* if next_pid == 3 && prev_pid == 4"}),
                ElementsAre("sched_switch 3", "sched_wakeup -"));
    EXPECT_THAT(filters({"sched:sched_switch if prev_pid > 1", "sched:sched_switch"}),
                ElementsAre("sched_switch -"));
    EXPECT_THAT(filters({"sched:sched_switch", "sched:* if pid == 1"}),
                ElementsAre("sched_switch -", "sched_wakeup 1"));
    EXPECT_THAT(filters({"sched:sched_switch", "!sched:*", "sched:sched_switch if next_pid == 1"}),
                ElementsAre("sched_switch 1"));
    EXPECT_THAT(filters({"syscalls:sys_enter_openat if filename ~ \"/etc/*\""}),
                ElementsAre("sys_enter_openat 1", "syscall_late_text -"));
    EXPECT_THAT(filters({"kprobe:vfs_read(n=%dx:u64) if n > 4096", "kprobe:vfs_read if COMM == \"cat\"",
                         "kprobe:vfs_read(n=%dx:u64) if n == 1", "kprobe:vfs_write if common_pid == 1",
                         "kprobe:vfs_write"}),
                ElementsAre("kprobe_vfs_read 2", "kprobe_vfs_read 1", "kprobe_vfs_write -"));
    EXPECT_THAT(filters({"sched:sched_switch if no == 1"}),
                ElementsAre(AllOf(HasSubstr("sched:sched_switch has no field no"),
                                  HasSubstr("the fields prev_pid, next_pid"))));
    EXPECT_THAT(
        filters({"sched:* if no == 1"}),
        ElementsAre(HasSubstr("None of the events that sched:* matches has the fields of the filter")));
    EXPECT_THAT(filters({"sched:* if prev_pid == \"a\""}),
                ElementsAre(HasSubstr("prev_pid is a number, and no text")));
    EXPECT_THAT(filters({"sched:* if prev_pid =="}), ElementsAre(HasSubstr("sched:*")));
    EXPECT_THAT(
        notes({"sched:* if next_pid == 3"}),
        ElementsAre(
            "sched:* if next_pid == 3: recorded without the filter, since not all of its fields are there: "
            "sched:sched_wakeup."));
    EXPECT_THAT(notes({"sched:* if next_pid == 3", "!sched:sched_wakeup"}), IsEmpty());
    ModuleEvents events = open();
    EXPECT_TRUE(choose(events, {"*:sys_exit_* if filename > 1"}) && events.split_calls().at(0) == "openat");
    EXPECT_TRUE(choose(events, {"syscalls:openat if common_pid == 1"}) && events.split_calls().empty());
}

TEST_F(ModuleEventsTest, AnotherChoiceTakesTheFirstOnesPlace) {
    ModuleEvents events = open();
    ASSERT_TRUE(choose(events, {"kprobe:vfs_read", "syscalls:*", "sched:*"}));
    EXPECT_THAT(events.notes(), testing::SizeIs(1));
    ASSERT_TRUE(choose(events, {"net:*"}));
    EXPECT_EQ(events.chosen().size(), 3U);
    EXPECT_THAT(events.notes(), IsEmpty());
}

TEST_F(ModuleEventsTest, ProbesAreThereOnceEach) {
    EXPECT_THAT(chosen({"kprobe:vfs_read", "kprobe:vfs_read", "kretprobe:vfs_read", "kprobe:vfs_write",
                        "kprobe:vfs_read(a=%di)", "kprobe:vfs_read(b=%di)"}),
                ElementsAre("kprobe_vfs_read", "kretprobe_vfs_read", "kprobe_vfs_write", "kprobe_vfs_read",
                            "kprobe_vfs_read", "*task_newtask", "*task_rename"));
}

/* The module takes the first of that name, which may be any. */
TEST_F(ModuleEventsTest, AProbeIsOfAFunctionThatIsTheOnlyOneOfItsName) {
    set_symbols({"one", "twice", "other", "twice"});
    EXPECT_EQ(chosen({"kprobe:one"}).front(), "kprobe_one");
    EXPECT_EQ(chosen({"kprobe:none"}).front(), "kprobe_none")
        << "of which the module says that there is none";
    EXPECT_THAT(chosen({"kprobe:one", "kprobe:twice"}).front(),
                StartsWith("- kprobe:twice: this kernel has 2 functions of that name."));
    EXPECT_EQ(chosen({"kprobe:0xffffffff81000000"}).size(), 3U);
}

TEST_F(ModuleEventsTest, SystemCallsAreChosenByTracefs) {
    EXPECT_THAT(chosen({"syscalls:*"}, false),
                ElementsAre("sys_enter_close", "sys_enter_openat", "sys_exit_openat", "*task_newtask",
                            "*task_rename"));
    EXPECT_THAT(chosen({"syscalls:sys_enter_openat"}),
                ElementsAre("sys_enter_openat", "syscall_late_text", "*task_newtask", "*task_rename"));
    EXPECT_THAT(chosen({"syscalls:*", "!syscalls:sys_*_openat"}, false),
                ElementsAre("sys_enter_close", "*task_newtask", "*task_rename"));
    EXPECT_THAT(chosen({"s*:*"}, false), testing::SizeIs(7)) << "of sched, too";
    EXPECT_THAT(chosen({"syscalls:uretprobe"}, false),
                ElementsAre("sys_enter_uretprobe", "*task_newtask", "*task_rename"));
    EXPECT_EQ(chosen({"sched", "syscalls:uretprobe", "!syscalls:*"}, false), chosen({"sched"}, false));
    EXPECT_THAT(chosen({"syscalls:nothing"}),
                ElementsAre(HasSubstr("No event of plumb.ko matches 'syscalls:nothing'")));
    const std::string unknown =
        "syscalls:sys_enter_no_call is not recorded: the number of that call is not known here.";
    EXPECT_THAT(notes({"syscalls:*"}), ElementsAre(StartsWith(unknown)));
    EXPECT_THAT(notes({"syscalls:openat"}), IsEmpty());
    EXPECT_THAT(notes({"syscalls:openat", "!syscalls:*"}), IsEmpty());
}

TEST_F(ModuleEventsTest, WhatOnlyTracefsHasIsSaidWhereTheKernelHasIt) {
    EXPECT_THAT(notes({"net:*"}), IsEmpty()) << "this kernel does not have it";
    set_symbols({"__traceiter_net_dev_xmit_timeout", "__traceiter_sched_move_numa",
                 "__traceiter_sched_stick_numa", "__traceiter_sched_swap_numa"});
    const auto said = [](const std::string& names, const char* them) {
        return ElementsAre(
            fmt::format("plumb.ko does not have, and so nothing records, {}: without --kernel-by module, "
                        "tracefs has {}.",
                        names, them));
    };
    EXPECT_THAT(notes({"net:*"}), said("net_dev_xmit_timeout", "it"));
    EXPECT_THAT(notes({"sched:*", "!sched:sched_stick_numa"}),
                said("sched_move_numa, sched_swap_numa", "them"));
    EXPECT_THAT(notes({"task:*"}), IsEmpty());
    EXPECT_THAT(notes({"kprobe:vfs_read"}), IsEmpty());
    EXPECT_THAT(chosen({"net:net_dev_xmit_timeout"}), ElementsAre(HasSubstr("No event of plumb.ko matches")));
}

class StartedModuleEvents : public ModuleEventsTest {
protected:
    StartedModuleEvents() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    Channel channel() {
        ChannelConfig config;
        config.subbuf_bytes = 4096;
        config.subbuf_count = 4;
        auto made = Channel::create(*directory_, config);
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    test::ScratchShm scratch_{32u << 20};
    Result<UserDirectory> directory_;
};

TEST_F(StartedModuleEvents, EachIsSwitchedOnUnderTheIdOfItsPlace) {
    ModuleEvents events = open();
    ASSERT_TRUE(choose(
        events, {"kprobe:vfs_read+0x10", "kretprobe:vfs_read", "syscalls:*openat", "sched:sched_wakeup"}));
    Channel made = channel();
    ASSERT_TRUE(events.attach(made));
    EXPECT_THAT(module_.asked, ElementsAre(fmt::format("channel {}", made.fd())));
    auto reader = ChannelReader::open(made.bytes());
    ASSERT_TRUE(reader);
    reader->scan_events();
    ASSERT_EQ(reader->events().size(), events.chosen().size());
    for (std::uint32_t i = 0; i < events.chosen().size(); i++)
        EXPECT_EQ(reader->find_event(PLUMB_EVENT_ID_FIRST + i)->description.full_name(),
                  events.chosen()[i].description.full_name());
    module_.asked.clear();
    ASSERT_TRUE(events.start());
    EXPECT_THAT(module_.asked, ElementsAre("probe vfs_read+16 flags 0 is 1", "probe vfs_read+0 flags 1 is 2",
                                           fmt::format("probe +{} flags 2 is 3", __NR_openat),
                                           fmt::format("probe +{} flags 3 is 4", __NR_openat),
                                           fmt::format("probe openat+{} flags 7 is 5", __NR_openat),
                                           "event 1 is 6", "event 2 is 7!", "event 3 is 8!", "begin"));
    module_.asked.clear();
    ASSERT_TRUE(events.stop());
    EXPECT_THAT(module_.asked, ElementsAre("end"));
    module_.missed = 77;
    EXPECT_EQ(events.missed_probe_hits(), 77U);
    module_.errors[PLUMB_KERNEL_MISSED] = ENOTTY;
    EXPECT_EQ(events.missed_probe_hits(), 0U);
}

TEST_F(StartedModuleEvents, FiltersAreThereBeforeTheirEvents) {
    ModuleEvents events = open();
    ASSERT_TRUE(
        choose(events, {"kprobe:vfs_read if COMM == \"cat\"", "sched:sched_wakeup if pid > 3 && pid < 7"}));
    Channel made = channel();
    ASSERT_TRUE(events.attach(made));
    module_.asked.clear();
    ASSERT_TRUE(events.start());
    EXPECT_THAT(module_.asked,
                ElementsAre("filter of 1, 1 tests", "probe vfs_read+0 flags 0 is 1", "filter of 2, 2 tests",
                            "event 1 is 2", "event 2 is 3!", "event 3 is 4!", "begin"));
    /* The second one: it has words that an older one does not know. */
    for (const int error : {ENOTTY, EINVAL}) {
        module_.errors = {{PLUMB_KERNEL_FILTER, error}};
        const Status older = events.start();
        ASSERT_FALSE(older);
        EXPECT_THAT(older.error().message(),
                    AllOf(HasSubstr("the filter of kprobe:"), HasSubstr("is an older one")));
    }
}

/* As where a recorder is stopped and goes on while it waits for another one. */
TEST_F(StartedModuleEvents, ASignalIsNoAnswer) {
    ModuleEvents events = open();
    ASSERT_TRUE(choose(events, {"sched:sched_wakeup if pid > 3"}));
    Channel made = channel();
    ASSERT_TRUE(events.attach(made));
    signals_to_come = 3;
    ASSERT_TRUE(events.start());
    module_.missed = 77;
    signals_to_come = 2;
    EXPECT_EQ(events.missed_probe_hits(), 77U);
    EXPECT_EQ(signals_to_come, 0);
}

/* First nobody: else it would be everybody where each of them has ended. */
TEST_F(StartedModuleEvents, OnlyThoseAreFollowedThatAreNamed) {
    ModuleEvents events = open();
    ASSERT_TRUE(events.follow({12, 999, 34}));
    EXPECT_THAT(module_.asked, ElementsAre("follow 0", "follow 12", "follow 999", "follow 34"));
    module_.asked.clear();
    ASSERT_TRUE(events.follow({}));
    EXPECT_THAT(module_.asked, ElementsAre("follow 0"));
    module_.errors = {{PLUMB_KERNEL_FOLLOW, ENOTTY}};
    const Status older = events.follow({12});
    ASSERT_FALSE(older);
    EXPECT_THAT(older.error().message(), HasSubstr("The module that is loaded is an older one"));
    module_.errors = {{PLUMB_KERNEL_FOLLOW, ENOMEM}};
    EXPECT_FALSE(events.follow({12}));
}

TEST_F(StartedModuleEvents, WhatTheModuleRefusesIsSaid) {
    ModuleEvents events = open();
    ASSERT_TRUE(choose(events, {"kprobe:vfs_read", "sched:sched_wakeup"}));
    Channel made = channel();
    const auto refused = [&](unsigned operation, int error, const auto& what) {
        module_.errors = {{operation, error}};
        const Status done = what();
        module_.errors.clear();
        return done ? "" : done.error().message();
    };
    const auto attach = [&] { return events.attach(made); };
    const auto start = [&] { return events.start(); };
    EXPECT_THAT(refused(PLUMB_KERNEL_CHANNEL, EBUSY, attach),
                StartsWith("plumb.ko does not take the channel"));
    EXPECT_THAT(refused(PLUMB_KERNEL_ENABLE, EBUSY, start),
                StartsWith("plumb.ko does not switch on sched:sched_wakeup"));
    EXPECT_THAT(refused(PLUMB_KERNEL_ENABLE, ENOENT, start), IsEmpty()) << "it has gone since";
    EXPECT_THAT(events.notes(), testing::Contains(StartsWith("sched:sched_wakeup is not recorded")));
    EXPECT_THAT(refused(PLUMB_KERNEL_BEGIN, EBUSY, start),
                StartsWith("plumb.ko does not begin the recording"));
    EXPECT_THAT(refused(PLUMB_KERNEL_END, EBUSY, [&] { return events.stop(); }),
                StartsWith("plumb.ko does not end the recording"));
    const std::pair<int, const char*> of_probes[] = {
        {ENOENT, "kprobe:vfs_read: this kernel has no function of that name."},
        {EADDRNOTAVAIL, "kprobe:vfs_read: this kernel has no function of that name."},
        {EINVAL, "kprobe:vfs_read: the kernel lets nobody probe there."},
        {EILSEQ, "kprobe:vfs_read: the kernel lets nobody probe there."},
        {E2BIG, "kprobe:vfs_read: plumb.ko has 1000 probes for one recording, and these are more."},
        {ENOTTY, "kprobe:vfs_read: the plumb.ko that is loaded knows no probes."},
        {EPERM, "kprobe:vfs_read: plumb.ko takes probes from root"},
        {EIO, "plumb.ko does not take the probe kprobe:vfs_read"}};
    for (const auto& [error, said] : of_probes)
        EXPECT_THAT(refused(PLUMB_KERNEL_PROBE, error, start), StartsWith(said)) << error;
}

} // namespace
} // namespace plumb
