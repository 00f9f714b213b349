// SPDX-License-Identifier: GPL-2.0
/*
 * Which kernel events go into which channel: PLUMB_OPERATION_KERNEL_EVENTS, see <plumb/abi/kernel_events.h>.
 *
 * Each descriptor has its own channel and its own events. A tracepoint's probe is registered once for each descriptor in
 * which the event is on; what it is registered with lives until no probe can be at work any more.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>
#include <plumb/abi/record.h>

#include "kernel_channel.h"
#include "kernel_events.h"
#include "plumb.h"

static void (*const systems[])(void (*take)(const struct plumb_event_probe *event)) = {
	plumb_sched_events, plumb_irq_events, plumb_signal_events, plumb_timer_events,
	plumb_task_events,  plumb_block_events, plumb_net_events, plumb_skb_events,
	plumb_tcp_events,   plumb_power_events, plumb_exceptions_events, plumb_raw_syscalls_events,
};

/* An event that this kernel has, and what is needed to have it recorded. */
struct known_event {
	const struct plumb_event_probe *probe;
	struct tracepoint *tracepoint;
};

static struct known_event *known;
static size_t known_count;

struct recording {
	struct mutex lock;
	struct plumb_kernel_channel_state *channel;
	struct plumb_active_event **active; /* by index of `known`; NULL: off */
};

static void know_tracepoint(struct tracepoint *tracepoint, void *data)
{
	size_t i;

	for (i = 0; i < known_count; i++)
		if (!strcmp(known[i].probe->name, tracepoint->name))
			known[i].tracepoint = tracepoint;
}

/* Some are not compiled in. */
static void leave_out_missing(void)
{
	size_t from, to = 0;

	for (from = 0; from < known_count; from++)
		if (known[from].tracepoint)
			known[to++] = known[from];
	known_count = to;
}

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

static void count_event(const struct plumb_event_probe *event)
{
	known_count += !is_left_out(event);
}

static void know_event(const struct plumb_event_probe *event)
{
	if (!is_left_out(event))
		known[known_count++].probe = event;
}

int plumb_start_kernel_events(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(systems); i++)
		systems[i](count_event);
	count_event(&plumb_fork_event);
	known = kvcalloc(known_count, sizeof(*known), GFP_KERNEL);
	if (!known)
		return -ENOMEM;
	known_count = 0;
	for (i = 0; i < ARRAY_SIZE(systems); i++)
		systems[i](know_event);
	know_event(&plumb_fork_event);
	for_each_kernel_tracepoint(know_tracepoint, NULL);
	leave_out_missing();
	return 0;
}

void plumb_stop_kernel_events(void)
{
	kvfree(known);
}

static void describe_field(const struct plumb_event_field *field, struct plumb_kernel_event *event)
{
	struct plumb_kernel_field *to;

	if (event->field_count == PLUMB_EVENT_MAX_FIELDS)
		return;
	to = &event->fields[event->field_count++];
	strscpy(to->name, field->name, sizeof(to->name));
	to->type = field->type;
	to->size = field->size;
	to->flags = strchr(field->type_name, '*') ? PLUMB_FIELD_HEX : field->flags;
	to->array_length = field->array_length;
}

/* As they are packed, see events/pack.h. */
static void describe_fields(const struct plumb_event_probe *probe, struct plumb_kernel_event *event)
{
	static const struct plumb_event_field io_flags = { "rwbs", "u32", PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_HEX, 0 };
	const struct plumb_event_field *fields;
	size_t count, i;

	fields = probe->fields(&count);
	for (i = 0; i < count; i++) {
		struct plumb_event_field field = fields[i];

		if (!strcmp(field.name, io_flags.name)) {
			describe_field(&io_flags, event);
			field.name = "rwbs_text";
		}
		describe_field(&field, event);
	}
}

static long describe(struct plumb_kernel_event __user *user)
{
	struct plumb_kernel_event *event;
	long error = 0;
	u32 index;

	if (get_user(index, &user->index))
		return -EFAULT;
	if (index >= known_count)
		return -ENOENT;
	index = array_index_nospec(index, known_count);
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return -ENOMEM;
	event->index = index;
	strscpy(event->system, known[index].probe->system, sizeof(event->system));
	strscpy(event->name, known[index].probe->name, sizeof(event->name));
	describe_fields(known[index].probe, event);
	if (copy_to_user(user, event, sizeof(*event)))
		error = -EFAULT;
	kfree(event);
	return error;
}

static long take_channel(struct recording *recording, const struct plumb_kernel_channel __user *user)
{
	struct plumb_kernel_channel request;
	struct plumb_kernel_channel_state *channel;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	if (request.reserved)
		return -EINVAL;
	if (recording->channel)
		return -EBUSY;
	channel = plumb_open_kernel_channel(request.descriptor);
	if (IS_ERR(channel))
		return PTR_ERR(channel);
	/* Seen by poll() and read(), which take no lock. */
	smp_store_release(&recording->channel, channel);
	return 0;
}

