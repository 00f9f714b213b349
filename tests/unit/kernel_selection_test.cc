// cmake-once
// Which events and probes a session switches on for what was asked, and with which filters: in a directory that looks like
// tracefs.
#include "base/file.h"
#include "consumerd/kernel/kernel_session.h"
#include "tests/support/tracefs_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using test::format_of;
using test::TracefsFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/* Files that may not be written are refused to who is not root alone. */
class AsNobody {
public:
    AsNobody() { was_root_ = ::geteuid() == 0 && ::seteuid(65534) == 0; }
    ~AsNobody() {
        if (was_root_ && ::seteuid(0) != 0) ADD_FAILURE() << "root is not to be had again";
    }
    AsNobody(const AsNobody&) = delete;
    AsNobody& operator=(const AsNobody&) = delete;

private:
    bool was_root_ = false;
};

class KernelSelectionTest : public testing::Test {
protected:
    KernelSelectionTest() {
        folder_.add_cpu(0, {});
        put("set_event", "");
        put("tracing_on", "1\n");
        put("events/enable", "X\n");
        std::filesystem::remove_all(folder_.instance() + "/events/test");
        add("sched", "sched_switch", 1, "prev_pid", "next_pid");
        add("sched", "sched_waking", 2, "pid", "prio");
        add("irq", "irq_handler_entry", 3, "irq", "name");
        add("task", "task_newtask", 4, "pid", "clone_flags");
        add("task", "task_rename", 5, "pid", "oom_score_adj");
    }
    void put(const std::string& name, const std::string& content) const {
        const std::string path = folder_.instance() + "/" + name;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << content;
    }
    void add(const std::string& system, const std::string& name, int id, const std::string& first,
             const std::string& second) const {
        const std::string folder = "events/" + system + "/" + name;
        put(folder + "/format",
            format_of(name, std::to_string(id),
                      "\tfield:int " + first + ";\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char " + second +
                          "[4];\toffset:12;\tsize:4;\tsigned:1;\n"));
        put(folder + "/enable", "0\n");
        put(folder + "/filter", "none\n");
    }
    /* The kernel says this of the filter, whatever it is, since the event has other fields. */
    void refuse_filter(const std::string& name, const std::string& why) const {
        put("events/" + name + "/filter", why);
        std::filesystem::permissions(folder_.instance() + "/events/" + name + "/filter",
                                     static_cast<std::filesystem::perms>(0444));
    }
    std::string content(const std::string& name) const {
        const auto text = read_small_file(folder_.instance() + "/" + name);
        return text ? *text : "(none)";
    }
    std::string switched(const std::string& name) const {
        return content("events/" + name + "/enable") + " " + content("events/" + name + "/filter");
    }
    Status select(const std::vector<std::string>& patterns) {
        session_.reset();
        const std::string probes = folder_.root() + "/dynamic_events";
        if (std::filesystem::exists(probes)) std::filesystem::resize_file(probes, 0);
        auto session = KernelSession::adopt_in(folder_.root(), TracefsFolder::cookie);
        EXPECT_TRUE(session) << session.error().message();
        session_ = std::move(*session);
        std::vector<KernelSelector> selectors;
        for (const std::string& pattern : patterns)
            selectors.push_back(*KernelSelector::parse(pattern));
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.root())) {
            struct stat info {};
            EXPECT_EQ(::stat(entry.path().c_str(), &info), 0);
            if ((info.st_mode & 0222) != 0)
                ::chmod(entry.path().c_str(), S_ISDIR(info.st_mode) ? 0777 : 0666);
        }
        ::chmod(folder_.root().c_str(), 0777);
        const AsNobody nobody;
        return session_->select(selectors);
    }
    std::string refusal(const std::vector<std::string>& patterns) {
        const Status selected = select(patterns);
        return selected ? "" : selected.error().message();
    }
    /* With what is not in the trace in parentheses. */
    std::vector<std::string> events() const {
        std::vector<std::string> names;
        for (const KernelEvent& event : session_->events()) {
            const std::string name = event.system + ":" + event.raw_name;
            names.push_back(event.is_ours ? "(" + name + ")" : name);
        }
        return names;
    }

    TracefsFolder folder_;
    std::unique_ptr<KernelSession> session_;
};

