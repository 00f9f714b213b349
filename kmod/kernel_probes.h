/* SPDX-License-Identifier: GPL-2.0 */
/* Probes of the kernel's functions and of system calls, of one recording: see <plumb/abi/kernel_probe.h>. */
#ifndef PLUMB_KMOD_KERNEL_PROBES_H
#define PLUMB_KMOD_KERNEL_PROBES_H

#include <linux/list.h>
#include <linux/types.h>
#include <plumb/abi/kernel_probe.h>

struct plumb_kernel_channel_state;
struct plumb_kernel_calls;
struct plumb_filter;
struct xarray;

struct plumb_kernel_probes {
	struct list_head all; /* of functions */
	struct plumb_kernel_calls *calls;
	u32 count; /* of both */
};

/* Whoever calls these holds a lock of the recording. `filters`: struct plumb_filter, by the id of an event; they stay until behind
 * plumb_remove_kernel_probes(). */
long plumb_add_kernel_probe(struct plumb_kernel_probes *probes, struct plumb_kernel_channel_state *channel,
			    struct xarray *filters, const struct plumb_kernel_probe __user *user);
u64 plumb_missed_by_kernel_probes(const struct plumb_kernel_probes *probes);
/* Behind it none is at work. */
void plumb_remove_kernel_probes(struct plumb_kernel_probes *probes);

/* kernel_calls.c: of a request that was looked at, as far as it is like that of a function. */
int plumb_add_kernel_call(struct plumb_kernel_calls **calls, struct plumb_kernel_channel_state *channel,
			  const struct plumb_kernel_probe *request, const struct plumb_filter *filter);
void plumb_remove_kernel_calls(struct plumb_kernel_calls *calls);

#endif