static long enable(struct recording *recording, const struct plumb_kernel_switch *request)
{
	struct plumb_active_event *active;
	int error;

	if (request->event_id < PLUMB_EVENT_ID_FIRST || request->event_id > U16_MAX)
		return -EINVAL;
	if (!recording->channel)
		return -ENOTCONN;
	if (recording->active[request->index])
		return -EBUSY;
	active = kmalloc(sizeof(*active), GFP_KERNEL_ACCOUNT);
	if (!active)
		return -ENOMEM;
	active->channel = recording->channel;
	active->id = request->event_id;
	/* Who runs where is of everybody; and without it, the others are not whole. */
	active->of_recorder_too = !strcmp(known[request->index].probe->system, "sched");
	error = tracepoint_probe_register(known[request->index].tracepoint, known[request->index].probe->probe, active);
	if (error) {
		kfree(active);
		return error;
	}
	recording->active[request->index] = active;
	return 0;
}

/* Each keeps its place until no probe can be at work: one wait for all of them. */
static void disable_range(struct recording *recording, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++)
		if (recording->active[i])
			tracepoint_probe_unregister(known[i].tracepoint, known[i].probe->probe, recording->active[i]);
	tracepoint_synchronize_unregister();
	for (i = from; i < to; i++) {
		kfree(recording->active[i]);
		recording->active[i] = NULL;
	}
}

static long disable(struct recording *recording, u32 index)
{
	if (!recording->active[index])
		return -ENOENT;
	disable_range(recording, index, index + 1);
	return 0;
}

static long begin_or_end(struct recording *recording, bool is_begin)
{
	if (!recording->channel)
		return -ENOTCONN;
	plumb_open_to_writers(recording->channel, is_begin);
	if (!is_begin)
		tracepoint_synchronize_unregister(); /* and with that, for all probes that have not seen it */
	return 0;
}

static long switch_event(struct recording *recording, unsigned int operation, const void __user *argument)
{
	struct plumb_kernel_switch request;

	if (copy_from_user(&request, argument, sizeof(request)))
		return -EFAULT;
	if (request.index >= known_count)
		return -ENOENT;
	request.index = array_index_nospec(request.index, known_count);
	return operation == PLUMB_KERNEL_ENABLE ? enable(recording, &request) : disable(recording, request.index);
}

static long recording_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct recording *recording = file->private_data;
	void __user *user = (void __user *)argument;
	long result;

	if (command == PLUMB_IOCTL(PLUMB_KERNEL_DESCRIBE, sizeof(struct plumb_kernel_event)))
		return describe(user);
	result = mutex_lock_interruptible(&recording->lock);
	if (result)
		return result;
	if (command == PLUMB_IOCTL(PLUMB_KERNEL_CHANNEL, sizeof(struct plumb_kernel_channel)))
		result = take_channel(recording, user);
	else if (command == PLUMB_IOCTL(PLUMB_KERNEL_ENABLE, sizeof(struct plumb_kernel_switch)) ||
		 command == PLUMB_IOCTL(PLUMB_KERNEL_DISABLE, sizeof(struct plumb_kernel_switch)))
		result = switch_event(recording, _IOC_NR(command), user);
	else if (command == PLUMB_IOCTL(PLUMB_KERNEL_BEGIN, 0) || command == PLUMB_IOCTL(PLUMB_KERNEL_END, 0))
		result = begin_or_end(recording, _IOC_NR(command) == PLUMB_KERNEL_BEGIN);
	else
		result = -ENOTTY;
	mutex_unlock(&recording->lock);
	return result;
}

static ssize_t recording_read(struct file *file, char __user *to, size_t bytes, loff_t *position)
{
	struct recording *recording = file->private_data;
	struct plumb_kernel_channel_state *channel = smp_load_acquire(&recording->channel);
	u64 entered;

	if (bytes < sizeof(entered))
		return -EINVAL;
	entered = channel ? plumb_take_entered(channel) : 0;
	if (!entered)
		return -EAGAIN;
	return copy_to_user(to, &entered, sizeof(entered)) ? -EFAULT : sizeof(entered);
}

static __poll_t recording_poll(struct file *file, poll_table *wait)
{
	struct recording *recording = file->private_data;
	struct plumb_kernel_channel_state *channel = smp_load_acquire(&recording->channel);

	if (!channel)
		return EPOLLERR;
	poll_wait(file, plumb_entered_queue(channel), wait);
	return plumb_has_entered(channel) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int recording_closed(struct inode *inode, struct file *file)
{
	struct recording *recording = file->private_data;

	disable_range(recording, 0, known_count);
	if (recording->channel)
		plumb_close_kernel_channel(recording->channel);
	kvfree(recording->active);
	kfree(recording);
	return 0;
}

static const struct file_operations recording_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = recording_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = recording_read,
	.poll = recording_poll,
	.release = recording_closed,
	.llseek = noop_llseek,
};

int plumb_open_kernel_events(void)
{
	struct recording *recording;
	int descriptor = -ENOMEM;

	if (!perfmon_capable())
		return -EPERM;
	recording = kzalloc(sizeof(*recording), GFP_KERNEL_ACCOUNT);
	if (!recording)
		return -ENOMEM;
	mutex_init(&recording->lock);
	recording->active = kvcalloc(known_count, sizeof(recording->active[0]), GFP_KERNEL_ACCOUNT);
	if (recording->active)
		descriptor = anon_inode_getfd("[plumb-kernel]", &recording_operations, recording, O_RDWR | O_CLOEXEC);
	if (descriptor < 0) {
		kvfree(recording->active);
		kfree(recording);
	}
	return descriptor;
}
