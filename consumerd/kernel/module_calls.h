/*
 * System calls, "syscalls:openat", for plumb.ko: what it is asked of each (<plumb/abi/kernel_probe.h>), and the descriptions of what it
 * records, which are those of tracefs, with names of flags and the strings that a call is given. tracefs tells which calls there are
 * and what they take; nothing is recorded by it.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_MODULE_CALLS_H
#define PLUMB_CONSUMERD_KERNEL_MODULE_CALLS_H

#include "base/result.h"
#include "consumerd/event/elf_events.h"
#include "consumerd/kernel/event_format.h"

#include <plumb/abi/kernel_probe.h>

#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct ModuleCall {
    std::string name; /* "sys_enter_openat" */
    EventDescription description;
    plumb_kernel_probe request; /* without an id */
    /* Of an entry with strings: those that could not be read then. All such are one event, late_text_event(). */
    std::optional<plumb_kernel_probe> late;
};

/* `name`: in events/syscalls. `format`: its text. `file_names`: strings, not their addresses. Nothing: it is no call here, or takes
 * what is no register. */
std::optional<ModuleCall> module_call(const std::string& name, const std::string& format, bool file_names);

struct ModuleCalls {
    std::vector<ModuleCall> all;       /* that the kernel has, in the order of their names */
    std::vector<std::string> left_out; /* names of others, whose numbers are not known here */
};
Result<ModuleCalls> module_calls(bool file_names);

} // namespace plumb

#endif
