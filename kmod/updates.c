// SPDX-License-Identifier: GPL-2.0
/*
 * How a process comes to hear of new rules, PLUMB_OPERATION_UPDATES of <plumb/abi/module.h>.
 *
 * Each thread gets task work, which the kernel runs when the thread next returns to user space, and does not wake it for. It
 * runs in come_by(), where the first one sends the signal to itself: the handler then runs before the next instruction
 * of the program, and a system call that the thread was in has ended by itself. Two calls run such work in their middle, and
 * would be ended by the signal: in them nothing is sent.
 *
 * Whom we have counted as asleep is sent the signal in any case: he had it open while he slept. It is blocked when he comes by only
 * if a handler comes first, as of the SIGCONT that ended a stop, and he is told behind that.
 *
 * Who holds what. A descriptor has a table of the processes that it has asked. A `struct update` belongs to its table and
 * to each `struct work` of it that waits; a work belongs to its thread, which runs it once, or when it ends. What waits when
 * the descriptor is closed goes on waiting, and keeps the module.
 *
 * Of a work in an update's list, under the lock, the thread has not ended: it takes the work out itself before that.
 */
#include <asm/syscall.h>
#include <linux/anon_inodes.h>
#include <linux/bsearch.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/kvm.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <plumb/abi/module.h>

#include "compat.h"
#include "plumb.h"

#define TABLE_BITS 8
/* A table is swept of those that have ended when it has doubled. */
#define SWEPT_AT_LEAST 256
/* Works that wait, of what one user has asked for: they stay when he closes his descriptors. Root may have any number. */
#define WORKS_MAX (256 * 1024)
#define USER_BITS 8

struct update {
	struct hlist_node node;
	struct pid *pid;
	refcount_t users;
	spinlock_t lock; /* of all that follows */
	struct list_head works;
	size_t work_count;
	struct kernel_siginfo signal;
	u32 blocked;
	u32 taken;
	atomic_t *works_of_user; /* or NULL: of root */
};

struct work {
	struct callback_head head;
	struct list_head node;
	struct update *update;
	struct task_struct *task;
	bool was_asleep;
};

/* By a hash of the user: two that share one share the limit. */
static atomic_t works_of_users[1 << USER_BITS];

struct table {
	struct mutex lock;
	DECLARE_HASHTABLE(updates, TABLE_BITS);
	size_t count;
	size_t swept_at;
};

static void put_update(struct update *update)
{
	if (!refcount_dec_and_test(&update->users))
		return;
	put_pid(update->pid);
	kfree(update);
}

/* Of one that waits: whether it may run work before the call has ended (io_uring's completions, a guest's halt). */
static bool works_inside(struct task_struct *task)
{
	const struct pt_regs *regs = task_pt_regs(task);
	const int call = syscall_get_nr(task, task_pt_regs(task));

	return call == __NR_io_uring_enter || (call == __NR_ioctl && regs->si == KVM_RUN);
}

static bool may_give_more(const struct update *update)
{
	return !update->works_of_user || atomic_read(update->works_of_user) < WORKS_MAX;
}

static void count_works(const struct update *update, int change)
{
	if (update->works_of_user)
		atomic_add(change, update->works_of_user);
}

/* Run by each thread on its way to user space, or to its end. */
static void come_by(struct callback_head *head)
{
	struct work *work = container_of(head, struct work, head);
	struct update *update = work->update;
	struct kernel_siginfo signal;
	bool takes = false;

	spin_lock(&update->lock);
	list_del(&work->node);
	update->work_count--;
	if (!(current->flags & PF_EXITING) && !update->taken) {
		signal = update->signal;
		takes = work->was_asleep ||
			(!works_inside(current) && !sigismember(&current->blocked, signal.si_signo));
		if (takes)
			update->taken = 1;
		else
			update->blocked++;
	}
	spin_unlock(&update->lock);
	if (takes)
		send_sig_info(signal.si_signo, &signal, current);
	count_works(update, -1);
	put_update(update);
	kfree(work);
	module_put(THIS_MODULE);
}

static bool may_signal(const struct task_struct *task)
{
	const struct cred *own = current_cred();
	const struct cred *theirs = __task_cred(task);

	return uid_eq(own->euid, theirs->suid) || uid_eq(own->euid, theirs->uid) ||
	       uid_eq(own->uid, theirs->suid) || uid_eq(own->uid, theirs->uid) ||
	       ns_capable(theirs->user_ns, CAP_KILL);
}

static int compare_tasks(const void *a, const void *b)
{
	const struct task_struct *const *first = a, *const *second = b;

	return *first < *second ? -1 : *first > *second;
}