TEST_F(KernelSelectionTest, SwitchesOnWhatIsAskedForAndWhatTellsOfThreads) {
    ASSERT_TRUE(select({"sched:*", "!sched:*waking"}));
    EXPECT_THAT(events(), ElementsAre("sched:sched_switch", "(task:task_newtask)", "(task:task_rename)"));
    EXPECT_EQ(switched("sched/sched_switch"), "1 none\n");
    EXPECT_EQ(switched("sched/sched_waking"), "0 none\n");
    EXPECT_EQ(switched("irq/irq_handler_entry"), "0\n none\n");
    EXPECT_EQ(switched("task/task_newtask"), "1 common_pid >= 0");
    EXPECT_EQ(switched("task/task_rename"), "1 common_pid >= 0");
    EXPECT_THAT(session_->notes(), IsEmpty());
    EXPECT_FALSE(session_->texts_problem());
}

TEST_F(KernelSelectionTest, CallsThatProbesOfProgramsMakeAreRecordedWhereTheyAreNamed) {
    int id = 20;
    for (const char* const name : {"enter_uprobe", "enter_uretprobe", "exit_uretprobe", "enter_read"})
        add("syscalls", std::string("sys_") + name, id++, "nr", "x");
    ASSERT_TRUE(select({"syscalls", "irq"}));
    EXPECT_THAT(events(), ElementsAre("syscalls:sys_enter_read", "irq:irq_handler_entry",
                                      "(task:task_newtask)", "(task:task_rename)"));
    ASSERT_TRUE(select({"syscalls:uretprobe", "syscalls:sys_enter_uprobe"}));
    EXPECT_THAT(events(),
                ElementsAre("syscalls:sys_enter_uretprobe", "syscalls:sys_exit_uretprobe",
                            "syscalls:sys_enter_uprobe", "(task:task_newtask)", "(task:task_rename)"));
    EXPECT_THAT(
        refusal({"syscalls:sys_*_uretprobe"}),
        AllOf(StartsWith("All that syscalls:sys_*_uretprobe matches are system calls that the kernel's own"),
              HasSubstr("`-k syscalls:uretprobe` records them.")));
}

TEST_F(KernelSelectionTest, OfThreadsIsInTheTraceWhereItIsAskedFor) {
    ASSERT_TRUE(select({"task:task_rename if pid > 3", "irq"}));
    EXPECT_THAT(events(), ElementsAre("task:task_rename", "irq:irq_handler_entry", "(task:task_newtask)"));
    EXPECT_EQ(switched("task/task_rename"), "1 pid > 3");
    ASSERT_TRUE(select({"*", "!task:task_rename"}));
    EXPECT_THAT(events(), ElementsAre("irq:irq_handler_entry", "sched:sched_switch", "sched:sched_waking",
                                      "task:task_newtask", "(task:task_rename)"));
    EXPECT_EQ(switched("task/task_rename"), "1 common_pid >= 0")
        << "not with the filter of those who left it out";
    std::filesystem::remove_all(folder_.instance() + "/events/task"); /* a kernel without them */
    ASSERT_TRUE(select({"irq"}));
    EXPECT_THAT(events(), ElementsAre("irq:irq_handler_entry"));
}

TEST_F(KernelSelectionTest, WhatNothingIsOfIsAnErrorThatAsksWhatIsMeant) {
    EXPECT_THAT(refusal({"nothing:*"}), AllOf(StartsWith("The kernel has no event nothing:*."),
                                              HasSubstr("`plumb list --kernel` shows what there is.")));
    EXPECT_THAT(refusal({"sched_waking"}), HasSubstr("Is it sched:sched_waking that is meant? `plumb list"));
    EXPECT_THAT(refusal({"x:sched_waking"}), HasSubstr("Is it sched:sched_waking that is meant?"));
    add("syscalls", "sys_enter_openat", 9, "dfd", "x");
    EXPECT_THAT(refusal({"openat"}), HasSubstr("Is it syscalls:openat that is meant?"));
    EXPECT_THAT(refusal({"irq", "!irq:*"}), HasSubstr("No event of the kernel is left to record."));
    EXPECT_THAT(refusal({"!irq:*"}), HasSubstr("No event of the kernel is left to record."));
}

