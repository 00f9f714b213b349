// SPDX-License-Identifier: GPL-2.0
/*
 * A module with an event of its own, and a callback at one of the kernel's: each program that is executed is counted, and
 * recorded as example:example_program while somebody asks for it.
 *
 *   insmod plumb_example.ko
 *   plumb record -k 'example:*' --kernel-by module --duration 10s
 */
#include <linux/atomic.h>
#include <linux/binfmts.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "plumb_events.h"

static const struct plumb_event_field program_fields[] = {
	PLUMB_FIELD(u64, number),
	PLUMB_STRING(filename),
};
static struct plumb_module_event program = PLUMB_MODULE_EVENT("example", "example_program", program_fields);

/* As it is packed. */
struct __packed program_payload {
	u64 number;
	char filename[128];
};

static atomic64_t programs;

/* As the tracepoint calls it, behind `private`. */
static void executed(void *private, struct task_struct *task, pid_t old_pid, struct linux_binprm *binary)
{
	struct program_payload payload;
	size_t length;

	payload.number = atomic64_inc_return(&programs);
	if (!plumb_is_on(&program))
		return;
	length = strscpy_pad(payload.filename, binary->filename, sizeof(payload.filename)) < 0 ?
			 sizeof(payload.filename) - 1 :
			 strlen(payload.filename);
	plumb_record(&program, &payload, offsetof(struct program_payload, filename) + length + 1);
}

static struct plumb_probe probe = { .event = "sched:sched_process_exec", .callback = executed };

static int __init example_init(void)
{
	int error = plumb_register_events(&program, 1);

	if (error)
		return error;
	error = plumb_register_probes(&probe, 1);
	if (error)
		plumb_unregister_events(&program, 1);
	return error;
}

static void __exit example_exit(void)
{
	plumb_unregister_probes(&probe, 1);
	plumb_unregister_events(&program, 1);
	pr_info("plumb_example: %lld programs\n", atomic64_read(&programs));
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An event of its own in Plumb's traces");
