// SPDX-License-Identifier: GPL-2.0
/*
 * Who asks processes to hear of new rules, PLUMB_OPERATION_UPDATES of <plumb/abi/module.h>: a descriptor has a table of the
 * processes that it has asked, by which signal. How they hear of it: update_work.c. What waits there when the descriptor is closed goes
 * on waiting.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "plumb.h"
#include "update_work.h"

#define TABLE_BITS 8
/* A table is swept of those that have ended when it has doubled. */
#define SWEPT_AT_LEAST 256

/* What a descriptor has asked for: of each process and signal number, what it has asked for last. */
struct asked {
	struct hlist_node node;
	struct update *update;
};

struct table {
	struct mutex lock;
	DECLARE_HASHTABLE(asked, TABLE_BITS);
	size_t count;
	size_t swept_at;
};

static struct asked *find(struct table *table, struct pid *pid, u32 signal_number)
{
	struct asked *asked;

	hash_for_each_possible(table->asked, asked, node, (unsigned long)pid)
		if (asked->update->pid == pid && asked->update->signal_number == signal_number)
			return asked;
	return NULL;
}

static bool has_ended(struct pid *pid)
{
	bool result;

	rcu_read_lock();
	result = !pid_task(pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return result;
}

static void sweep(struct table *table, bool all)
{
	struct hlist_node *next;
	struct asked *asked;
	int bucket;

	hash_for_each_safe(table->asked, bucket, next, asked, node) {
		if (!all && !has_ended(asked->update->pid))
			continue;
		hash_del(&asked->node);
		table->count--;
		plumb_put_update(asked->update);
		kfree(asked);
	}
	table->swept_at = max_t(size_t, 2 * table->count, SWEPT_AT_LEAST);
}

static struct update *add(struct table *table, struct pid *pid, struct update *update)
{
	struct asked *asked = kmalloc(sizeof(*asked), GFP_KERNEL_ACCOUNT);

	if (!asked) {
		plumb_put_update(update);
		return NULL;
	}
	if (table->count >= table->swept_at)
		sweep(table, false);
	asked->update = update;
	hash_add(table->asked, &asked->node, (unsigned long)pid);
	table->count++;
	return update;
}

static struct update *find_or_add(struct table *table, struct pid *pid, const struct plumb_update *request)
{
	struct asked *asked = find(table, pid, request->signal_number);
	struct update *update;

	if (asked && asked->update->value == request->value)
		return asked->update;
	update = plumb_get_update(pid, request);
	if (!update || !asked)
		return update ? add(table, pid, update) : NULL;
	plumb_put_update(asked->update);
	asked->update = update;
	return update;
}

/* As kill(2) would be answered, security modules asked. */
static int check(struct pid *pid)
{
	return has_ended(pid) ? -ESRCH : kill_pid(pid, 0, 0);
}

static long ask(struct table *table, struct pid *pid, struct plumb_update *request)
{
	struct update *update = find_or_add(table, pid, request);
	long error;

	if (!update)
		return -ENOMEM;
	plumb_begin_update(update);
	error = plumb_ask_update(update, &request->asked);
	if (!error)
		plumb_tell_update(update, request);
	return error;
}

static long look(struct table *table, struct pid *pid, struct plumb_update *request)
{
	struct asked *asked = find(table, pid, request->signal_number);

	if (!asked)
		return -ENOENT;
	request->asked = 0;
	plumb_tell_update(asked->update, request);
	return 0;
}

static long operate(struct table *table, unsigned int operation, struct plumb_update *request)
{
	struct pid *pid;
	long error;

	if (operation == PLUMB_UPDATE_ASK && request->signal_number != SIGURG && request->signal_number != SIGWINCH)
		return -EINVAL;
	pid = find_get_pid(request->process_id);
	error = check(pid);
	if (!error)
		error = operation == PLUMB_UPDATE_ASK ? ask(table, pid, request) : look(table, pid, request);
	put_pid(pid);
	return error;
}

static long updates_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct table *table = file->private_data;
	struct plumb_update request;
	long error;

	if (command != PLUMB_IOCTL(PLUMB_UPDATE_ASK, sizeof(request)) &&
	    command != PLUMB_IOCTL(PLUMB_UPDATE_LOOK, sizeof(request)))
		return -ENOTTY;
	if (copy_from_user(&request, (void __user *)argument, sizeof(request)))
		return -EFAULT;
	error = mutex_lock_killable(&table->lock);
	if (error)
		return error;
	error = operate(table, _IOC_NR(command), &request);
	mutex_unlock(&table->lock);
	if (error)
		return error;
	return copy_to_user((void __user *)argument, &request, sizeof(request)) ? -EFAULT : 0;
}

static int updates_closed(struct inode *inode, struct file *file)
{
	struct table *table = file->private_data;

	sweep(table, true);
	kfree(table);
	return 0;
}

static const struct file_operations updates_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = updates_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = updates_closed,
	.llseek = noop_llseek,
};

int plumb_open_updates(void)
{
	struct table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);
	int descriptor;

	if (!table)
		return -ENOMEM;
	mutex_init(&table->lock);
	hash_init(table->asked);
	table->swept_at = SWEPT_AT_LEAST;
	descriptor = anon_inode_getfd("[plumb-updates]", &updates_operations, table, O_RDWR | O_CLOEXEC);
	if (descriptor < 0)
		kfree(table);
	return descriptor;
}