/* ---- filters ---- */

TEST_F(KernelSelectionTest, JoinsWhatIsAskedOfOneEventSoThatEachAskerHasHis) {
    ASSERT_TRUE(select({"sched:sched_switch if prev_pid > 3", "sched:sched_waking if pid == 1",
                        "sched:sched_switch if next_pid > 4", "sched:sched_switch if prev_pid > 3",
                        "sched:sched_switch if prev_pid == 9"}));
    EXPECT_EQ(switched("sched/sched_switch"), "1 (prev_pid > 3) || (next_pid > 4) || (prev_pid == 9)");
    EXPECT_EQ(switched("sched/sched_waking"), "1 pid == 1");
    /* Who asks for all of it has all of it, whenever he asks. */
    ASSERT_TRUE(select({"sched:sched_switch if prev_pid > 3", "sched", "sched:sched_waking if pid == 1"}));
    EXPECT_EQ(switched("sched/sched_switch"), "1 0");
    EXPECT_EQ(switched("sched/sched_waking"), "1 0");
    EXPECT_THAT(events(), ElementsAre("sched:sched_switch", "sched:sched_waking", "(task:task_newtask)",
                                      "(task:task_rename)"));
}

TEST_F(KernelSelectionTest, KnowsOfWhichCallsTheNextExitMayBeThatOfALaterCall) {
    int id = 20;
    for (const char* const name :
         {"enter_openat", "exit_openat", "enter_execveat", "exit_execveat", "exit_execve"})
        add("syscalls", std::string("sys_") + name, id++, "flags", "ret");
    const std::string entry = "syscalls:sys_enter_openat", exit = "syscalls:sys_exit_openat";
    const auto split = [&](const std::vector<std::string>& patterns) {
        const Status selected = select(patterns);
        EXPECT_TRUE(selected) << (selected ? "" : selected.error().message());
        return session_->split_calls();
    };
    EXPECT_THAT(split({entry, exit}), IsEmpty());
    EXPECT_THAT(split({entry + " if flags & 0x40", exit}), IsEmpty());
    EXPECT_THAT(split({entry, exit + " if ret < 0"}), ElementsAre("openat")) << "seccomp's have no entry";
    EXPECT_THAT(split({"syscalls:openat if ret < 0"}), ElementsAre("openat"));
    EXPECT_THAT(split({entry + " if flags & 0x40", exit + " if common_pid == 5"}), IsEmpty());
    EXPECT_THAT(split({entry + " if flags & 0x40", exit + " if ret < 0"}), ElementsAre("openat"));
    EXPECT_THAT(split({entry + " if common_pid == 0x5", exit + " if common_pid == 0x5"}), IsEmpty());
    EXPECT_THAT(split({entry + " if common_pid == 5", exit + " if common_pid == 6"}), IsEmpty());
    EXPECT_THAT(split({entry + " if CPU == 1", exit + " if CPU == 1"}), ElementsAre("openat"));
    EXPECT_THAT(split({"syscalls:sys_enter_execveat if flags == 1", "syscalls:sys_exit_execve if ret == 0"}),
                ElementsAre("execveat"));
    const std::vector<std::string> calls{"syscalls:sys_enter_execveat", "syscalls:sys_exit_execveat"};
    EXPECT_THAT(split(calls), ElementsAre("execveat")) << "one that succeeds comes back from execve()";
    EXPECT_THAT(split({calls[0], calls[1], "syscalls:sys_exit_execve"}), IsEmpty());
}

