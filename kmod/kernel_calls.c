// SPDX-License-Identifier: GPL-2.0
/*
 * System calls of one recording, each as an event of its own: what it was given, with the texts that it points to, and what it
 * returned. One probe at the kernel's sys_enter and one at its sys_exit look a call up by its number.
 *
 * A text whose page was not in memory when the call began is awaited: whoever makes the call leaves its number in a slot, finds it
 * there when the call returns, and looks again. Two threads of one slot take it from each other: a text is not told then. What
 * is awaited ends with its call, however that ends: left in its slot, it would be told of a later one, which has its texts.
 */
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <asm/compat.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include <plumb/abi/record.h>

#include "fetch.h"
#include "kernel_channel.h"
#include "kernel_events.h"
#include "kernel_probes.h"

#define AWAITED_BITS 8

struct call_probe {
	struct plumb_active_event active;
	struct plumb_kernel_probe request;
};

enum when { CALL_ENTRY, CALL_EXIT, CALL_LATE, WHENS };

struct plumb_kernel_calls {
	struct call_probe *probes[WHENS][NR_syscalls];
	struct tracepoint *enter, *exit;
	bool has_enter, has_exit; /* probes there */
	u64 awaited[1 << AWAITED_BITS]; /* see awaited_of() */
};

/*
 * Who waits for which texts of which call. execve() gives a thread the number of its process's first one, and another thread
 * may have that task's place in memory later: so a thread is told by both, the number above bits of the place.
 */
#define TEXT_BITS PLUMB_CALL_ARGUMENTS_MAX
#define TASK_SHIFT 16
#define TASK_BITS 26
#define PID_SHIFT (TASK_SHIFT + TASK_BITS)

static u64 awaited_of(u32 texts, long number)
{
	BUILD_BUG_ON(NR_syscalls > 1 << (TASK_SHIFT - TEXT_BITS) || PID_MAX_LIMIT > 1 << (64 - PID_SHIFT));
	return (u64)current->pid << PID_SHIFT | (u64)hash_ptr(current, TASK_BITS) << TASK_SHIFT | (u64)number << TEXT_BITS |
	       texts;
}

/* Whether it is by the task that runs, under whatever number. */
static bool is_of_this_task(u64 awaited)
{
	return awaited && (awaited >> TASK_SHIFT & ((1 << TASK_BITS) - 1)) == hash_ptr(current, TASK_BITS);
}

static u64 *awaited_slot(struct plumb_kernel_calls *calls)
{
	return &calls->awaited[hash_ptr(current, AWAITED_BITS)];
}

static const struct call_probe *probe_of(const struct plumb_kernel_calls *calls, enum when when, long number)
{
	/* Those of 32 bits have numbers of their own. */
	if (in_ia32_syscall() || number < 0 || number >= NR_syscalls)
		return NULL;
	return smp_load_acquire(&calls->probes[when][array_index_nospec(number, NR_syscalls)]);
}

/* How a comparison with a text that is still to come ends, nobody can say. */
static bool is_wanted(const struct call_probe *probe, const u8 *payload, size_t bytes, u32 unread)
{
	if (unread && probe->active.filter)
		return plumb_may_pass(probe->active.filter, payload, bytes, unread);
	return plumb_is_wanted(&probe->active, payload, bytes);
}

/* The texts that could not be read, of what is wanted, and written: told without it, they would be those of another call. */
static u32 record(const struct call_probe *probe, struct pt_regs *regs)
{
	struct plumb_writing writing;
	u8 *const raw = plumb_enter(&writing, &probe->active);
	struct plumb_fetching fetching = { .to = raw, .text_left = PLUMB_FETCH_TEXT_ROOM, .of_call = true };

	if (!raw)
		return 0;
	plumb_fetch(&fetching, probe->request.fetches, probe->request.fetch_count, regs);
	if (!is_wanted(probe, raw, fetching.to - raw, fetching.unread) ||
	    !plumb_put_payload(&writing, probe->active.id, raw, fetching.to - raw))
		fetching.unread = 0;
	plumb_leave(&writing);
	return fetching.unread;
}

static void entered(void *data, struct pt_regs *regs, long number)
{
	struct plumb_kernel_calls *calls = data;
	const struct call_probe *probe = probe_of(calls, CALL_ENTRY, number);
	u32 unread;

	if (!probe)
		return;
	unread = record(probe, regs);
	if (unread && calls->probes[CALL_LATE][number])
		WRITE_ONCE(*awaited_slot(calls), awaited_of(unread, number));
}

static void record_late(const struct call_probe *probe, u32 i, struct pt_regs *regs)
{
	struct plumb_writing writing;
	u8 *const raw = plumb_enter(&writing, &probe->active);
	struct plumb_fetching fetching = { .to = raw, .text_left = PLUMB_FETCH_TEXT_ROOM, .of_call = true };

	if (!raw)
		return;
	plumb_fetch_known(&fetching, probe->request.symbol);
	plumb_fetch_known(&fetching, probe->request.names[i]);
	plumb_fetch(&fetching, &probe->request.fetches[i], 1, regs);
	if (!fetching.unread)
		plumb_put_payload(&writing, probe->active.id, raw, fetching.to - raw);
	plumb_leave(&writing);
}

