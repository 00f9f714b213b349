/* SPDX-License-Identifier: GPL-2.0 */
/* One process that was asked to hear of new rules, for whoever asks (updates.c). */
#ifndef PLUMB_KMOD_UPDATE_WORK_H
#define PLUMB_KMOD_UPDATE_WORK_H

#include <linux/list.h>
#include <linux/pid.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <plumb/abi/module.h>

struct update {
	struct hlist_node node;
	struct pid *pid;
	u32 signal_number;
	u64 value;
	kuid_t user; /* who asks: also the signal's */
	refcount_t users;
	spinlock_t lock; /* of all that follows */
	struct list_head works;
	size_t work_count;
	struct pid *sender; /* the process that asked last: who sends the signal */
	u32 blocked;
	u32 taken;
	atomic_t *works_of_user; /* or NULL: of root */
};

/* That of the caller's user for this signal and value, made if it is missing. The caller puts it when he does not look any more:
 * works that wait have it, too. */
struct update *plumb_get_update(struct pid *pid, const struct plumb_update *request);
void plumb_put_update(struct update *update);
/* From now on the signal is sent once. */
void plumb_begin_update(struct update *update);
/* Gives work to those threads that have none waiting; how many. -ENOSPC: the user has too much waiting. */
int plumb_ask_update(struct update *update, u32 *asked);
void plumb_tell_update(struct update *update, struct plumb_update *answer);

#endif
