/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A channel that the kernel writes to, and how a record gets into it.
 *
 *   struct plumb_writing writing;
 *   raw = plumb_enter(&writing, event);
 *   if (!raw)
 *           return;
 *   ... the event as it is given, to `raw`; if writing.is_of_other, and nobody whom it is about is followed, plumb_leave() ...
 *   to = plumb_begin_payload(&writing, event, bytes);
 *   if (to) {
 *           ... its payload, of so many bytes, to `to` ...
 *           plumb_end_payload(&writing, event, to, bytes);
 *   }
 *   plumb_leave(&writing);
 *
 * From process, softirq, hard interrupt and NMI context, nested in each other; interrupts stay on, and nothing is atomic but on
 * its own CPU. A writer takes its bytes by moving `reserved`; who is interrupted between that and the end of its record lets
 * those that interrupt it write behind it, and publishes for all of them when it ends: `write_pos` moves with the outermost
 * one alone, so what a reader sees is whole, and in the order of time.
 */
#ifndef PLUMB_KMOD_KERNEL_CHANNEL_H
#define PLUMB_KMOD_KERNEL_CHANNEL_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include <linux/types.h>

#include "filter.h"

/* Process, softirq, hard interrupt, NMI, what may fault in one of them; and in each of these, a probe in what the writer calls. */
#define PLUMB_NESTING_MAX 10
/* Of one level's raw event, before it is packed. */
#define PLUMB_RAW_BYTES 4096

struct plumb_kernel_channel_state;
struct plumb_ring;

/* An event that is on: what its probe is registered with. */
struct plumb_active_event {
	struct plumb_kernel_channel_state *channel;
	u16 id;
	bool of_recorder_too;   /* also where the recorder itself is the one that does it */
	bool is_probe;          /* hit in whatever is called, perhaps by a trap */
	bool of_everybody;      /* whoever is followed */
	bool is_about_others;   /* threads that its fields name, and not only the one that does it */
	const struct plumb_filter *filter; /* NULL: every record */
	struct hlist_node node; /* of those of a module's event */
};

struct plumb_writing {
	struct plumb_ring *ring;
	u32 level;
	bool is_of_other; /* the recording follows some threads, and not this one; of events about others alone */
};

/* Room for a raw event on this CPU, at this level; NULL if the recording has not begun, or does not follow this thread, or it is what the recorder does to
 * record, or, counted, if writers are nested too deep, or a probe was hit by what plumb_reserve() calls, or somebody else came in there again and again. Preemption is off until
 * plumb_leave(), which must follow unless it was NULL. */
void *plumb_enter(struct plumb_writing *writing, const struct plumb_active_event *event);
/* Where the payload of a record goes; NULL, and counted, if there is no room. */
u8 *plumb_reserve(struct plumb_writing *writing, u16 event_id, size_t payload_bytes);
/* Room for a payload that is filtered, of PLUMB_RAW_BYTES. */
u8 *plumb_filtering_room(const struct plumb_writing *writing);
/* Publishes what was reserved, if nobody is interrupted. */
void plumb_leave(struct plumb_writing *writing);
static inline bool plumb_is_wanted(const struct plumb_active_event *event, const void *payload, size_t bytes)
{
	return likely(!event->filter) || plumb_passes(event->filter, payload, bytes);
}
/* A payload that is there as it is to be, and is wanted. False, and counted: there is no room. */
static inline bool plumb_put_payload(struct plumb_writing *writing, u16 event_id, const void *payload, size_t bytes)
{
	u8 *to = plumb_reserve(writing, event_id, bytes);

	if (to)
		memcpy(to, payload, bytes);
	return to;
}
/* One that is made where it lies, if there is no filter. NULL: as of plumb_reserve(). */
static inline u8 *plumb_begin_payload(struct plumb_writing *writing, const struct plumb_active_event *event, size_t bytes)
{
	return likely(!event->filter) ? plumb_reserve(writing, event->id, bytes) : plumb_filtering_room(writing);
}
/* `payload`: what plumb_begin_payload() gave. */
static inline void plumb_end_payload(struct plumb_writing *writing, const struct plumb_active_event *event, const u8 *payload,
				     size_t bytes)
{
	if (unlikely(event->filter) && plumb_passes(event->filter, payload, bytes))
		plumb_put_payload(writing, event->id, payload, bytes);
}
/* A thread that an event names: where writing->is_of_other. */
bool plumb_is_followed(const struct plumb_writing *writing, const void *number, size_t bytes);
/* A raw event was larger than its room. */
void plumb_count_too_large(struct plumb_writing *writing);

/* Of the file behind this descriptor. ERR_PTR otherwise. Who waits in `queue` is woken when a sub-buffer is entered. */
struct plumb_kernel_channel_state *plumb_open_kernel_channel(int descriptor, struct wait_queue_head *queue);
/* Until then, and from then on, who comes to write is sent away. */
void plumb_open_to_writers(struct plumb_kernel_channel_state *channel, bool is_open);
/* From then on, only threads of these numbers (followed.h). They must stay until no writer can come any more. */
void plumb_limit_writers(struct plumb_kernel_channel_state *channel, const unsigned long *followed);
/* Before a filter is there. -ENOMEM */
int plumb_make_filtering_room(struct plumb_kernel_channel_state *channel);
/* When no writer can come any more. */
void plumb_close_kernel_channel(struct plumb_kernel_channel_state *channel);

/* Hits of probes, and other modules' events, that found a writer whom they may not interrupt, or not once more. */
u64 plumb_missed_by_writers(const struct plumb_kernel_channel_state *channel);

/* Sub-buffers entered since the last call. */
u64 plumb_take_entered(struct plumb_kernel_channel_state *channel);
bool plumb_has_entered(struct plumb_kernel_channel_state *channel);

#endif
