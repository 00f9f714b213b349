/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's tracepoints that the module has probes for. events/stages.h makes them out of each of the kernel's own
 * headers (include/trace/events), so names and fields are those that tracefs has.
 */
#ifndef PLUMB_KMOD_KERNEL_EVENTS_H
#define PLUMB_KMOD_KERNEL_EVENTS_H

#include <linux/types.h>
#include <plumb/abi/event.h>

#include "plumb_events.h"

struct plumb_event_probe {
	const char *system;
	const char *name;
	void *probe; /* takes a struct plumb_active_event (kernel_channel.h), and what the tracepoint gives */
	const struct plumb_event_field *(*fields)(size_t *count);
};

/* One that can be recorded. */
struct plumb_known_event {
	u32 index;
	const char *system;
	const char *name;
	const struct plumb_event_field *fields;
	size_t field_count;
	const struct plumb_event_probe *probe; /* of a tracepoint of the kernel */
	struct tracepoint *tracepoint;
	struct plumb_module_event *own; /* of another module */
	unsigned int recordings;        /* in which it is on */
};

struct plumb_active_event;
struct tracepoint;

/* Around all that follows, and what becomes of recordings. */
extern struct mutex plumb_events_lock;
/* That of this index, and the first from it on, if there is one. */
struct plumb_known_event *plumb_find_event(u32 index);
struct plumb_known_event *plumb_next_event(unsigned long *index);
/* "sched:sched_switch"; NULL: the module has none of that name. Takes the lock. */
struct tracepoint *plumb_tracepoint_of(const char *event);
int plumb_switch_on(struct plumb_known_event *event, struct plumb_active_event *active);
/* Somebody may be at work with it until tracepoint_synchronize_unregister(). */
void plumb_switch_off(struct plumb_known_event *event, struct plumb_active_event *active);
/* Off wherever it is on, and nobody is at work with it. */
void plumb_leave_recordings(struct plumb_known_event *event);

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
