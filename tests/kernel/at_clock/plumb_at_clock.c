// SPDX-License-Identifier: GPL-2.0
/* An event that is recorded wherever the clock is read, by a probe: also by who records another event. */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>

#include "plumb_events.h"

static const struct plumb_event_field fields[] = { PLUMB_FIELD(u64, number) };
static struct plumb_module_event outer = PLUMB_MODULE_EVENT("at_clock", "at_clock_outer", fields);
static struct plumb_module_event inner = PLUMB_MODULE_EVENT("at_clock", "at_clock_inner", fields);

static struct task_struct *thread;
static u64 hits; /* on one CPU: the thread's */

static int run(void *unused)
{
	u64 number = 0, most = 0;

	while (!kthread_should_stop()) {
		const u64 before = READ_ONCE(hits);

		if (plumb_is_on(&outer)) {
			plumb_record(&outer, &number, sizeof(number));
			number++;
		}
		most = max(most, READ_ONCE(hits) - before);
		usleep_range(5000, 6000);
	}
	pr_info("plumb_at_clock: %llu hits for one record\n", most);
	return 0;
}

static int at_clock(struct kprobe *at, struct pt_regs *regs)
{
	if (current != thread)
		return 0;
	hits++;
	if (plumb_is_on(&inner))
		plumb_record(&inner, &hits, sizeof(hits));
	return 0;
}
static struct kprobe probe = { .symbol_name = "ktime_get_mono_fast_ns", .pre_handler = at_clock };

static int __init at_clock_init(void)
{
	int error = plumb_register_events(&outer, 1);

	if (error)
		return error;
	error = plumb_register_events(&inner, 1);
	if (error)
		goto without_inner;
	thread = kthread_run(run, NULL, "at_clock");
	error = PTR_ERR_OR_ZERO(thread);
	if (error)
		goto without_thread;
	error = register_kprobe(&probe);
	if (!error)
		return 0;
	kthread_stop(thread);
without_thread:
	plumb_unregister_events(&inner, 1);
without_inner:
	plumb_unregister_events(&outer, 1);
	return error;
}

static void __exit at_clock_exit(void)
{
	unregister_kprobe(&probe);
	kthread_stop(thread);
	plumb_unregister_events(&inner, 1);
	plumb_unregister_events(&outer, 1);
}

module_init(at_clock_init);
module_exit(at_clock_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An event inside of others");