/* The texts that the entry of this call could not read; from now on none is awaited. */
static u32 take_awaited(struct plumb_kernel_calls *calls, long number)
{
	u64 *const slot = awaited_slot(calls);
	const u64 awaited = READ_ONCE(*slot);

	if (!is_of_this_task(awaited))
		return 0;
	WRITE_ONCE(*slot, 0);
	return awaited >> TEXT_BITS == awaited_of(0, number) >> TEXT_BITS ? awaited & ((1 << TEXT_BITS) - 1) : 0;
}

static void tell_late(struct plumb_kernel_calls *calls, struct pt_regs *regs, long number, u32 texts)
{
	const struct call_probe *probe = probe_of(calls, CALL_LATE, number);
	u32 i;

	if (!probe)
		return;
	/* Those of its entry, if whoever asked for both told the truth; behind them nothing was checked. */
	for (i = 0; i < probe->request.fetch_count; i++)
		if (texts & (1u << i))
			record_late(probe, i, regs);
}

static void returned(void *data, struct pt_regs *regs, long result)
{
	struct plumb_kernel_calls *calls = data;
	const long number = syscall_get_nr(current, regs);
	const struct call_probe *probe = probe_of(calls, CALL_EXIT, number);
	const u32 texts = take_awaited(calls, number);

	/* Another program has other memory. */
	if (texts && (result != 0 || (number != __NR_execve && number != __NR_execveat)))
		tell_late(calls, regs, number, texts);
	if (probe)
		record(probe, regs);
}

static int check(const struct plumb_kernel_probe *request)
{
	u32 i;

	if (request->offset >= NR_syscalls || request->fetch_count > PLUMB_CALL_ARGUMENTS_MAX)
		return -EINVAL;
	if (request->flags & PLUMB_PROBE_LATE && !(request->flags & PLUMB_PROBE_RETURN))
		return -EINVAL;
	for (i = 0; i < PLUMB_CALL_ARGUMENTS_MAX; i++)
		if (strnlen(request->names[i], sizeof(request->names[i])) == sizeof(request->names[i]))
			return -EINVAL;
	return 0;
}

static struct plumb_kernel_calls *make_calls(void)
{
	struct plumb_kernel_calls *calls = kvzalloc(sizeof(*calls), GFP_KERNEL_ACCOUNT);

	if (!calls)
		return NULL;
	calls->enter = plumb_tracepoint_of("raw_syscalls:sys_enter");
	calls->exit = plumb_tracepoint_of("raw_syscalls:sys_exit");
	return calls;
}

static int switch_on(struct plumb_kernel_calls *calls, enum when when)
{
	int error = 0;

	if (!calls->enter || !calls->exit)
		return -ENOENT;
	if (when == CALL_ENTRY && !calls->has_enter) {
		error = tracepoint_probe_register(calls->enter, entered, calls);
		calls->has_enter = !error;
	} else if (when != CALL_ENTRY && !calls->has_exit) {
		error = tracepoint_probe_register(calls->exit, returned, calls);
		calls->has_exit = !error;
	}
	return error;
}

int plumb_add_kernel_call(struct plumb_kernel_calls **calls, struct plumb_kernel_channel_state *channel,
			  const struct plumb_kernel_probe *request, const struct plumb_filter *filter)
{
	const enum when when = request->flags & PLUMB_PROBE_LATE	? CALL_LATE
			       : request->flags & PLUMB_PROBE_RETURN	? CALL_EXIT
									: CALL_ENTRY;
	struct call_probe *probe;
	int error = check(request);

	if (error)
		return error;
	if (!*calls)
		*calls = make_calls();
	if (!*calls)
		return -ENOMEM;
	if ((*calls)->probes[when][request->offset])
		return -EBUSY;
	error = switch_on(*calls, when);
	if (error)
		return error;
	probe = kzalloc(sizeof(*probe), GFP_KERNEL_ACCOUNT);
	if (!probe)
		return -ENOMEM;
	probe->active.channel = channel;
	probe->active.id = request->event_id;
	probe->active.filter = filter;
	probe->request = *request;
	smp_store_release(&(*calls)->probes[when][request->offset], probe);
	return 0;
}

void plumb_remove_kernel_calls(struct plumb_kernel_calls *calls)
{
	size_t when, number;

	if (!calls)
		return;
	if (calls->has_enter)
		tracepoint_probe_unregister(calls->enter, entered, calls);
	if (calls->has_exit)
		tracepoint_probe_unregister(calls->exit, returned, calls);
	tracepoint_synchronize_unregister();
	for (when = 0; when < WHENS; when++)
		for (number = 0; number < NR_syscalls; number++)
			kfree(calls->probes[when][number]);
	kvfree(calls);
}
