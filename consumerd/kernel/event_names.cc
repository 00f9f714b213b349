#include "consumerd/kernel/event_names.h"

#include <set>
#include <string_view>

namespace plumb {
namespace {

/* Names of `system` that begin with `start` get `instead` there. The first that fits counts. */
struct Renaming {
    std::string_view system, start, instead;
};

constexpr Renaming renamings[] = {
    {"syscalls", "sys_enter_", "syscall_entry_"},
    {"syscalls", "sys_exit_", "syscall_exit_"},
    {"irq", "softirq_", "irq_softirq_"},
    {"timer", "hrtimer_", "timer_hrtimer_"},
    {"timer", "itimer_", "timer_itimer_"},
    {"kmem", "kmalloc", "kmem_kmalloc"},
    {"kmem", "kfree", "kmem_kfree"},
    {"kmem", "mm_page_", "kmem_mm_page_"},
    {"power", "cpu_", "power_cpu_"},
    {"power", "clock_", "power_clock_"},
    {"power", "machine_suspend", "power_machine_suspend"},
    {"power", "wakeup_source_", "power_wakeup_source_"},
    {"net", "netif_", "net_if_"},
    {"skb", "kfree_skb", "skb_kfree"},
    {"skb", "consume_skb", "skb_consume"},
    {"compaction", "mm_compaction_", "compaction_"},
    {"printk", "console", "printk_console"},
    {"irq_vectors", "", "x86_irq_vectors_"},
    {"exceptions", "page_fault_", "x86_exceptions_page_fault_"},
};

} // namespace

bool is_syscall(const std::string& system) {
    return system == "syscalls";
}

std::string kernel_event_name(const std::string& system, const std::string& name) {
    for (const Renaming& each : renamings)
        if (system == each.system && name.starts_with(each.start))
            return std::string(each.instead) + name.substr(each.start.size());
    return name;
}

std::string kernel_field_name(const std::string& system, const std::string& name) {
    static const std::set<std::string> thread_ids = {"pid",        "prev_pid",  "next_pid",
                                                     "parent_pid", "child_pid", "old_pid"};
    if (system != "sched" || !thread_ids.contains(name)) return name;
    return name.substr(0, name.size() - 3) + "tid";
}

bool is_io_flags(const std::string& system, const std::string& name) {
    return system == "block" && name == "rwbs";
}

bool is_read_as_number(const std::string& system, const std::string& name) {
    return system == "irq" && name == "vec";
}

} // namespace plumb
