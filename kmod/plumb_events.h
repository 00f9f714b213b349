/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For other modules: events of their own that `plumb record --kernel-by module` records, and callbacks at the kernel's.
 *
 *   struct __packed job { u32 number; u64 bytes; };
 *   static const struct plumb_event_field job_fields[] = { PLUMB_FIELD(u32, number), PLUMB_FIELD(u64, bytes) };
 *   static struct plumb_module_event job_done = PLUMB_MODULE_EVENT("mydriver", "mydriver_job", job_fields);   // as the trace calls it, so with your name in it
 *
 *   plumb_register_events(&job_done, 1);                      // when the module is loaded
 *   if (plumb_is_on(&job_done)) {                             // wherever it happens: a load, while nobody records it
 *           const struct job job = { number, bytes };
 *           plumb_record(&job_done, &job, sizeof(job));
 *   }
 *   plumb_unregister_events(&job_done, 1);                    // before it is unloaded: behind it nobody records it
 *
 * Built beside plumb.ko, with its Module.symvers in KBUILD_EXTRA_SYMBOLS (docs/module.md).
 */
#ifndef PLUMB_EVENTS_H
#define PLUMB_EVENTS_H

#include <linux/list.h>
#include <linux/types.h>
#include <plumb/abi/event.h>

/* One field of a payload, which is packed as <plumb/abi/event.h> says. */
struct plumb_event_field {
	const char *name;
	const char *type_name; /* as in C; of an array's elements */
	u8 type;               /* enum plumb_field_type */
	u8 size;
	u8 flags;
	u16 array_length;
};

#define PLUMB_FIELD(c_type, field_name)                                       \
	{                                                                     \
		.name = #field_name, .type_name = #c_type,                    \
		.type = PLUMB_FIELD_INTEGER, .size = sizeof(c_type),          \
		.flags = (c_type)-1 < (c_type)1 ? PLUMB_FIELD_SIGNED : 0,     \
	}
/* Bytes up to and including a NUL. */
#define PLUMB_STRING(field_name)                                              \
	{                                                                     \
		.name = #field_name, .type_name = "char",                     \
		.type = PLUMB_FIELD_STRING, .size = 1,                        \
	}

struct plumb_module_event {
	const char *system;
	const char *name;
	const struct plumb_event_field *fields;
	size_t field_count;
	struct hlist_head active; /* plumb.ko's: where it is recorded */
};

#define PLUMB_MODULE_EVENT(event_system, event_name, event_fields)             \
	{                                                                      \
		.system = (event_system), .name = (event_name),                \
		.fields = (event_fields), .field_count = ARRAY_SIZE(event_fields), \
	}

/* All or none. May sleep. -EEXIST: there is one of that name; -ENAMETOOLONG: a system of more than 31 characters, a name of more than
 * 63, a field's of more than 43; -E2BIG: more than PLUMB_EVENT_MAX_FIELDS, or arrays that no record holds; -EINVAL: what has no name, or a field
 * that is none of <plumb/abi/event.h>: without its type's name, of another size, with a flag beyond SIGNED and HEX, an ENUM; -ENOMEM. */
int plumb_register_events(struct plumb_module_event *events, size_t count);
/* Behind it nobody is at work with them. May sleep. */
void plumb_unregister_events(struct plumb_module_event *events, size_t count);

/* In any context, NMI too, where RCU is watching. */
static inline bool plumb_is_on(const struct plumb_module_event *event)
{
	return !hlist_empty(&event->active);
}

/* The same: a record into each channel that has the event. A payload that does not have the fields is left out by readers, as
 * damage. Preemption is off meanwhile; it does not sleep, and waits for nobody. From a callback in what it calls itself (the kernel's clock),
 * some ten are recorded for each record around them, and the others counted as missed hits. */
void plumb_record(const struct plumb_module_event *event, const void *payload, size_t bytes);

/* A callback at a tracepoint of the kernel, which is called as its own probes are: callback(private, what it gives). */
struct plumb_probe {
	const char *event; /* "sched:sched_switch" */
	void *callback;
	void *private;
};

/* All or none. May sleep. -ENOENT: there is no such event here. */
int plumb_register_probes(struct plumb_probe *probes, size_t count);
/* Behind it no callback runs. May sleep. */
void plumb_unregister_probes(struct plumb_probe *probes, size_t count);

#endif
