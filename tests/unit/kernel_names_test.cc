// cmake-once
// What events, their fields and system calls are called, and which arguments of a call are texts: names and numbers that other
// tools know.
#include "consumerd/kernel/event_names.h"
#include "consumerd/kernel/syscall_arguments.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/syscall.h>

#include <optional>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;

TEST(KernelNames, OfEventsAreThoseOfLttng) {
    struct Case {
        const char *system, *name, *expected;
    };
    const Case cases[] = {
        {"syscalls", "sys_enter_openat", "syscall_entry_openat"},
        {"syscalls", "sys_exit_openat", "syscall_exit_openat"},
        {"raw_syscalls", "sys_enter", "sys_enter"},
        {"irq", "softirq_raise", "irq_softirq_raise"},
        {"timer", "hrtimer_init", "timer_hrtimer_init"},
        {"timer", "itimer_state", "timer_itimer_state"},
        {"timer", "tick_stop", "tick_stop"},
        {"kmem", "kmalloc", "kmem_kmalloc"},
        {"kmem", "kmalloc_node", "kmem_kmalloc_node"},
        {"kmem", "kfree", "kmem_kfree"},
        {"kmem", "mm_page_free", "kmem_mm_page_free"},
        {"power", "cpu_idle", "power_cpu_idle"},
        {"power", "clock_enable", "power_clock_enable"},
        {"power", "machine_suspend", "power_machine_suspend"},
        {"power", "wakeup_source_activate", "power_wakeup_source_activate"},
        {"power", "suspend_resume", "suspend_resume"},
        {"net", "netif_rx", "net_if_rx"},
        {"net", "net_dev_queue", "net_dev_queue"},
        {"skb", "kfree_skb", "skb_kfree"},
        {"skb", "consume_skb", "skb_consume"},
        {"compaction", "mm_compaction_begin", "compaction_begin"},
        {"printk", "console", "printk_console"},
        {"irq_vectors", "local_timer_entry", "x86_irq_vectors_local_timer_entry"},
        {"exceptions", "page_fault_kernel", "x86_exceptions_page_fault_kernel"},
        {"sched", "softirq_raise", "softirq_raise"},
    };
    for (const Case& one : cases)
        EXPECT_EQ(kernel_event_name(one.system, one.name), one.expected) << one.system;
}

TEST(KernelNames, OfFieldsAreLeftAloneOutsideOfTheScheduler) {
    for (const std::string each : {"", "prev_", "next_", "parent_", "child_", "old_"}) {
        EXPECT_EQ(kernel_field_name("sched", each + "pid"), each + "tid");
        EXPECT_EQ(kernel_field_name("signal", each + "pid"), each + "pid");
    }
    EXPECT_EQ(kernel_field_name("sched", "other_pid"), "other_pid");
    EXPECT_EQ(kernel_field_name("sched", "comm"), "comm");
}

TEST(KernelNames, OfFieldsThatAreSomethingElseAreOfOneSystem) {
    EXPECT_TRUE(is_io_flags("block", "rwbs"));
    EXPECT_FALSE(is_io_flags("block", "comm"));
    EXPECT_FALSE(is_io_flags("bcache", "rwbs"));
    EXPECT_FALSE(is_io_flags("bcache", "comm"));
    EXPECT_TRUE(is_read_as_number("irq", "vec"));
    EXPECT_FALSE(is_read_as_number("irq", "irq"));
    EXPECT_FALSE(is_read_as_number("irq_vectors", "vec"));
    EXPECT_FALSE(is_read_as_number("sched", "prio"));
    EXPECT_TRUE(is_syscall("syscalls"));
    EXPECT_FALSE(is_syscall("raw_syscalls"));
}