/* The threads that have work waiting, sorted. */
static struct task_struct **waiting_threads(struct update *update, size_t *count)
{
	struct task_struct **tasks = NULL;
	struct work *work;
	size_t room;

	do {
		kvfree(tasks);
		room = READ_ONCE(update->work_count) + 8;
		tasks = kvmalloc_array(room, sizeof(*tasks), GFP_KERNEL);
		if (!tasks)
			return NULL;
		*count = 0;
		spin_lock(&update->lock);
		if (update->work_count <= room)
			list_for_each_entry(work, &update->works, node)
				tasks[(*count)++] = work->task;
		room = update->work_count <= room;
		spin_unlock(&update->lock);
	} while (!room);
	sort(tasks, *count, sizeof(*tasks), compare_tasks, NULL);
	return tasks;
}

static void free_works(struct list_head *works)
{
	struct work *work, *next;

	list_for_each_entry_safe(work, next, works, node)
		kfree(work);
}

static bool make_works(struct list_head *works, size_t count)
{
	while (count--) {
		struct work *work = kmalloc(sizeof(*work), GFP_KERNEL_ACCOUNT);

		if (!work)
			return false;
		list_add(&work->node, works);
	}
	return true;
}

/* Whether the thread was given the work; else it ends. */
static bool give(struct update *update, struct work *work, struct task_struct *task)
{
	init_task_work(&work->head, come_by);
	work->update = update;
	work->task = task;
	work->was_asleep = false;
	count_works(update, 1);
	refcount_inc(&update->users);
	__module_get(THIS_MODULE);
	spin_lock(&update->lock);
	list_move(&work->node, &update->works);
	update->work_count++;
	spin_unlock(&update->lock);
	/* Behind the lock: an interrupt may run the work of this very thread before we are back. */
	if (!task_work_add(task, &work->head, TWA_RESUME))
		return true;
	spin_lock(&update->lock);
	list_del(&work->node);
	update->work_count--;
	spin_unlock(&update->lock);
	count_works(update, -1);
	refcount_dec(&update->users);
	module_put(THIS_MODULE);
	return false;
}

/*
 * Gives work to each thread that has none waiting. Those that begin meanwhile are made by one that has some, or has come
 * by since: both are awake. -EAGAIN: there are more than there are `works`.
 */
static int give_to_all(struct update *update, struct task_struct **with_work, size_t count, struct list_head *works,
		       u32 *asked)
{
	struct task_struct *process, *task;
	int error = 0;

	rcu_read_lock();
	process = pid_task(update->pid, PIDTYPE_TGID);
	if (!process)
		error = -ESRCH;
	else
		for_each_thread(process, task) {
			struct work *work;

			if (is_worker(task) ||
			    bsearch(&task, with_work, count, sizeof(*with_work), compare_tasks))
				continue;
			if (list_empty(works) || !may_give_more(update)) {
				error = list_empty(works) ? -EAGAIN : -ENOSPC;
				break;
			}
			work = list_first_entry(works, struct work, node);
			if (give(update, work, task))
				(*asked)++;
			else
				list_add(&work->node, works);
		}
	rcu_read_unlock();
	return error;
}

/* Those that may be in user space again. */
static size_t count_threads(struct pid *pid)
{
	struct task_struct *process, *task;
	size_t count = 0;

	rcu_read_lock();
	process = pid_task(pid, PIDTYPE_TGID);
	if (process)
		for_each_thread(process, task)
			count += !is_worker(task) && !(task->flags & PF_EXITING);
	rcu_read_unlock();
	return count;
}

static int ask(struct update *update, u32 *asked)
{
	struct task_struct **with_work;
	LIST_HEAD(works);
	size_t count;
	int error;

	*asked = 0;
	do {
		const size_t threads = count_threads(update->pid);

		error = -ENOMEM;
		with_work = waiting_threads(update, &count);
		if (with_work && make_works(&works, threads > count ? threads - count + 8 : 8))
			error = give_to_all(update, with_work, count, &works, asked);
		kvfree(with_work);
		cond_resched();
	} while (error == -EAGAIN && !fatal_signal_pending(current));
	free_works(&works);
	return error == -EAGAIN ? -EINTR : error;
}

/* A sleep that began in a system call, and not in a page fault; or the thread is stopped, wherever it was. */
static bool is_asleep(struct task_struct *task)
{
	const unsigned int state = READ_ONCE(task->__state);

	if (state & (__TASK_STOPPED | __TASK_TRACED))
		return true;
	return state != TASK_RUNNING && syscall_get_nr(task, task_pt_regs(task)) >= 0;
}

