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
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/record.h>

#include "compat.h"
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

/* How far the payload has come. */
struct payload {
	u8 *to;
	size_t text_left;
};

static u64 register_of(const struct pt_regs *regs, u16 number)
{
	switch (number) {
	case PLUMB_REGISTER_AX:
		return regs->ax;
	case PLUMB_REGISTER_CX:
		return regs->cx;
	case PLUMB_REGISTER_DX:
		return regs->dx;
	case PLUMB_REGISTER_BX:
		return regs->bx;
	case PLUMB_REGISTER_SP:
		return kernel_stack_pointer((struct pt_regs *)regs);
	case PLUMB_REGISTER_BP:
		return regs->bp;
	case PLUMB_REGISTER_SI:
		return regs->si;
	case PLUMB_REGISTER_DI:
		return regs->di;
	case 8:
		return regs->r8;
	case 9:
		return regs->r9;
	case 10:
		return regs->r10;
	case 11:
		return regs->r11;
	case 12:
		return regs->r12;
	case 13:
		return regs->r13;
	case 14:
		return regs->r14;
	case 15:
		return regs->r15;
	case PLUMB_REGISTER_IP:
		return regs->ip;
	default:
		return regs->flags;
	}
}

static u64 source_of(const struct plumb_kernel_fetch *fetch, struct pt_regs *regs)
{
	switch (fetch->source) {
	case PLUMB_FETCH_REGISTER:
		return register_of(regs, fetch->number);
	case PLUMB_FETCH_STACK:
		return regs_get_kernel_stack_nth(regs, fetch->number);
	default:
		return fetch->value;
	}
}

/* False: nothing can be read there. It never faults. */
static bool read_memory(void *to, u64 address, size_t bytes, bool is_user)
{
	if (is_user || address < TASK_SIZE_MAX)
		return copy_from_user_nofault(to, (const void __user *)address, bytes) == 0;
	return copy_from_kernel_nofault(to, (const void *)address, bytes) == 0;
}

/* The address that the last step reads; false: one on the way can not be read. */
static bool last_address(const struct plumb_kernel_fetch *fetch, struct pt_regs *regs, u64 *address)
{
	u32 step;

	*address = source_of(fetch, regs) + fetch->offsets[0];
	for (step = 0; step + 1 < fetch->depth; step++) {
		u64 next;

		if (!read_memory(&next, *address, sizeof(next), fetch->flags & PLUMB_FETCH_USER(step)))
			return false;
		*address = next + fetch->offsets[step + 1];
	}
	return true;
}

static void put_integer(struct payload *payload, const struct plumb_kernel_fetch *fetch, struct pt_regs *regs)
{
	u64 value = 0, address;

	if (fetch->depth == 0)
		value = source_of(fetch, regs);
	else if (!last_address(fetch, regs, &address) ||
		 !read_memory(&value, address, fetch->size, fetch->flags & PLUMB_FETCH_USER(fetch->depth - 1)))
		value = 0;
	memcpy(payload->to, &value, fetch->size);
	payload->to += fetch->size;
}

/* Up to the end of what can be read at once: the next page may not be there, and need not be, if the text ends before it. */
static size_t bytes_at_once(u64 address, size_t most)
{
	return min_t(size_t, most, PAGE_SIZE - (address & ~PAGE_MASK));
}

/* The bytes of the text without its NUL, at most `most`; -1: it can not be read. */
static ssize_t read_text(u8 *to, u64 address, size_t most, bool is_user)
{
	size_t length = 0;

	while (length < most) {
		/* Little at first: most are short. */
		const size_t bytes = bytes_at_once(address + length, min_t(size_t, most - length, length ? 512 : 64));
		size_t found;

		if (!read_memory(to + length, address + length, bytes, is_user))
			return -1;
		found = strnlen(to + length, bytes);
		length += found;
		if (found < bytes)
			break;
	}
	return length;
}

static void put_text(struct payload *payload, const struct plumb_kernel_fetch *fetch, struct pt_regs *regs)
{
	static const char unreadable[] = "(fault)";
	const size_t most = payload->text_left - 1;
	ssize_t length = -1;
	u64 address;

	if (fetch->source == PLUMB_FETCH_COMM) {
		length = strnlen(current->comm, min_t(size_t, TASK_COMM_LEN, most));
		memcpy(payload->to, current->comm, length);
	} else if (last_address(fetch, regs, &address)) {
		length = read_text(payload->to, address, most, fetch->flags & PLUMB_FETCH_USER(fetch->depth - 1));
	}
	if (length < 0) {
		length = min(sizeof(unreadable) - 1, most);
		memcpy(payload->to, unreadable, length);
	}
	payload->to[length] = 0;
	payload->to += length + 1;
	payload->text_left -= length;
}