/* The kernel takes such a filter, and nothing is recorded. */
TEST_F(KernelSelectionTest, RefusesToCompareAPointerOfTheProgramWithAText) {
    add("syscalls", "sys_enter_openat", 20, "flags", "x");
    put("events/syscalls/sys_enter_openat/format",
        format_of("sys_enter_openat", "20",
                  "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
                  "\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n"
                  "\tfield:char * buf;\toffset:24;\tsize:8;\tsigned:0;\n"
                  "\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n"));
    const std::string open = "syscalls:openat if ";
    for (const std::string filter :
         {"filename == \"/etc/passwd\"", "flags & 1 && filename~'/etc/*'", "(buf != \"x\")",
          "filename\t== \"/etc/passwd\"", "filename ==\t\"/etc/passwd\""})
        EXPECT_THAT(refusal({open + filter}),
                    AllOf(StartsWith("syscalls:sys_enter_openat if " + filter + ": for the kernel, "),
                          HasSubstr(".ustring compares the program's text")));
    for (const std::string filter : {"filename.ustring == \"/etc/passwd\"", "filename != 0", "flags == 1",
                                     "COMM == \"filename == 'x'\""})
        EXPECT_TRUE(select({open + filter})) << filter;
}

TEST_F(KernelSelectionTest, RecordsWithoutTheFilterWhatHasOtherFields) {
    refuse_filter("sched/sched_waking", "prev_pid > 3\n^\nparse_error: Field not found\n");
    ASSERT_TRUE(select({"sched:* if prev_pid > 3"}));
    EXPECT_EQ(content("events/sched/sched_switch/filter"), "prev_pid > 3");
    EXPECT_EQ(content("events/sched/sched_waking/enable"), "1");
    EXPECT_THAT(
        session_->notes(),
        ElementsAre("sched:* if prev_pid > 3: recorded without the filter, since not all of its fields are "
                    "there: sched:sched_waking."));
    EXPECT_EQ(
        refusal({"sched:sched_waking if prev_pid > 3"}),
        "The kernel does not take the filter of sched:sched_waking:\nprev_pid > 3\n^\nparse_error: Field not "
        "found \nIts fields are pid, prio; the syntax is that of ftrace's event filters.");
    refuse_filter("sched/sched_switch", "prev_pid > 3\n^\nparse_error: Field not found");
    EXPECT_THAT(
        refusal({"sched:* if prev_pid > 3"}),
        StartsWith(
            "None of the events that sched:* matches has the fields of the filter. The kernel does not "
            "take the filter of sched:sched_switch:\nprev_pid > 3"));
}

TEST_F(KernelSelectionTest, NamesSixOfTheEventsThatHaveOtherFields) {
    for (int i = 1; i <= 6; i++) {
        add("many", "e" + std::to_string(i), 100 + i, "a", "b");
        refuse_filter("many/e" + std::to_string(i), "Field not found");
    }
    ASSERT_TRUE(select({"[ms]*:[es]* if prev_pid > 3"}));
    EXPECT_THAT(session_->notes(),
                ElementsAre(HasSubstr("there: many:e1, many:e2, many:e3, many:e4, many:e5, many:e6.")));
    add("many", "e7", 107, "a", "b");
    refuse_filter("many/e7", "Field not found");
    ASSERT_TRUE(select({"[ms]*:[es]* if prev_pid > 3"}));
    EXPECT_THAT(session_->notes(), ElementsAre(HasSubstr("many:e5, many:e6 and 1 more.")));
}

TEST_F(KernelSelectionTest, SaysWhatTheKernelDoesNotTake) {
    refuse_filter("sched/sched_waking", "pid >\n    ^\nparse_error: Missing operand\n\n");
    EXPECT_THAT(
        refusal({"sched:sched_waking if pid >"}),
        StartsWith("The kernel does not take the filter of sched:sched_waking:\npid >\n    ^\nparse_error: "
                   "Missing operand \nIts fields are pid, prio;"));
    refuse_filter("sched/sched_waking", "");
    EXPECT_THAT(
        refusal({"sched:sched_waking if pid >"}),
        StartsWith("The kernel does not take the filter of sched:sched_waking:\npid > \nIts fields are"));
    std::filesystem::remove(folder_.instance() + "/events/irq/irq_handler_entry/format");
    EXPECT_THAT(refusal({"irq"}), HasSubstr("irq_handler_entry/format"));
}

/* ---- probes ---- */

