/*
 * What the events of the kernel and their fields are called in a trace: as LTTng's kernel tracer calls them, since
 * that is what Trace Compass and its users look for.
 *
 * Source: the *_MAP macros of lttng-modules' instrumentation headers, and Trace Compass's event layout for
 * lttng-modules 2.9 and later.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_EVENT_NAMES_H
#define PLUMB_CONSUMERD_KERNEL_EVENT_NAMES_H

#include <string>

namespace plumb {

bool is_syscall(const std::string& system);

/* ("irq", "softirq_entry") -> "irq_softirq_entry" */
std::string kernel_event_name(const std::string& system, const std::string& name);

/* ("sched", "prev_pid") -> "prev_tid": what the scheduler calls a pid is the number of a thread. */
std::string kernel_field_name(const std::string& system, const std::string& name);

/* Whether the field has to be a plain number though the kernel names its values: Trace Compass reads it as one, and
 * ends its analysis at a label. */
bool is_read_as_number(const std::string& system, const std::string& name);

/* Whether the field is text that says what a block request is ("WS"), which LTTng has as a number. */
bool is_io_flags(const std::string& system, const std::string& name);

} // namespace plumb

#endif