/* `first` and, of a return, `second`: where it was. */
static void record(const struct probe *probe, struct pt_regs *regs, u64 first, u64 second)
{
	struct plumb_writing writing;
	u8 *const raw = plumb_enter(&writing, &probe->active);
	struct payload payload = { .to = raw, .text_left = PLUMB_FETCH_TEXT_BYTES - PLUMB_FETCH_MAX };
	u32 i;
	u8 *to;

	if (!raw)
		return;
	memcpy(payload.to, &first, sizeof(first));
	payload.to += sizeof(first);
	if (probe->is_return) {
		memcpy(payload.to, &second, sizeof(second));
		payload.to += sizeof(second);
	}
	for (i = 0; i < probe->fetch_count; i++) {
		if (probe->fetches[i].type == PLUMB_FIELD_STRING)
			put_text(&payload, &probe->fetches[i], regs);
		else
			put_integer(&payload, &probe->fetches[i], regs);
	}
	to = plumb_reserve(&writing, probe->active.id, payload.to - raw);
	if (to)
		memcpy(to, raw, payload.to - raw);
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

static bool is_good_fetch(const struct plumb_kernel_fetch *fetch)
{
	const bool is_text = fetch->type == PLUMB_FIELD_STRING;
	const bool is_name = fetch->source == PLUMB_FETCH_COMM;

	if (fetch->source > PLUMB_FETCH_COMM || fetch->depth > PLUMB_FETCH_DEPTH_MAX ||
	    fetch->flags >= PLUMB_FETCH_USER(PLUMB_FETCH_DEPTH_MAX))
		return false;
	if (fetch->source == PLUMB_FETCH_REGISTER && fetch->number >= PLUMB_REGISTER_COUNT)
		return false;
	if (is_text)
		return fetch->size == 1 && is_name == (fetch->depth == 0);
	return fetch->type == PLUMB_FIELD_INTEGER && !is_name &&
	       (fetch->size == 1 || fetch->size == 2 || fetch->size == 4 || fetch->size == 8);
}

static int check(const struct plumb_kernel_probe *request)
{
	u32 i;

	if (request->event_id < PLUMB_EVENT_ID_FIRST || request->event_id > U16_MAX || request->reserved ||
	    request->flags & ~PLUMB_PROBE_RETURN || request->fetch_count > PLUMB_FETCH_MAX ||
	    strnlen(request->symbol, sizeof(request->symbol)) == sizeof(request->symbol))
		return -EINVAL;
	if (request->flags & PLUMB_PROBE_RETURN && request->symbol[0] && request->offset)
		return -EINVAL;
	if (request->offset > UINT_MAX && request->symbol[0])
		return -EINVAL;
	for (i = 0; i < request->fetch_count; i++)
		if (!is_good_fetch(&request->fetches[i]))
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
		error = register_kprobe(&probe->at.kp);
		if (error || is_in_its_function(&probe->at.kp))
			return error;
		unregister_kprobe(&probe->at.kp);
		return -EILSEQ;
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

static struct probe *make(const struct plumb_kernel_probe *request, struct plumb_kernel_channel_state *channel)
{
	struct probe *probe =
		kvzalloc(struct_size(probe, fetches, request->fetch_count), GFP_KERNEL_ACCOUNT);

	if (!probe)
		return NULL;
	probe->active.channel = channel;
	probe->active.id = request->event_id;
	probe->active.is_probe = true;
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

long plumb_add_kernel_probe(struct plumb_kernel_probes *probes, struct plumb_kernel_channel_state *channel,
			    const struct plumb_kernel_probe __user *user)
{
	struct plumb_kernel_probe *request;
	struct probe *probe = NULL;
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
	if (!error) {
		probe = make(request, channel);
		error = probe ? switch_on(probe) : -ENOMEM;
	}
	kfree(request);
	if (error) {
		if (probe)
			free_probe(probe);
		return error;
	}
	list_add_tail(&probe->node, &probes->all);
	probes->count++;
	return 0;
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
	probes->count = 0;
	kvfree(entries);
	kvfree(returns);
}