class ProbeSelectionTest : public KernelSelectionTest {
protected:
    ProbeSelectionTest() {
        name_ = std::filesystem::path(folder_.instance()).filename();
        root("dynamic_events", "");
        root("kprobe_events", "");
    }
    void root(const std::string& name, const std::string& text) const { put("../../" + name, text); }
    std::string dynamic_events() const { return content("../../dynamic_events"); }
    /* As the kernel makes it with the probe. */
    void add_probe(const std::string& raw_name, int id) const {
        const std::string folder = "events/" + name_ + "/" + raw_name;
        put(folder + "/format", format_of(raw_name, std::to_string(id),
                                          "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"
                                          "\tfield:u64 arg1;\toffset:16;\tsize:8;\tsigned:0;\n"));
        put(folder + "/enable", "0\n");
        put(folder + "/filter", "none\n");
    }
    std::vector<std::string> shown() const {
        std::vector<std::string> names;
        for (const KernelEvent& event : session_->events())
            if (!event.is_ours) names.push_back(event.description.full_name());
        return names;
    }
    std::string name_;
};

TEST_F(ProbeSelectionTest, MakesEachProbeOnceInAGroupOfItsOwn) {
    add_probe("kprobe_f", 50);
    add_probe("kprobe_f_2", 51);
    add_probe("kretprobe_f", 52);
    ASSERT_TRUE(select({"kprobe:f", "kprobe:f", "kprobe:f(n=%di)", "kretprobe:f if arg1 > 3"}));
    EXPECT_EQ(dynamic_events(), "p:" + name_ + "/kprobe_f f" + "p:" + name_ + "/kprobe_f_2 f n=%di" +
                                    "r4096:" + name_ + "/kretprobe_f f");
    EXPECT_THAT(shown(), ElementsAre("kprobe_f", "kprobe_f", "kretprobe_f"));
    EXPECT_EQ(switched(name_ + "/kprobe_f"), "1 none\n");
    EXPECT_EQ(switched(name_ + "/kretprobe_f"), "1 arg1 > 3");
    EXPECT_THAT(session_->notes(), IsEmpty());
}

TEST_F(ProbeSelectionTest, CountsWhatItsProbesMissedAndNobodyElses) {
    add_probe("kprobe_f", 50);
    root("kprobe_events", "p:" + name_ + "/kprobe_f f\np:others/g g\n");
    root("kprobe_profile", "  kprobe_f    100    7\n  g   100  9\n");
    ASSERT_TRUE(select({"irq"}));
    EXPECT_EQ(session_->missed_probe_hits(), 0u); /* it has none */
    ASSERT_TRUE(select({"kprobe:f"}));
    EXPECT_EQ(session_->missed_probe_hits(), 7u);
    session_->leave_out_probe_hits(5);
    EXPECT_EQ(session_->missed_probe_hits(), 2u);
    session_->leave_out_probe_hits(5);
    EXPECT_EQ(session_->missed_probe_hits(), 0u);
    std::filesystem::remove(folder_.root() + "/kprobe_profile");
    EXPECT_EQ(session_->missed_probe_hits(), 0u);
}

/* In two libraries that are alike. */
class UserProbeSelectionTest : public ProbeSelectionTest {
protected:
    UserProbeSelectionTest() {
        root("uprobe_events", "");
        std::ofstream source(folder_.root() + "/code.s");
        source
            << ".globl f\n.type f,@function\nf: nop\nret\n.macro many n\n.globl g\\n\n.type g\\n,@function\n"
               "g\\n: push %rbp\n.endm\n.altmacro\n.set i,100\n.rept 101\nmany %i\n.set i,i+1\n.endr\n"
               ".pushsection .note.stapsdt,\"\",\"note\"\n.4byte 8,2f-1f,3\n.asciz \"stapsdt\"\n1: .8byte "
               "f,0,0\n"
               ".asciz \"s\"\n.asciz \"f\"\n.asciz \"8f@0(%rsp) 4@%eax\"\n2: .balign 4\n.popsection\n";
        source.close();
        const std::string command = fmt::format(
            "cd {} && cc -nostdlib -shared code.s -o liba.so && cp liba.so libb.so", folder_.root());
        EXPECT_EQ(std::system(command.c_str()), 0);
        add_probe("uprobe_f", 50);
        add_probe("uprobe_f_2", 51);
        add_probe("usdt_s_f", 52);
    }
};

