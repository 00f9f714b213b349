// SPDX-License-Identifier: GPL-2.0
/*
 * See kernel_probes.h. A probe's handler runs where it was hit, in whatever context that is, and may be hit again inside of a
 * writer: it writes as whoever interrupts a writer does. Its payload is put together in the room for a raw event, and
 * copied when its length is known.
 */
#include <linux/capability.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/record.h>

#include "compat.h"
#include "fetch.h"
#include "kernel_channel.h"
#include "kernel_probes.h"

/* Calls that may be in a function at once and are told when they return: the most that the kernel allows tracefs. */
#define RETURNS_MAX 4096

struct probe {
	struct list_head node;
	struct plumb_active_event active;
	bool is_return;
	struct kretprobe at; /* an entry has its kprobe alone */
	u32 fetch_count;
	struct plumb_kernel_fetch fetches[];
};

/* `first` and, of a return, `second`: where it was. */
static void record(const struct probe *probe, struct pt_regs *regs, u64 first, u64 second)
{
	struct plumb_writing writing;
	u8 *const raw = plumb_enter(&writing, &probe->active);
	struct plumb_fetching fetching = { .to = raw, .text_left = PLUMB_FETCH_TEXT_ROOM };

	if (!raw)
		return;
	memcpy(fetching.to, &first, sizeof(first));
	fetching.to += sizeof(first);
	if (probe->is_return) {
		memcpy(fetching.to, &second, sizeof(second));
		fetching.to += sizeof(second);
	}
	plumb_fetch(&fetching, probe->fetches, probe->fetch_count, regs);
	if (plumb_is_wanted(&probe->active, raw, fetching.to - raw))
		plumb_put_payload(&writing, probe->active.id, raw, fetching.to - raw);
	plumb_leave(&writing);
}

static int entered(struct kprobe *at, struct pt_regs *regs)
{
	record(container_of(at, struct probe, at.kp), regs, (unsigned long)at->addr, 0);
	return 0;
}

static int returned(struct kretprobe_instance *call, struct pt_regs *regs)
{
	struct kretprobe *const at = get_kretprobe(call);

	if (at)
		record(container_of(at, struct probe, at), regs, (unsigned long)at->kp.addr, get_kretprobe_retaddr(call));
	return 0;
}

static int check(const struct plumb_kernel_probe *request)
{
	u32 i;

	if (request->event_id < PLUMB_EVENT_ID_FIRST || request->event_id > U16_MAX || request->reserved ||
	    request->flags & ~(PLUMB_PROBE_RETURN | PLUMB_PROBE_CALL | PLUMB_PROBE_LATE) ||
	    request->fetch_count > PLUMB_FETCH_MAX ||
	    strnlen(request->symbol, sizeof(request->symbol)) == sizeof(request->symbol))
		return -EINVAL;
	for (i = 0; i < request->fetch_count; i++)
		if (!plumb_is_good_fetch(&request->fetches[i]))
			return -EINVAL;
	if (memchr_inv(&request->fetches[i], 0, sizeof(request->fetches[0]) * (PLUMB_FETCH_MAX - i)))
		return -EINVAL;
	if (request->flags & PLUMB_PROBE_CALL)
		return 0;
	if (request->flags & PLUMB_PROBE_LATE)
		return -EINVAL;
	if (request->flags & PLUMB_PROBE_RETURN && request->symbol[0] && request->offset)
		return -EINVAL;
	if (request->offset > UINT_MAX && request->symbol[0])
		return -EINVAL;
	return 0;
}

/* The kernel counts on from the function's begin into whatever follows it, and the event would have the wrong name. */
static bool is_in_its_function(const struct kprobe *at)
{
	char place[KSYM_SYMBOL_LEN]; /* "vfs_read+0x10/0x1a0" */
	const char *plus;
	unsigned long offset;

	if (!at->symbol_name || !at->offset)
		return true;
	sprint_symbol(place, (unsigned long)at->addr);
	plus = strrchr(place, '+');
	return plus && sscanf(plus, "+%lx", &offset) == 1 && offset == at->offset;
}

static int switch_on(struct probe *probe)
{
	int error;

	if (!probe->is_return) {
		probe->at.kp.pre_handler = entered;
		/* Where it stands is known once it is registered; until then it is not to be hit. */
		probe->at.kp.flags = KPROBE_FLAG_DISABLED;
		error = register_kprobe(&probe->at.kp);
		if (error)
			return error;
		error = is_in_its_function(&probe->at.kp) ? enable_kprobe(&probe->at.kp) : -EILSEQ;
		if (error)
			unregister_kprobe(&probe->at.kp);
		return error;
	}
	probe->at.handler = returned;
	probe->at.maxactive = RETURNS_MAX;
	return register_kretprobe(&probe->at);
}

