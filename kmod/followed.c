// SPDX-License-Identifier: GPL-2.0
/*
 * See followed.h. A thread's bit is decided when it is made, by its maker's, before it runs: set, or taken back where a dead
 * thread had the number before. When the kernel frees a thread, its bit goes, unless its number is another one's by then.
 */
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/threads.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>

#include "followed.h"
#include "kernel_events.h"

struct plumb_followed {
	raw_spinlock_t lock; /* who writes bits; readers take none */
	struct tracepoint *made, *freed;
	bool hears_of_made, hears_of_freed;
	DECLARE_BITMAP(numbers, PID_MAX_LIMIT);
};

static notrace void made(void *data, struct task_struct *task, unsigned long flags)
{
	struct plumb_followed *followed = data;
	unsigned long irq;

	/* Behind its place among its process's threads: either plumb_follow() finds it there, or its maker's bit is seen here. */
	smp_mb();
	if (!test_bit(current->pid, followed->numbers) && !test_bit(task->pid, followed->numbers))
		return;
	/* Its maker's may be set just now, and its own behind that. */
	raw_spin_lock_irqsave(&followed->lock, irq);
	assign_bit(task->pid, followed->numbers, test_bit(current->pid, followed->numbers));
	raw_spin_unlock_irqrestore(&followed->lock, irq);
}

static notrace void freed(void *data, struct task_struct *task)
{
	struct plumb_followed *followed = data;
	unsigned long irq;

	if (!test_bit(task->pid, followed->numbers))
		return;
	/* Who gets the number behind this look is made behind it, too, and has its bit decided then. */
	raw_spin_lock_irqsave(&followed->lock, irq);
	rcu_read_lock();
	if (!find_pid_ns(task->pid, &init_pid_ns))
		clear_bit(task->pid, followed->numbers);
	rcu_read_unlock();
	raw_spin_unlock_irqrestore(&followed->lock, irq);
}

const unsigned long *plumb_followed_numbers(const struct plumb_followed *followed)
{
	return followed->numbers;
}

void plumb_follow_no_more(struct plumb_followed *followed)
{
	if (!followed)
		return;
	if (followed->hears_of_made)
		tracepoint_probe_unregister(followed->made, made, followed);
	if (followed->hears_of_freed)
		tracepoint_probe_unregister(followed->freed, freed, followed);
	tracepoint_synchronize_unregister();
	vfree(followed);
}

struct plumb_followed *plumb_follow_nobody(void)
{
	struct plumb_followed *followed = __vmalloc(sizeof(*followed), GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	int error = -ENOENT;

	check_trace_callback_type_task_newtask(made);
	check_trace_callback_type_sched_process_free(freed);
	if (!followed)
		return ERR_PTR(-ENOMEM);
	raw_spin_lock_init(&followed->lock);
	followed->made = plumb_tracepoint_of("task:task_newtask");
	followed->freed = plumb_tracepoint_of("sched:sched_process_free");
	if (followed->made && followed->freed)
		error = tracepoint_probe_register(followed->made, made, followed);
	followed->hears_of_made = !error;
	if (!error)
		error = tracepoint_probe_register(followed->freed, freed, followed);
	followed->hears_of_freed = !error;
	if (!error)
		return followed;
	plumb_follow_no_more(followed);
	return ERR_PTR(error);
}

/* Whether all could be set: of one that is about to run for the first time, made() may be yet to come, which would take its bit for that of
 * a dead one. */
static bool set_bits_of(struct plumb_followed *followed, struct task_struct *leader, bool also_new)
{
	struct task_struct *thread;
	unsigned long irq;
	bool is_any_new = false;

	for_each_thread(leader, thread) {
		if (!also_new && READ_ONCE(thread->__state) == TASK_NEW) {
			is_any_new = true;
			continue;
		}
		raw_spin_lock_irqsave(&followed->lock, irq);
		if (pid_alive(thread))
			set_bit(thread->pid, followed->numbers);
		raw_spin_unlock_irqrestore(&followed->lock, irq);
		smp_mb(); /* see made() */
	}
	return !is_any_new;
}

int plumb_follow(struct plumb_followed *followed, pid_t process)
{
	enum { LOOKS_MAX = 100 };
	struct task_struct *leader;
	bool is_done = false;
	int look;

	for (look = 0; !is_done && look < LOOKS_MAX; look++) {
		if (look)
			schedule_timeout_interruptible(1);
		rcu_read_lock();
		leader = pid_task(find_vpid(process), PIDTYPE_TGID);
		if (leader)
			is_done = set_bits_of(followed, leader, look == LOOKS_MAX - 1);
		rcu_read_unlock();
		if (!leader)
			return look ? 0 : -ESRCH; /* it has ended since */
		if (signal_pending(current))
			look = max(look, LOOKS_MAX - 2);
	}
	return 0;
}