TEST_F(UserProbeSelectionTest, TellsFunctionsOfOneNameApartByTheirFiles) {
    const std::string a = folder_.root() + "/liba.so", b = folder_.root() + "/libb.so";
    ASSERT_TRUE(select({"uprobe:" + a + ":f"}));
    EXPECT_THAT(shown(), ElementsAre("uprobe_f"));
    ASSERT_TRUE(select({"uprobe:" + a + ":f", "uprobe:" + a + ":f", "uprobe:" + b + ":f"}));
    EXPECT_THAT(shown(), ElementsAre("uprobe_liba.so:f", "uprobe_libb.so:f"));
    const std::string in = folder_.root() + "/in", deeper = in + "/in";
    std::filesystem::create_directories(deeper);
    for (const std::string& folder : {in, deeper})
        std::filesystem::copy_file(a, folder + "/liba.so");
    add_probe("uprobe_f_3", 53);
    const std::string outermost = std::filesystem::path(folder_.root()).filename();
    ASSERT_TRUE(select({"uprobe:" + a + ":f", "uprobe:" + in + "/liba.so:f", "uprobe:" + b + ":f"}));
    EXPECT_THAT(shown(),
                ElementsAre("uprobe_" + outermost + "/liba.so:f", "uprobe_in/liba.so:f", "uprobe_libb.so:f"));
    ASSERT_TRUE(select({"uprobe:" + in + "/liba.so:f", "uprobe:" + deeper + "/liba.so:f"}));
    EXPECT_THAT(shown(), ElementsAre("uprobe_" + outermost + "/in/liba.so:f", "uprobe_in/in/liba.so:f"));
    ASSERT_TRUE(
        select({"uprobe:" + a + ":f", "uprobe:" + a + ":f(arg1=%di)"})); /* one function, two probes */
    EXPECT_THAT(shown(), ElementsAre("uprobe_f", "uprobe_f"));
    ASSERT_TRUE(select({"uprobe:" + a + ":f", "usdt:" + b + ":s:f"}));
    EXPECT_THAT(shown(), ElementsAre("uprobe_f", "s:f"));
    EXPECT_EQ(refusal({"usdt:" + b + ":s:f", "!s:f"}), "No event of the kernel is left to record.")
        << "a marker is left out by its own name";
}

TEST_F(UserProbeSelectionTest, KnowsFloatingPointWhereTheMarkerSaysSo) {
    ASSERT_TRUE(select({"usdt:" + folder_.root() + "/liba.so:s:f"}));
    std::vector<std::string> types;
    for (const EventField& field : session_->events().front().description.fields)
        types.push_back(field.name + ": " + field.type_name());
    EXPECT_THAT(types, ElementsAre("__probe_ip: x64", "arg1: f64"));
    for (const auto& [field, type] : {std::pair("u32 arg1;\toffset:16;\tsize:4", "f32"),
                                      std::pair("u16 arg1;\toffset:16;\tsize:2", "u16"),
                                      std::pair("u32 arg2;\toffset:16;\tsize:4", "u32")}) {
        put("events/" + name_ + "/usdt_s_f/format",
            format_of("usdt_s_f", "52", std::string("\tfield:") + field + ";\tsigned:0;\n"));
        ASSERT_TRUE(select({"usdt:" + folder_.root() + "/liba.so:s:f"}));
        EXPECT_EQ(session_->events().front().description.fields[0].type_name(), type);
    }
    ASSERT_TRUE(select({"uprobe:" + folder_.root() + "/liba.so:f(arg1=%ax)"}));
    EXPECT_EQ(session_->events().front().description.fields[1].type_name(), "u64");
}

TEST_F(UserProbeSelectionTest, WarnsOfWhatManyProbesCost) {
    const std::string library = "uprobe:" + folder_.root() + "/liba.so:";
    for (int i = 100; i <= 200; i++)
        add_probe("uprobe_g" + std::to_string(i), i);
    ASSERT_TRUE(select({library + "g1*"}));
    EXPECT_THAT(session_->notes(), IsEmpty());
    EXPECT_EQ(shown().size(), 100u);
    ASSERT_TRUE(select({library + "g*"}));
    EXPECT_THAT(session_->notes(),
                ElementsAre(StartsWith(library + "g* stands for 101 probes; at the end, the kernel")));
}