static void free_probe(struct probe *probe)
{
	kfree(probe->at.kp.symbol_name);
	kvfree(probe);
}

static struct probe *make(const struct plumb_kernel_probe *request, struct plumb_kernel_channel_state *channel,
			  const struct plumb_filter *filter)
{
	struct probe *probe =
		kvzalloc(struct_size(probe, fetches, request->fetch_count), GFP_KERNEL_ACCOUNT);

	if (!probe)
		return NULL;
	probe->active.channel = channel;
	probe->active.id = request->event_id;
	probe->active.is_probe = true;
	probe->active.filter = filter;
	probe->is_return = request->flags & PLUMB_PROBE_RETURN;
	probe->fetch_count = request->fetch_count;
	memcpy(probe->fetches, request->fetches, request->fetch_count * sizeof(probe->fetches[0]));
	if (!request->symbol[0]) {
		probe->at.kp.addr = (kprobe_opcode_t *)request->offset;
		return probe;
	}
	probe->at.kp.offset = request->offset;
	probe->at.kp.symbol_name = kstrdup(request->symbol, GFP_KERNEL_ACCOUNT);
	if (probe->at.kp.symbol_name)
		return probe;
	free_probe(probe);
	return NULL;
}

static int add_function(struct plumb_kernel_probes *probes, struct plumb_kernel_channel_state *channel,
			const struct plumb_kernel_probe *request, const struct plumb_filter *filter)
{
	struct probe *probe = make(request, channel, filter);
	int error = probe ? switch_on(probe) : -ENOMEM;

	if (!error)
		list_add_tail(&probe->node, &probes->all);
	else if (probe)
		free_probe(probe);
	return error;
}

long plumb_add_kernel_probe(struct plumb_kernel_probes *probes, struct plumb_kernel_channel_state *channel,
			    struct xarray *filters, const struct plumb_kernel_probe __user *user)
{
	const struct plumb_filter *filter;
	struct plumb_kernel_probe *request;
	long error;

	/* What it fetches is any memory of the kernel. */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	error = security_locked_down(LOCKDOWN_KPROBES);
	if (error)
		return error;
	if (!channel)
		return -ENOTCONN;
	if (probes->count == PLUMB_KERNEL_PROBES_MAX)
		return -E2BIG;
	request = memdup_user(user, sizeof(*request));
	if (IS_ERR(request))
		return PTR_ERR(request);
	error = check(request);
	filter = error ? NULL : xa_load(filters, request->event_id);
	if (!error && request->flags & PLUMB_PROBE_CALL)
		error = plumb_add_kernel_call(&probes->calls, channel, request, filter);
	else if (!error)
		error = add_function(probes, channel, request, filter);
	if (!error)
		probes->count++;
	kfree(request);
	return error;
}

u64 plumb_missed_by_kernel_probes(const struct plumb_kernel_probes *probes)
{
	const struct probe *probe;
	u64 missed = 0;

	list_for_each_entry(probe, &probes->all, node)
		missed += probe->at.kp.nmissed + (probe->is_return ? probe->at.nmissed : 0);
	return missed;
}

/* One wait for all of them, if there is memory for the list; else one for each. */
void plumb_remove_kernel_probes(struct plumb_kernel_probes *probes)
{
	struct kprobe **entries = kvcalloc(probes->count + 1, sizeof(*entries), GFP_KERNEL);
	struct kretprobe **returns = kvcalloc(probes->count + 1, sizeof(*returns), GFP_KERNEL);
	struct probe *probe, *next;
	int entry_count = 0, return_count = 0;

	list_for_each_entry(probe, &probes->all, node) {
		if (entries && returns && probe->is_return)
			returns[return_count++] = &probe->at;
		else if (entries && returns)
			entries[entry_count++] = &probe->at.kp;
		else if (probe->is_return)
			unregister_kretprobe(&probe->at);
		else
			unregister_kprobe(&probe->at.kp);
	}
	if (entry_count)
		unregister_kprobes(entries, entry_count);
	if (return_count)
		unregister_kretprobes(returns, return_count);
	list_for_each_entry_safe(probe, next, &probes->all, node)
		free_probe(probe);
	INIT_LIST_HEAD(&probes->all);
	plumb_remove_kernel_calls(probes->calls);
	probes->calls = NULL;
	probes->count = 0;
	kvfree(entries);
	kvfree(returns);
}
