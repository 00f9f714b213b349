// SPDX-License-Identifier: GPL-2.0
/*
 * Which kernel events go into which channel: PLUMB_OPERATION_KERNEL_EVENTS, see <plumb/abi/kernel_events.h>.
 *
 * Each descriptor has its own channel and its own events. An event is switched on once for each descriptor in which it is on;
 * what it is switched on with lives until nobody can be at work with it any more.
 *
 * Who waits here for another recorder, for as long as it takes to switch its events, is woken by what ends him alone: of a recorder that
 * was stopped and goes on nobody is to say that he was refused.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>
#include <plumb/abi/record.h>

#include "channel_state.h"
#include "filter.h"
#include "followed.h"
#include "kernel_channel.h"
#include "kernel_events.h"
#include "kernel_probes.h"
#include "plumb.h"

struct recording {
	struct list_head node; /* of `recordings` */
	struct mutex lock;     /* while a channel is taken, and of its probes */
	struct plumb_kernel_channel_state *channel;
	wait_queue_head_t queue; /* for sub-buffers of the channel: who is told of it by epoll may have come before there is one */
	struct plumb_followed *followed; /* NULL: everybody */
	struct xarray filters; /* struct plumb_filter, by the id of its event; until nobody is at work with any */
	struct plumb_kernel_probes probes;
	struct xarray active; /* struct plumb_active_event, by index; under plumb_events_lock */
};

static LIST_HEAD(recordings); /* under plumb_events_lock */

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
static void describe_event(const struct plumb_known_event *known, struct plumb_kernel_event *event)
{
	static const struct plumb_event_field io_flags = { "rwbs", "u32", PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_HEX, 0 };
	size_t i;

	event->index = known->index;
	event->recordings = known->recordings;
	strscpy(event->system, known->system, sizeof(event->system));
	strscpy(event->name, known->name, sizeof(event->name));
	for (i = 0; i < known->field_count; i++) {
		struct plumb_event_field field = known->fields[i];

		if (!known->own && !strcmp(field.name, io_flags.name)) {
			describe_field(&io_flags, event);
			field.name = "rwbs_text";
		}
		describe_field(&field, event);
	}
}

static long describe(struct plumb_kernel_event __user *user)
{
	struct plumb_kernel_event *event;
	struct plumb_known_event *known;
	unsigned long next;
	long error = -ENOENT;
	u32 index;

	if (get_user(index, &user->index))
		return -EFAULT;
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return -ENOMEM;
	if (mutex_lock_killable(&plumb_events_lock)) {
		kfree(event);
		return -EINTR;
	}
	next = index;
	known = plumb_next_event(&next);
	if (known)
		describe_event(known, event);
	mutex_unlock(&plumb_events_lock);
	if (known)
		error = copy_to_user(user, event, sizeof(*event)) ? -EFAULT : 0;
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
	if (mutex_lock_killable(&recording->lock))
		return -EINTR;
	channel = recording->channel ? ERR_PTR(-EBUSY) : plumb_open_kernel_channel(request.descriptor, &recording->queue);
	/* Who looks for it takes no lock. */
	if (!IS_ERR(channel))
		smp_store_release(&recording->channel, channel);
	mutex_unlock(&recording->lock);
	return PTR_ERR_OR_ZERO(channel);
}

static struct plumb_kernel_channel_state *channel_of(struct recording *recording)
{
	return smp_load_acquire(&recording->channel);
}

/* As those of the scheduler, of which tracefs says the same: see events/pack.h. */
static bool is_about_others(const struct plumb_known_event *event)
{
	static const char *const names[] = { "sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_waking" };

	return !event->own && !strcmp(event->system, "sched") && match_string(names, ARRAY_SIZE(names), event->name) >= 0;
}

static long enable(struct recording *recording, struct plumb_known_event *event, u32 id_and_flag)
{
	const u32 id = id_and_flag & ~PLUMB_KERNEL_OF_EVERYBODY;
	struct plumb_active_event *active;
	int error;

	if (id < PLUMB_EVENT_ID_FIRST || id > U16_MAX)
		return -EINVAL;
	if (!channel_of(recording))
		return -ENOTCONN;
	active = kzalloc(sizeof(*active), GFP_KERNEL_ACCOUNT);
	if (!active)
		return -ENOMEM;
	active->channel = channel_of(recording);
	active->id = id;
	/* Who runs where is of everybody; and without it, the others are not whole. */
	active->of_recorder_too = event->own || !strcmp(event->system, "sched");
	active->is_about_others = is_about_others(event);
	active->filter = xa_load(&recording->filters, id);
	active->of_everybody = id_and_flag & PLUMB_KERNEL_OF_EVERYBODY;
	error = xa_insert(&recording->active, event->index, active, GFP_KERNEL_ACCOUNT);
	if (!error) {
		error = plumb_switch_on(event, active);
		if (!error)
			return 0;
		xa_erase(&recording->active, event->index);
	}
	kfree(active);
	return error;
}

