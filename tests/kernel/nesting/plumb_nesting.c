// SPDX-License-Identifier: GPL-2.0
/*
 * Writers that interrupt each other: on each CPU a thread writes without pause, and is interrupted by a tasklet, by a
 * high-resolution timer, by calls from other CPUs, and by NMIs, each of which writes, too. Each counts its events by itself. How
 * many there were, the log says when the module is unloaded.
 */
#include <asm/apic.h>
#include <asm/nmi.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/smp.h>

#include "plumb_events.h"

enum context { IN_THREAD, IN_TASKLET, IN_TIMER, IN_CALL, IN_NMI, CONTEXTS };

static const struct plumb_event_field fields[] = {
	PLUMB_FIELD(u32, context), PLUMB_FIELD(u32, cpu), PLUMB_FIELD(u64, number), PLUMB_FIELD(u64, check),
	PLUMB_STRING(filling),
};
static struct plumb_module_event step = PLUMB_MODULE_EVENT("nesting", "step", fields);

struct __packed payload {
	u32 context;
	u32 cpu;
	u64 number;
	u64 check;
	char filling[64];
};

static int period_us = 100;
module_param(period_us, int, 0444);
static int pause_us; /* of the threads, between a hundred events each */
module_param(pause_us, int, 0444);

struct writers {
	struct task_struct *thread;
	struct tasklet_struct tasklet;
	struct hrtimer timer;
	call_single_data_t call;
	u64 ticks;
	u64 numbers[CONTEXTS];
};
static DEFINE_PER_CPU(struct writers, writers);
static bool over;

/* On one CPU and in one context there is one at a time. */
static void write_step(enum context context)
{
	struct writers *own = this_cpu_ptr(&writers);
	struct payload payload;
	size_t length;

	if (!plumb_is_on(&step))
		return;
	payload.context = context;
	payload.cpu = smp_processor_id();
	payload.number = own->numbers[context]++;
	payload.check = (payload.number * CONTEXTS + context) * 0x9e3779b97f4a7c15ull;
	length = payload.number % 61;
	memset(payload.filling, 'a' + context, length);
	payload.filling[length] = 0;
	plumb_record(&step, &payload, offsetof(struct payload, filling) + length + 1);
}

static int run(void *unused)
{
	while (!kthread_should_stop()) {
		int i;

		for (i = 0; i < 100; i++) {
			preempt_disable();
			write_step(IN_THREAD);
			preempt_enable();
		}
		cond_resched();
		if (pause_us)
			usleep_range(pause_us, 2 * pause_us);
	}
	return 0;
}

static void in_tasklet(struct tasklet_struct *unused)
{
	write_step(IN_TASKLET);
}

static void in_call(void *unused)
{
	write_step(IN_CALL);
}

static int in_nmi_handler(unsigned int type, struct pt_regs *registers)
{
	write_step(IN_NMI);
	return NMI_HANDLED;
}

static enum hrtimer_restart in_timer(struct hrtimer *timer)
{
	struct writers *own = this_cpu_ptr(&writers);
	const int other = cpumask_next(smp_processor_id(), cpu_online_mask) < nr_cpu_ids ?
				  cpumask_next(smp_processor_id(), cpu_online_mask) :
				  cpumask_first(cpu_online_mask);

	write_step(IN_TIMER);
	tasklet_schedule(&own->tasklet);
	if (own->ticks++ % 2)
		apic->send_IPI(own->ticks % 4 < 2 ? other : smp_processor_id(), NMI_VECTOR);
	else
		smp_call_function_single_async(other, &per_cpu(writers, other).call);
	write_step(IN_TIMER);
	if (READ_ONCE(over))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(period_us * 1000ull));
	return HRTIMER_RESTART;
}

static void start_timer(void *unused)
{
	struct writers *own = this_cpu_ptr(&writers);

	hrtimer_init(&own->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	own->timer.function = in_timer;
	hrtimer_start(&own->timer, ns_to_ktime(period_us * 1000ull), HRTIMER_MODE_REL_PINNED_HARD);
}

static int __init nesting_init(void)
{
	int cpu, error = plumb_register_events(&step, 1);

	if (error)
		return error;
	error = register_nmi_handler(NMI_LOCAL, in_nmi_handler, 0, "plumb_nesting");
	if (error) {
		plumb_unregister_events(&step, 1);
		return error;
	}
	for_each_online_cpu(cpu) {
		struct writers *own = &per_cpu(writers, cpu);

		tasklet_setup(&own->tasklet, in_tasklet);
		INIT_CSD(&own->call, in_call, NULL);
		own->thread = kthread_create_on_cpu(run, NULL, cpu, "nesting/%u");
		if (!IS_ERR(own->thread))
			wake_up_process(own->thread);
	}
	on_each_cpu(start_timer, NULL, 1);
	return 0;
}

static void __exit nesting_exit(void)
{
	int cpu, context;

	WRITE_ONCE(over, true);
	for_each_online_cpu(cpu) {
		struct writers *own = &per_cpu(writers, cpu);

		hrtimer_cancel(&own->timer);
		tasklet_kill(&own->tasklet);
		if (!IS_ERR(own->thread))
			kthread_stop(own->thread);
	}
	on_each_cpu(in_call, NULL, 1); /* behind those that are on their way */
	unregister_nmi_handler(NMI_LOCAL, "plumb_nesting");
	plumb_unregister_events(&step, 1);
	for_each_online_cpu(cpu)
		for (context = 0; context < CONTEXTS; context++)
			pr_info("plumb_nesting: cpu %d context %d: %llu\n", cpu, context,
				per_cpu(writers, cpu).numbers[context]);
}

module_init(nesting_init);
module_exit(nesting_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Writers that interrupt each other");