TEST_F(ProbeSelectionTest, SaysWhichKindOfProbesTheKernelHasNot) {
    EXPECT_EQ(refusal({"uprobe:/bin/sh:main"}),
              "This kernel has no uprobes. It was built without CONFIG_UPROBE_EVENTS.");
    std::filesystem::remove(folder_.root() + "/kprobe_events");
    root("uprobe_events", "");
    EXPECT_EQ(refusal({"kretprobe:f"}),
              "This kernel has no kprobes. It was built without CONFIG_KPROBE_EVENTS.");
}

TEST_F(ProbeSelectionTest, SaysWhyTheKernelDoesNotTakeAProbe) {
    std::filesystem::remove(folder_.root() + "/dynamic_events");
    EXPECT_THAT(refusal({"kprobe:f"}),
                AllOf(StartsWith("The kernel does not take the probe kprobe:f"), HasSubstr("dynamic_events"),
                      HasSubstr("`grep NAME /proc/kallsyms`")));
    root("error_log", "[    1.5] trace_kprobe: error: Invalid register name\n  Command: p:" + name_ +
                          "/kprobe_f f a=%xx\n                                                   ^\n");
    EXPECT_THAT(refusal({"kprobe:f(a=%xx)"}),
                AllOf(StartsWith("The kernel does not take the probe kprobe:f(a=%xx): Invalid register name"),
                      HasSubstr("Arguments are written in the kernel's syntax")));
    /* What is wrong is no argument; or it is not said which. */
    root("error_log", "[    1.5] trace_kprobe: error: Invalid probed address\n  Command: p:" + name_ +
                          "/kprobe_f f a=%di\n");
    EXPECT_THAT(
        refusal({"kprobe:f(a=%di)"}),
        AllOf(StartsWith("The kernel does not take the probe kprobe:f(a=%di): Invalid probed address"),
              HasSubstr("`grep NAME /proc/kallsyms`")));
}

TEST_F(ProbeSelectionTest, TakesItsProbesAwayWithItself) {
    add_probe("kprobe_f", 50);
    add_probe("kprobe_g", 51);
    ASSERT_TRUE(select({"kprobe:f", "kprobe:g"}));
    root("dynamic_events", "");
    const Status full = session_->remove(); /* no rmdir() takes files away */
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message(),
                AllOf(StartsWith("Could not remove the tracing instance " + folder_.instance()),
                      HasSubstr("`rmdir " + folder_.instance() + "`")));
    EXPECT_EQ(dynamic_events(), "-:" + name_ + "/kprobe_f-:" + name_ + "/kprobe_g");
    EXPECT_EQ(content("tracing_on"), "0");
    EXPECT_EQ(content("events/enable"), "0");
    EXPECT_TRUE(session_->remove()) << "it was done";
    EXPECT_TRUE(std::filesystem::exists(folder_.instance()));
}

TEST_F(ProbeSelectionTest, IsNoErrorThatAProbeIsGoneAlready) {
    add_probe("kprobe_f", 50);
    for (const bool is_gone : {true, false}) {
        ASSERT_TRUE(select({"kprobe:f"}));
        std::filesystem::path kept = folder_.root() + "/kept";
        std::filesystem::create_directory(kept);
        for (const auto& each : std::filesystem::directory_iterator(folder_.instance()))
            std::filesystem::rename(each.path(), kept / each.path().filename());
        std::filesystem::remove(folder_.root() + "/dynamic_events");
        if (!is_gone) std::filesystem::create_directory(folder_.root() + "/dynamic_events");
        EXPECT_EQ(bool(session_->remove()), is_gone);
        EXPECT_FALSE(std::filesystem::exists(folder_.instance()));
        std::filesystem::rename(kept, folder_.instance());
        root("dynamic_events", "");
    }
}

} // namespace
} // namespace plumb