static long disable(struct recording *recording, struct plumb_known_event *event)
{
	struct plumb_active_event *active = xa_erase(&recording->active, event->index);

	if (!active)
		return -ENOENT;
	plumb_switch_off(event, active);
	tracepoint_synchronize_unregister();
	kfree(active);
	return 0;
}

void plumb_leave_recordings(struct plumb_known_event *event)
{
	struct recording *recording;

	list_for_each_entry(recording, &recordings, node)
		disable(recording, event);
}

static long switch_event(struct recording *recording, unsigned int operation, const void __user *argument)
{
	struct plumb_kernel_switch request;
	struct plumb_known_event *event;
	long result = -ENOENT;

	if (copy_from_user(&request, argument, sizeof(request)))
		return -EFAULT;
	if (mutex_lock_killable(&plumb_events_lock))
		return -EINTR;
	event = plumb_find_event(request.index);
	if (event && operation == PLUMB_KERNEL_ENABLE)
		result = enable(recording, event, request.event_id);
	else if (event)
		result = disable(recording, event);
	mutex_unlock(&plumb_events_lock);
	return result;
}

static long begin_or_end(struct recording *recording, bool is_begin)
{
	struct plumb_kernel_channel_state *channel = channel_of(recording);

	if (!channel)
		return -ENOTCONN;
	plumb_open_to_writers(channel, is_begin);
	if (!is_begin)
		tracepoint_synchronize_unregister(); /* and with that, for all probes that have not seen it */
	return 0;
}

static long add_probe(struct recording *recording, const struct plumb_kernel_probe __user *user)
{
	long error;

	if (mutex_lock_killable(&recording->lock))
		return -EINTR;
	error = plumb_add_kernel_probe(&recording->probes, recording->channel, &recording->filters, user);
	mutex_unlock(&recording->lock);
	return error;
}

static long keep_filter(struct recording *recording, const struct plumb_kernel_filter *request)
{
	struct plumb_filter *filter;
	int error;

	if (!recording->channel)
		return -ENOTCONN;
	if (request->event_id < PLUMB_EVENT_ID_FIRST || request->event_id > U16_MAX)
		return -EINVAL;
	filter = plumb_make_filter(request);
	if (IS_ERR(filter))
		return PTR_ERR(filter);
	error = plumb_make_filtering_room(recording->channel);
	if (!error)
		error = xa_insert(&recording->filters, request->event_id, filter, GFP_KERNEL_ACCOUNT);
	if (error)
		kvfree(filter);
	return error;
}

static long add_filter(struct recording *recording, const struct plumb_kernel_filter __user *user)
{
	struct plumb_kernel_filter *request = memdup_user(user, sizeof(*request));
	long error;

	if (IS_ERR(request))
		return PTR_ERR(request);
	error = -EINTR;
	if (!mutex_lock_killable(&recording->lock)) {
		error = keep_filter(recording, request);
		mutex_unlock(&recording->lock);
	}
	kfree(request);
	return error;
}

static long follow_locked(struct recording *recording, pid_t process)
{
	struct plumb_kernel_channel_state *channel = recording->channel;

	if (!channel)
		return -ENOTCONN;
	if (!recording->followed) {
		struct plumb_followed *followed = plumb_follow_nobody();

		if (IS_ERR(followed))
			return PTR_ERR(followed);
		recording->followed = followed;
		plumb_limit_writers(channel, plumb_followed_numbers(followed));
	}
	return process ? plumb_follow(recording->followed, process) : 0;
}

static long follow(struct recording *recording, const struct plumb_kernel_follow __user *user)
{
	struct plumb_kernel_follow request;
	long error;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	if (request.reserved || request.process_id < 0)
		return -EINVAL;
	if (mutex_lock_killable(&recording->lock))
		return -EINTR;
	error = follow_locked(recording, request.process_id);
	mutex_unlock(&recording->lock);
	return error;
}

static long tell_missed(struct recording *recording, u64 __user *user)
{
	u64 missed;

	if (mutex_lock_killable(&recording->lock))
		return -EINTR;
	missed = plumb_missed_by_kernel_probes(&recording->probes);
	if (recording->channel)
		missed += plumb_missed_by_writers(recording->channel);
	mutex_unlock(&recording->lock);
	return put_user(missed, user);
}

