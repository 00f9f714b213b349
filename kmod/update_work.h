/* SPDX-License-Identifier: GPL-2.0 */
/* One process that was asked to hear of new rules, for whoever asks (updates.c). */
#ifndef PLUMB_KMOD_UPDATE_WORK_H
#define PLUMB_KMOD_UPDATE_WORK_H

#include <linux/list.h>
#include <linux/pid.h>
#include <linux/refcount.h>
#include <linux/signal_types.h>
#include <linux/spinlock.h>
#include <plumb/abi/module.h>

struct update {
	struct hlist_node node; /* of who asks */
	struct pid *pid;
	refcount_t users;
	spinlock_t lock; /* of all that follows */
	struct list_head works;
	size_t work_count;
	struct kernel_siginfo signal;
	u32 blocked;
	u32 taken;
	atomic_t *works_of_user; /* or NULL: of root */
};

/* Of the caller, who may put it when he does not look any more: works that wait have it, too. */
struct update *plumb_make_update(struct pid *pid);
void plumb_put_update(struct update *update);
/* From now on it is this signal that is sent, once. */
void plumb_begin_update(struct update *update, const struct plumb_update *request);
/* Gives work to those threads that have none waiting; how many. -ENOSPC: the user has too much waiting. */
int plumb_ask_update(struct update *update, u32 *asked);
void plumb_tell_update(struct update *update, struct plumb_update *answer);

#endif
