// SPDX-License-Identifier: GPL-2.0
/*
 * The system call. A number for which there is no call, but which lies within the table, leads to __x64_sys_ni_syscall().
 * A kprobe at its entry sends those who come with our number to plumb_syscall() instead, which has the same parameter and
 * returns to the same caller. The kprobe has a post_handler, which it does not need: with one, it is never optimised to a
 * jump, in which the instruction pointer could not be changed.
 *
 * Leaving. A call keeps the module while it is answered, which may be for ever, as where its argument lies in a page that
 * somebody does not bring in. Who is on the way there, or behind it, is counted in `calls` from the kprobe on. Unloading takes the kprobe
 * away, waits until nobody is counted, and then for all tasks to have been scheduled: the last instructions of
 * plumb_syscall() are run by somebody who is not counted any more.
 */
#include <asm/syscall_wrapper.h>
#include <linux/completion.h>
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu-refcount.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <plumb/abi/module.h>

#include "plumb.h"

#define SELF_TEST_ANSWER 0x504c4d42L

static struct percpu_ref calls;
static DECLARE_COMPLETION(all_have_left);
static bool is_taken;
/* Of the self-test: who comes with these is answered at once. */
static struct pt_regs *test_registers;

static long answer(const struct pt_regs *registers)
{
	long result;

	if (registers == READ_ONCE(test_registers))
		return SELF_TEST_ANSWER;
	if (!try_module_get(THIS_MODULE))
		return -ENOSYS;
	result = plumb_operate(registers->di, (void __user *)registers->si, registers->dx);
	module_put(THIS_MODULE);
	return result;
}

static asmlinkage long plumb_syscall(const struct pt_regs *registers)
{
	const long result = answer(registers);

	percpu_ref_put(&calls);
	return result;
}

static int redirect(struct kprobe *probe, struct pt_regs *at)
{
	const struct pt_regs *registers = (const struct pt_regs *)at->di;

	if (registers->orig_ax != PLUMB_SYSCALL || !percpu_ref_tryget_live(&calls))
		return 0;
	at->ip = (unsigned long)plumb_syscall;
	return 1;
}
NOKPROBE_SYMBOL(redirect);

static void not_optimised(struct kprobe *probe, struct pt_regs *at, unsigned long flags)
{
}

static struct kprobe entry = {
	.symbol_name = "__x64_sys_ni_syscall",
	.pre_handler = redirect,
	.post_handler = not_optimised,
};

static void last_has_left(struct percpu_ref *ref)
{
	complete(&all_have_left);
}

/* Of the probed function: a kprobe stands behind the ENDBR that it begins with, where a processor that tracks branches must arrive. */
static void *first_instruction(void)
{
	static const u8 endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	u8 *before = (u8 *)entry.addr - sizeof(endbr64);

	return memcmp(before, endbr64, sizeof(endbr64)) ? (void *)entry.addr : before;
}

/* Whether who comes with our number comes to us. */
static bool arrives(void)
{
	long (*no_such_call)(const struct pt_regs *registers) = first_instruction();
	struct pt_regs registers = { .orig_ax = PLUMB_SYSCALL };
	long result;

	WRITE_ONCE(test_registers, &registers);
	result = no_such_call(&registers);
	WRITE_ONCE(test_registers, NULL);
	return result == SELF_TEST_ANSWER;
}

static void give_back(void)
{
	unregister_kprobe(&entry);
	percpu_ref_kill(&calls);
	wait_for_completion(&all_have_left);
	synchronize_rcu_tasks();
	percpu_ref_exit(&calls);
}

int plumb_take_syscall(void)
{
	int error = percpu_ref_init(&calls, last_has_left, 0, GFP_KERNEL);

	if (error)
		return error;
	error = register_kprobe(&entry);
	if (error) {
		percpu_ref_exit(&calls);
		return error;
	}
	if (!arrives()) {
		give_back();
		return -ENOSYS;
	}
	WRITE_ONCE(is_taken, true);
	return 0;
}

void plumb_give_back_syscall(void)
{
	if (!is_taken)
		return;
	WRITE_ONCE(is_taken, false);
	give_back();
}

bool plumb_has_syscall(void)
{
	return READ_ONCE(is_taken);
}