static long recording_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct recording *recording = file->private_data;
	void __user *user = (void __user *)argument;

	switch (command) {
	case PLUMB_IOCTL(PLUMB_KERNEL_DESCRIBE, sizeof(struct plumb_kernel_event)):
		return describe(user);
	case PLUMB_IOCTL(PLUMB_KERNEL_CHANNEL, sizeof(struct plumb_kernel_channel)):
		return take_channel(recording, user);
	case PLUMB_IOCTL(PLUMB_KERNEL_ENABLE, sizeof(struct plumb_kernel_switch)):
	case PLUMB_IOCTL(PLUMB_KERNEL_DISABLE, sizeof(struct plumb_kernel_switch)):
		return switch_event(recording, _IOC_NR(command), user);
	case PLUMB_IOCTL(PLUMB_KERNEL_BEGIN, 0):
	case PLUMB_IOCTL(PLUMB_KERNEL_END, 0):
		return begin_or_end(recording, _IOC_NR(command) == PLUMB_KERNEL_BEGIN);
	case PLUMB_IOCTL(PLUMB_KERNEL_PROBE, sizeof(struct plumb_kernel_probe)):
		return add_probe(recording, user);
	case PLUMB_IOCTL(PLUMB_KERNEL_MISSED, sizeof(u64)):
		return tell_missed(recording, user);
	case PLUMB_IOCTL(PLUMB_KERNEL_FOLLOW, sizeof(struct plumb_kernel_follow)):
		return follow(recording, user);
	case PLUMB_IOCTL(PLUMB_KERNEL_FILTER, sizeof(struct plumb_kernel_filter)):
		return add_filter(recording, user);
	default:
		return -ENOTTY;
	}
}

static ssize_t recording_read(struct file *file, char __user *to, size_t bytes, loff_t *position)
{
	struct recording *recording = file->private_data;
	struct plumb_kernel_channel_state *channel = channel_of(recording);
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
	struct plumb_kernel_channel_state *channel = channel_of(recording);

	poll_wait(file, &recording->queue, wait);
	if (!channel)
		return EPOLLERR;
	return plumb_has_entered(channel) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int recording_closed(struct inode *inode, struct file *file)
{
	struct recording *recording = file->private_data;
	struct plumb_active_event *active;
	struct plumb_filter *filter;
	unsigned long index;

	mutex_lock(&plumb_events_lock);
	list_del(&recording->node);
	xa_for_each(&recording->active, index, active)
		plumb_switch_off(plumb_find_event(index), active);
	mutex_unlock(&plumb_events_lock);
	plumb_remove_kernel_probes(&recording->probes);
	/* Each keeps its place until no probe can be at work: one wait for all of them. */
	tracepoint_synchronize_unregister();
	xa_for_each(&recording->active, index, active)
		kfree(active);
	xa_destroy(&recording->active);
	xa_for_each(&recording->filters, index, filter)
		kvfree(filter);
	xa_destroy(&recording->filters);
	plumb_follow_no_more(recording->followed);
	if (recording->channel)
		plumb_close_kernel_channel(recording->channel);
	kfree(recording);
	return 0;
}

/* Of a recorder that ends a child may keep the descriptor, and then the recorder's number may be another process's. */
static int recording_flushed(struct file *file, fl_owner_t owner)
{
	struct plumb_kernel_channel_state *channel = channel_of(file->private_data);

	if (channel && READ_ONCE(channel->recorder) == current->tgid)
		WRITE_ONCE(channel->recorder, PLUMB_RECORDER_IS_NOBODY);
	return 0;
}

static const struct file_operations recording_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = recording_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = recording_read,
	.poll = recording_poll,
	.flush = recording_flushed,
	.release = recording_closed,
	.llseek = noop_llseek,
};

int plumb_open_kernel_events(void)
{
	struct recording *recording;
	int descriptor;

	if (!perfmon_capable())
		return -EPERM;
	/* As tracefs: what the kernel does is its secret then. */
	descriptor = security_locked_down(LOCKDOWN_TRACEFS);
	if (descriptor)
		return descriptor;
	recording = kzalloc(sizeof(*recording), GFP_KERNEL_ACCOUNT);
	if (!recording)
		return -ENOMEM;
	mutex_init(&recording->lock);
	init_waitqueue_head(&recording->queue);
	INIT_LIST_HEAD(&recording->probes.all);
	xa_init(&recording->active);
	xa_init(&recording->filters);
	if (mutex_lock_killable(&plumb_events_lock)) {
		kfree(recording);
		return -EINTR;
	}
	list_add(&recording->node, &recordings);
	mutex_unlock(&plumb_events_lock);
	descriptor = anon_inode_getfd("[plumb-kernel]", &recording_operations, recording, O_RDWR | O_CLOEXEC);
	if (descriptor < 0) {
		mutex_lock(&plumb_events_lock);
		list_del(&recording->node);
		mutex_unlock(&plumb_events_lock);
		kfree(recording);
	}
	return descriptor;
}
