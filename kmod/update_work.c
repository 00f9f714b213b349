// SPDX-License-Identifier: GPL-2.0
/*
 * How a process comes to hear of new rules before its next instruction.
 *
 * Each thread gets task work, which the kernel runs when the thread next returns to user space, and does not wake it for. It
 * runs in come_by(), where the first one sends the signal to itself: the handler then runs before the next instruction
 * of the program, and a system call that the thread was in has ended by itself. Some calls run such work in their middle, and
 * any is left and begun again, unseen, for work that io_uring gives a thread: the signal would end them, and is not sent.
 *
 * Whom we have counted as asleep is sent the signal in any case: he had it open while he slept. It is blocked when he comes by only
 * if a handler comes first, as of the SIGCONT that ended a stop, and he is told behind that.
 *
 * There is one `struct update` for each signal and value that a user has a process sent: each runtime in a process listens for
 * its own. It belongs to those who ask and to each `struct work` of it that waits, so who asks for what another one has asked
 * for, and is waited for, gives no work once more. A work belongs to its thread, which runs it once, or when it ends, and keeps
 * the module. Of a work in an update's list, under the lock, the thread has not ended: it takes the work out itself before that.
 */
#include <asm/syscall.h>
#include <asm/unistd_32_ia32.h>
#include <linux/bsearch.h>
#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/kvm.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/once.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/task_work.h>

#include "compat.h"
#include "update_work.h"

/* Works that wait, of what one user has asked for: they stay when he closes his descriptors. Root may have any number. */
#define WORKS_MAX (256 * 1024)
#define USER_BITS 8

struct work {
	struct callback_head head;
	struct list_head node;
	struct update *update;
	struct task_struct *task;
	bool was_asleep;
};

/* By a hash of the user: two that share one share the limit. */
static atomic_t works_of_users[1 << USER_BITS];

/* As many as one user may have waiting are some 64 for each place. */
static DEFINE_HASHTABLE(updates, 12);
static DEFINE_SPINLOCK(updates_lock); /* of the table, and of the step of `users` to 0 */

/* Values are whatever a user asks for, and one may ask for many of one process: he can not choose that they share a place. */
static u64 place_of(const struct update *update)
{
	static siphash_key_t key;

	get_random_once(&key, sizeof(key));
	return siphash_2u64((unsigned long)update->pid, update->value, &key);
}

static struct update *make(struct pid *pid, const struct plumb_update *request)
{
	struct update *update = kzalloc(sizeof(*update), GFP_KERNEL_ACCOUNT);

	if (!update)
		return NULL;
	update->pid = get_pid(pid);
	update->signal_number = request->signal_number;
	update->value = request->value;
	update->user = current_uid();
	refcount_set(&update->users, 1);
	spin_lock_init(&update->lock);
	INIT_LIST_HEAD(&update->works);
	if (!capable(CAP_SYS_RESOURCE))
		update->works_of_user = works_of_users + hash_32(from_kuid(&init_user_ns, current_uid()), USER_BITS);
	return update;
}

static void forget(struct update *update)
{
	put_pid(update->pid);
	put_pid(update->sender);
	kfree(update);
}

static struct update *find_equal(const struct update *to)
{
	struct update *update;

	hash_for_each_possible(updates, update, node, place_of(to))
		if (update->pid == to->pid && update->signal_number == to->signal_number && update->value == to->value &&
		    uid_eq(update->user, to->user) && update->works_of_user == to->works_of_user)
			return update;
	return NULL;
}

struct update *plumb_get_update(struct pid *pid, const struct plumb_update *request)
{
	struct update *made = make(pid, request), *update;

	if (!made)
		return NULL;
	spin_lock(&updates_lock);
	update = find_equal(made);
	if (update)
		refcount_inc(&update->users);
	else
		hash_add(updates, &made->node, place_of(made));
	spin_unlock(&updates_lock);
	if (!update)
		return made;
	forget(made);
	return update;
}

void plumb_put_update(struct update *update)
{
	bool is_last;

	if (refcount_dec_not_one(&update->users))
		return;
	spin_lock(&updates_lock);
	is_last = refcount_dec_and_test(&update->users);
	if (is_last)
		hash_del(&update->node);
	spin_unlock(&updates_lock);
	if (is_last)
		forget(update);
}

/* A thread of any program may make calls by the numbers that they have for programs of 32 bits. */
static bool is_in(struct task_struct *task, int number, int number_for_32_bits)
{
	const int made = syscall_get_nr(task, task_pt_regs(task));

	return made == (syscall_get_arch(task) == AUDIT_ARCH_I386 ? number_for_32_bits : number);
}

/* Of one that waits: whether it may run work before the call has ended (io_uring's completions, in any call; a guest's halt). */
static bool works_inside(struct task_struct *task)
{
	unsigned long arguments[6];

	syscall_get_arguments(task, task_pt_regs(task), arguments);
	return has_ring(task) || (is_in(task, __NR_ioctl, __NR_ia32_ioctl) && (u32)arguments[1] == KVM_RUN);
}