/*
 * Of one that sleeps: whether it will be sent the signal when it comes by. Some calls have a mask of their own (sigsuspend, ppoll,
 * sigtimedwait ...), and it depends on how they end which one is in force then: both have to leave the signal open.
 */
static bool may_be_sent(struct task_struct *task, int signal_number)
{
	if (sigismember(&task->blocked, signal_number) || sigismember(&task->real_blocked, signal_number))
		return false;
	if (test_tsk_restore_sigmask(task) && sigismember(&task->saved_sigmask, signal_number))
		return false;
	return task_is_stopped_or_traced(task) || !works_inside(task);
}

static void tell(struct update *update, struct plumb_update *answer)
{
	struct work *work;

	answer->waiting = answer->asleep = 0;
	spin_lock(&update->lock);
	answer->blocked = update->blocked;
	list_for_each_entry(work, &update->works, node) {
		answer->waiting++;
		if (!is_asleep(work->task))
			continue;
		smp_rmb(); /* the mask is that of one that slept */
		if (may_be_sent(work->task, update->signal.si_signo)) {
			work->was_asleep = true;
			answer->asleep++;
		} else {
			answer->blocked++;
		}
	}
	answer->taken = update->taken;
	spin_unlock(&update->lock);
	/* Behind: a thread that is new has come by, or somebody who has made it. */
	answer->threads = count_threads(update->pid);
}

static struct update *find(struct table *table, struct pid *pid)
{
	struct update *update;

	hash_for_each_possible(table->updates, update, node, (unsigned long)pid)
		if (update->pid == pid)
			return update;
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
	struct update *update;
	int bucket;

	hash_for_each_safe(table->updates, bucket, next, update, node) {
		if (!all && !has_ended(update->pid))
			continue;
		hash_del(&update->node);
		table->count--;
		put_update(update);
	}
	table->swept_at = max_t(size_t, 2 * table->count, SWEPT_AT_LEAST);
}

static struct update *add(struct table *table, struct pid *pid)
{
	struct update *update = kzalloc(sizeof(*update), GFP_KERNEL_ACCOUNT);

	if (!update)
		return NULL;
	if (table->count >= table->swept_at)
		sweep(table, false);
	update->pid = get_pid(pid);
	refcount_set(&update->users, 1);
	spin_lock_init(&update->lock);
	INIT_LIST_HEAD(&update->works);
	if (!capable(CAP_SYS_RESOURCE))
		update->works_of_user = works_of_users + hash_32(from_kuid(&init_user_ns, current_uid()), USER_BITS);
	hash_add(table->updates, &update->node, (unsigned long)pid);
	table->count++;
	return update;
}

static void begin(struct update *update, const struct plumb_update *request)
{
	spin_lock(&update->lock);
	clear_siginfo(&update->signal);
	update->signal.si_signo = request->signal_number;
	update->signal.si_code = SI_QUEUE;
	update->signal.si_pid = task_tgid_vnr(current);
	update->signal.si_uid = from_kuid_munged(current_user_ns(), current_uid());
	update->signal.si_value.sival_ptr = (void __user *)request->value;
	update->blocked = 0;
	update->taken = 0;
	spin_unlock(&update->lock);
}

static int check(struct pid *pid)
{
	struct task_struct *process;
	int error = -ESRCH;

	rcu_read_lock();
	process = pid_task(pid, PIDTYPE_TGID);
	if (process)
		error = may_signal(process) ? 0 : -EPERM;
	rcu_read_unlock();
	return error;
}

static long operate(struct table *table, unsigned int operation, struct plumb_update *request)
{
	struct pid *pid;
	struct update *update;
	long error;

	if (operation == PLUMB_UPDATE_ASK && request->signal_number != SIGURG && request->signal_number != SIGWINCH)
		return -EINVAL;
	pid = find_get_pid(request->process_id);
	error = check(pid);
	if (error)
		goto out;
	update = find(table, pid);
	request->asked = 0;
	if (operation == PLUMB_UPDATE_ASK) {
		error = -ENOMEM;
		if (!update)
			update = add(table, pid);
		if (!update)
			goto out;
		begin(update, request);
		error = ask(update, &request->asked);
	} else if (!update) {
		error = -ENOENT;
	}
	if (!error)
		tell(update, request);
out:
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
	error = mutex_lock_interruptible(&table->lock);
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
	hash_init(table->updates);
	table->swept_at = SWEPT_AT_LEAST;
	descriptor = anon_inode_getfd("[plumb-updates]", &updates_operations, table, O_RDWR | O_CLOEXEC);
	if (descriptor < 0)
		kfree(table);
	return descriptor;
}
