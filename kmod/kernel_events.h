/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's tracepoints that the module has probes for. events/stages.h makes them out of each of the kernel's own
 * headers (include/trace/events), so names and fields are those that tracefs has.
 */
#ifndef PLUMB_KMOD_KERNEL_EVENTS_H
#define PLUMB_KMOD_KERNEL_EVENTS_H

#include <linux/types.h>
#include <plumb/abi/event.h>

struct plumb_event_field {
	const char *name;
	const char *type_name; /* as in C; of an array's elements */
	u8 type; /* enum plumb_field_type */
	u8 size;
	u8 flags;
	u16 array_length;
};

struct plumb_event_probe {
	const char *system;
	const char *name;
	void *probe; /* takes a struct plumb_active_event (kernel_channel.h), and what the tracepoint gives */
	const struct plumb_event_field *(*fields)(size_t *count);
};

/* sched_process_fork, with the processes of both threads. */
extern const struct plumb_event_probe plumb_fork_event;

/* Each calls `take` for its events. */
void plumb_block_events(void (*take)(const struct plumb_event_probe *event));
void plumb_exceptions_events(void (*take)(const struct plumb_event_probe *event));
void plumb_irq_events(void (*take)(const struct plumb_event_probe *event));
void plumb_net_events(void (*take)(const struct plumb_event_probe *event));
void plumb_power_events(void (*take)(const struct plumb_event_probe *event));
void plumb_raw_syscalls_events(void (*take)(const struct plumb_event_probe *event));
void plumb_sched_events(void (*take)(const struct plumb_event_probe *event));
void plumb_signal_events(void (*take)(const struct plumb_event_probe *event));
void plumb_skb_events(void (*take)(const struct plumb_event_probe *event));
void plumb_task_events(void (*take)(const struct plumb_event_probe *event));
void plumb_tcp_events(void (*take)(const struct plumb_event_probe *event));
void plumb_timer_events(void (*take)(const struct plumb_event_probe *event));

#endif