/* Of the thread that runs this: whether it is in the middle of a call, or on its way to begin one again. A handler would end it. */
static bool is_in_call(void)
{
	struct pt_regs *regs = task_pt_regs(current);
	const long result = syscall_get_return_value(current, regs);

	return syscall_get_nr(current, regs) >= 0 &&
		(result == -ENOSYS || result == -ERESTARTNOHAND || result == -ERESTART_RESTARTBLOCK);
}

/* Whether it is not in user space again: on its way to exit_signals() it still may run work, as where a tracer stops it. */
static bool is_ending(struct task_struct *task)
{
	return (task->flags & PF_EXITING) || is_in(task, __NR_exit, __NR_ia32_exit);
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

	clear_siginfo(&signal);
	signal.si_signo = update->signal_number;
	signal.si_code = SI_QUEUE;
	signal.si_value.sival_ptr = (void __user *)update->value;
	spin_lock(&update->lock);
	list_del(&work->node);
	update->work_count--;
	if (!is_ending(current) && !update->taken) {
		/* As kill(2) would say it, in the namespaces of who is told: the thread sends it itself, and the kernel changes nothing. */
		signal.si_pid = pid_nr_ns(update->sender, task_active_pid_ns(current));
		signal.si_uid = from_kuid_munged(current_user_ns(), update->user);
		takes = work->was_asleep ||
			(!is_in_call() && !sigismember(&current->blocked, signal.si_signo));
		if (takes)
			update->taken = 1;
		else
			update->blocked++;
	}
	spin_unlock(&update->lock);
	if (takes)
		send_sig_info(signal.si_signo, &signal, current);
	count_works(update, -1);
	plumb_put_update(update);
	kfree(work);
	module_put(THIS_MODULE);
}

void plumb_begin_update(struct update *update)
{
	struct pid *sender = get_pid(task_tgid(current));

	spin_lock(&update->lock);
	swap(update->sender, sender);
	update->blocked = 0;
	update->taken = 0;
	spin_unlock(&update->lock);
	put_pid(sender);
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
	/* Behind the lock, which the work takes: on another processor the thread may run it before we are back. */
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

int plumb_ask_update(struct update *update, u32 *asked)
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

/* That of a process which has one, for comparisons alone; and how many use it. */
static const struct mm_struct *memory_of(struct task_struct *process, int *users)
{
	const struct mm_struct *memory = NULL;
	struct task_struct *task;

	for_each_thread(process, task) {
		task_lock(task);
		memory = task->mm;
		if (memory)
			*users = atomic_read(&memory->mm_users);
		task_unlock(task);
		if (memory)
			break;
	}
	return memory;
}

static int count_users(struct task_struct *process, const struct mm_struct *memory)
{
	struct task_struct *task;
	int count = 0;

	for_each_thread(process, task)
		count += READ_ONCE(task->mm) == memory;
	return count;
}

/*
 * Whether another process goes on in the memory of one that sleeps: a child of vfork(), or of clone() with CLONE_VM. That
 * there are more users than threads may be for somebody who reads that memory, too: then it is looked for.
 */
static bool is_memory_shared(struct pid *pid)
{
	const struct mm_struct *memory = NULL;
	struct task_struct *process, *other;
	bool is_shared = false;
	int users;

	rcu_read_lock();
	process = pid_task(pid, PIDTYPE_TGID);
	if (process)
		memory = memory_of(process, &users);
	/* Threads counted behind: those that end meanwhile are no more users, and if any begins not all sleep. */
	if (memory && users > count_users(process, memory)) {
		for_each_process(other) {
			is_shared = other != process && !(other->flags & PF_KTHREAD) && count_users(other, memory) != 0;
			if (is_shared)
				break;
		}
	}
	rcu_read_unlock();
	return is_shared;
}

void plumb_tell_update(struct update *update, struct plumb_update *answer)
{
	const size_t threads_before = count_threads(update->pid);
	struct work *work;

	answer->waiting = answer->asleep = 0;
	spin_lock(&update->lock);
	answer->blocked = update->blocked;
	list_for_each_entry(work, &update->works, node) {
		answer->waiting++;
		if (!is_asleep(work->task))
			continue;
		smp_rmb(); /* the mask is that of one that slept */
		if (is_ending(work->task))
			continue;
		if (may_be_sent(work->task, update->signal_number)) {
			work->was_asleep = true;
			answer->asleep++;
		} else {
			answer->blocked++;
		}
	}
	answer->taken = update->taken;
	spin_unlock(&update->lock);
	/* Behind: one that sleeps in vfork() had no child before. */
	if (answer->asleep && is_memory_shared(update->pid)) {
		answer->blocked += answer->asleep;
		answer->asleep = 0;
	}
	/*
	 * Behind: a thread that is new has come by, or somebody who has made it. And before: of those that sleep none has
	 * ended meanwhile, which would make up for one that has not been counted as such.
	 */
	answer->threads = max(threads_before, count_threads(update->pid));
}
