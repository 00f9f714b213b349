// SPDX-License-Identifier: GPL-2.0
/*
 * The events that can be recorded: tracepoints of the kernel, by probes made of its own headers, and those that other modules
 * bring along. Each has an index as long as it is there.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/xarray.h>
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/record.h>

#include "kernel_channel.h"
#include "kernel_events.h"
#include "plumb.h"

static void (*const systems[])(void (*take)(const struct plumb_event_probe *event)) = {
	plumb_sched_events, plumb_irq_events, plumb_signal_events, plumb_timer_events,
	plumb_task_events,  plumb_block_events, plumb_net_events, plumb_skb_events,
	plumb_tcp_events,   plumb_power_events, plumb_exceptions_events, plumb_raw_syscalls_events,
};

DEFINE_MUTEX(plumb_events_lock);
static DEFINE_XARRAY_ALLOC(known);
static u32 next_index; /* no other event gets that of one that has gone: who was told of it may ask for it yet */

/* Most take what the kernel has for itself alone. tracefs has them. */
static const char *const left_out[] = {
	"net_dev_xmit_timeout", "sched_move_numa", "sched_stick_numa", "sched_swap_numa",
	"sched_process_fork", /* ours has more, see events/fork.c */
	"tcp_destroy_sock", "tcp_probe", "tcp_rcv_space_adjust", "tcp_receive_reset",
};

static bool is_left_out(const struct plumb_event_probe *event)
{
	return event != &plumb_fork_event && match_string(left_out, ARRAY_SIZE(left_out), event->name) >= 0;
}

struct plumb_known_event *plumb_next_event(unsigned long *index)
{
	return xa_find(&known, index, U32_MAX, XA_PRESENT);
}

struct plumb_known_event *plumb_find_event(u32 index)
{
	return xa_load(&known, index);
}

static struct plumb_known_event *find_by_name(const char *system, const char *name)
{
	struct plumb_known_event *event;
	unsigned long index;

	xa_for_each(&known, index, event)
		if (!strcmp(event->system, system) && !strcmp(event->name, name))
			return event;
	return NULL;
}

static int add(struct plumb_known_event event)
{
	struct plumb_known_event *added = kmemdup(&event, sizeof(event), GFP_KERNEL);
	int error;

	if (!added)
		return -ENOMEM;
	error = xa_alloc_cyclic(&known, &added->index, added, xa_limit_31b, &next_index, GFP_KERNEL);
	if (error < 0)
		kfree(added);
	return min(error, 0); /* 1: they begin anew */
}

static int adding_error;

static void know(const struct plumb_event_probe *probe)
{
	struct plumb_known_event event = { .system = probe->system, .name = probe->name, .probe = probe };

	event.fields = probe->fields(&event.field_count);
	if (!is_left_out(probe) && !adding_error)
		adding_error = add(event);
}

static void know_tracepoint(struct tracepoint *tracepoint, void *data)
{
	struct plumb_known_event *event;
	unsigned long index;

	xa_for_each(&known, index, event)
		if (!strcmp(event->name, tracepoint->name))
			event->tracepoint = tracepoint;
}

static void forget(struct plumb_known_event *event)
{
	xa_erase(&known, event->index);
	kfree(event);
}

int plumb_start_kernel_events(void)
{
	struct plumb_known_event *event;
	unsigned long index;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(systems); i++)
		systems[i](know);
	know(&plumb_fork_event);
	if (adding_error) {
		plumb_stop_kernel_events();
		return adding_error;
	}
	for_each_kernel_tracepoint(know_tracepoint, NULL);
	xa_for_each(&known, index, event)
		if (!event->tracepoint) /* not compiled in */
			forget(event);
	return 0;
}

void plumb_stop_kernel_events(void)
{
	struct plumb_known_event *event;
	unsigned long index;

	xa_for_each(&known, index, event)
		kfree(event);
	xa_destroy(&known);
}

int plumb_switch_on(struct plumb_known_event *event, struct plumb_active_event *active)
{
	int error = 0;

	if (event->own)
		hlist_add_head_rcu(&active->node, &event->own->active);
	else
		error = tracepoint_probe_register(event->tracepoint, event->probe->probe, active);
	event->recordings += !error;
	return error;
}

void plumb_switch_off(struct plumb_known_event *event, struct plumb_active_event *active)
{
	if (event->own)
		hlist_del_rcu(&active->node);
	else
		tracepoint_probe_unregister(event->tracepoint, event->probe->probe, active);
	event->recordings--;
}

/* ---- of other modules ---- */

/* One that is cut might be another's, too. */
static int check_name(const char *name, size_t room)
{
	if (!name || !*name)
		return -EINVAL;
	return strnlen(name, room) < room ? 0 : -ENAMETOOLONG;
}