/* Calls that are younger than the headers have the same number on every processor. */
TEST(SyscallNumber, IsTheMachinesForOldAndYoungCalls) {
    const std::pair<const char*, std::uint32_t> numbers[] = {
        {"read", SYS_read},      {"execve", SYS_execve},  {"newstat", SYS_stat},    {"newlstat", SYS_lstat},
        {"stat", SYS_stat},      {"umount", SYS_umount2}, {"umount2", SYS_umount2}, {"fchmodat2", 452},
        {"setxattrat", 463},     {"getxattrat", 464},     {"listxattrat", 465},     {"removexattrat", 466},
        {"open_tree_attr", 467}, {"file_getattr", 468},   {"file_setattr", 469},
    };
    for (const auto& [name, number] : numbers)
        EXPECT_EQ(syscall_number(name), std::optional(number)) << name;
    for (const char* none : {"", "sys_read", "no_such_call", "newfstat_"})
        EXPECT_EQ(syscall_number(none), std::nullopt) << none;
}

std::vector<std::string> texts_of(const std::string& call, const std::vector<std::string>& fields) {
    std::string format =
        "name: x\nID: 1\nformat:\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n";
    for (const std::string& field : fields)
        format += "\tfield:" + field + ";\tsize:8;\tsigned:0;\n";
    std::vector<std::string> found;
    for (const TextArgument& each : text_arguments_of(call, format + "\nprint fmt: \"\"\n"))
        found.push_back(fmt::format("{} {}{}", each.index, each.name, each.is_list ? " list" : ""));
    return found;
}

TEST(TextArguments, AreWhereTheirRegistersAre) {
    for (int index = 0; index < 6; index++)
        EXPECT_THAT(texts_of("open", {fmt::format("const char * name;\toffset:{}", 16 + 8 * index)}),
                    ElementsAre(fmt::format("{} name", index)));
    for (const char* place : {"\toffset:64", "\toffset:15", "\toffset:8", "\toffset:0", "\toffset:x", ""})
        EXPECT_THAT(texts_of("open", {std::string("const char * name;") + place}), ElementsAre()) << place;
}

TEST(TextArguments, AreReadByTheKernelAndNoSecrets) {
    const std::vector<std::string> list = {"const char * filename;\toffset:16",
                                           "const char *const * argv;\toffset:24",
                                           "const char *const * envp;\toffset:32"};
    EXPECT_THAT(texts_of("execve", list), ElementsAre("0 filename", "1 argv list"));
    EXPECT_THAT(texts_of("execveat", list), ElementsAre("0 filename", "1 argv list"));
    EXPECT_THAT(texts_of("other", list), ElementsAre("0 filename"));
    const std::vector<std::string> data = {"const char * buf;\toffset:16",
                                           "const char * u_msg_ptr;\toffset:24",
                                           "const char * name;\toffset:32"};
    for (const char* call : {"write", "pwrite64", "mq_timedsend"})
        EXPECT_THAT(texts_of(call, data), ElementsAre("2 name")) << call;
    EXPECT_THAT(texts_of("open", data), ElementsAre("0 buf", "1 u_msg_ptr", "2 name"));
    const std::vector<std::string> filled = {"char * dev_name;\toffset:16", "char * dir_name;\toffset:24",
                                             "char * type;\toffset:32",     "char * name;\toffset:40",
                                             "char * filename;\toffset:48", "char *const * argv;\toffset:56"};
    EXPECT_THAT(texts_of("mount", filled), ElementsAre("0 dev_name", "1 dir_name", "2 type"));
    EXPECT_THAT(texts_of("umount", filled), ElementsAre("3 name"));
    EXPECT_THAT(texts_of("utime", filled), ElementsAre("4 filename"));
    EXPECT_THAT(texts_of("utimes", filled), ElementsAre("4 filename"));
    EXPECT_THAT(texts_of("execve", filled), ElementsAre());
    EXPECT_THAT(texts_of("open", {"const void * name;\toffset:16", "int fd;\toffset:24",
                                  "const struct stat * s;\toffset:32"}),
                ElementsAre());
}

} // namespace
} // namespace plumb