static bool is_integer_size(u8 size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* What no reader knows would be found with the first record, as damage, and who made it is not there any more. */
static bool is_good_field(const struct plumb_event_field *field)
{
	if (!field->type_name || (field->flags & ~(PLUMB_FIELD_SIGNED | PLUMB_FIELD_HEX)))
		return false;
	switch (field->type) {
	case PLUMB_FIELD_INTEGER:
	case PLUMB_FIELD_ARRAY:
	case PLUMB_FIELD_SEQUENCE:
		return is_integer_size(field->size);
	case PLUMB_FIELD_FLOAT:
		return field->size == 4 || field->size == 8;
	case PLUMB_FIELD_STRING:
	case PLUMB_FIELD_TEXT:
		return field->size == 1;
	default: /* and ENUM: labels have no place here */
		return false;
	}
}

/* Of any payload: a string may be its NUL alone, and of a text and a sequence there may be the count alone. */
static size_t least_bytes(const struct plumb_event_field *field)
{
	switch (field->type) {
	case PLUMB_FIELD_ARRAY:
		return (size_t)field->size * field->array_length;
	case PLUMB_FIELD_TEXT:
	case PLUMB_FIELD_SEQUENCE:
		return sizeof(u16);
	default:
		return field->size;
	}
}

static int check_own(const struct plumb_module_event *own)
{
	struct plumb_kernel_event *told;
	int error = check_name(own->system, sizeof(told->system));
	size_t bytes = PLUMB_RECORD_HEADER_BYTES;
	size_t i;

	if (!error)
		error = check_name(own->name, sizeof(told->name));
	if (!error && own->field_count > PLUMB_EVENT_MAX_FIELDS)
		error = -E2BIG;
	for (i = 0; i < own->field_count && !error; i++) {
		error = check_name(own->fields[i].name, sizeof(told->fields[i].name));
		if (!error && !is_good_field(&own->fields[i]))
			error = -EINVAL;
		bytes += least_bytes(&own->fields[i]);
	}
	return !error && bytes > PLUMB_RECORD_MAX_BYTES ? -E2BIG : error;
}

static int add_own(struct plumb_module_event *own)
{
	const struct plumb_known_event event = { .system = own->system, .name = own->name, .fields = own->fields,
						 .field_count = own->field_count, .own = own };
	const int error = check_own(own);

	if (error)
		return error;
	if (find_by_name(own->system, own->name))
		return -EEXIST;
	INIT_HLIST_HEAD(&own->active);
	return add(event);
}

static struct plumb_known_event *find_own(const struct plumb_module_event *own)
{
	struct plumb_known_event *event;
	unsigned long index;

	xa_for_each(&known, index, event)
		if (event->own == own)
			return event;
	return NULL;
}

void plumb_unregister_events(struct plumb_module_event *events, size_t count)
{
	size_t i;

	mutex_lock(&plumb_events_lock);
	for (i = 0; i < count; i++) {
		struct plumb_known_event *event = find_own(&events[i]);

		if (!event)
			continue;
		plumb_leave_recordings(event);
		forget(event);
	}
	mutex_unlock(&plumb_events_lock);
	/* Also of a recording that has just ended: it has switched the event off, and may not have waited yet. */
	tracepoint_synchronize_unregister();
}
EXPORT_SYMBOL_GPL(plumb_unregister_events);

int plumb_register_events(struct plumb_module_event *events, size_t count)
{
	int error = 0;
	size_t i;

	mutex_lock(&plumb_events_lock);
	for (i = 0; i < count && !error; i++)
		error = add_own(&events[i]);
	mutex_unlock(&plumb_events_lock);
	if (error)
		plumb_unregister_events(events, i - 1);
	return error;
}
EXPORT_SYMBOL_GPL(plumb_register_events);

notrace void plumb_record(const struct plumb_module_event *event, const void *payload, size_t bytes)
{
	const struct plumb_active_event *active;

	preempt_disable_notrace();
	hlist_for_each_entry_rcu_notrace(active, &event->active, node) {
		struct plumb_writing writing;

		if (!plumb_enter(&writing, active))
			continue;
		if (plumb_is_wanted(active, payload, bytes))
			plumb_put_payload(&writing, active->id, payload, bytes);
		plumb_leave(&writing);
	}
	preempt_enable_notrace();
}
EXPORT_SYMBOL_GPL(plumb_record);

struct tracepoint *plumb_tracepoint_of(const char *event)
{
	const char *colon = strchr(event, ':');
	char system[32];
	struct tracepoint *tracepoint;
	struct plumb_known_event *found;

	if (!colon || colon - event >= sizeof(system))
		return NULL;
	memcpy(system, event, colon - event);
	system[colon - event] = 0;
	mutex_lock(&plumb_events_lock);
	found = find_by_name(system, colon + 1);
	tracepoint = found ? found->tracepoint : NULL; /* behind the lock, a module's own event may be gone */
	mutex_unlock(&plumb_events_lock);
	return tracepoint;
}

void plumb_unregister_probes(struct plumb_probe *probes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		tracepoint_probe_unregister(plumb_tracepoint_of(probes[i].event), probes[i].callback, probes[i].private);
	tracepoint_synchronize_unregister();
}
EXPORT_SYMBOL_GPL(plumb_unregister_probes);

int plumb_register_probes(struct plumb_probe *probes, size_t count)
{
	int error = 0;
	size_t i;

	for (i = 0; i < count && !error; i++) {
		struct tracepoint *tracepoint = plumb_tracepoint_of(probes[i].event);

		error = tracepoint ? tracepoint_probe_register(tracepoint, probes[i].callback, probes[i].private) : -ENOENT;
	}
	if (error)
		plumb_unregister_probes(probes, i - 1);
	return error;
}
EXPORT_SYMBOL_GPL(plumb_register_probes);
