/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a kernel's channel consists of here: for who opens it (channel_file.c) and who writes it (kernel_channel.c), and nobody else.
 */
#ifndef PLUMB_KMOD_CHANNEL_STATE_H
#define PLUMB_KMOD_CHANNEL_STATE_H

#include <linux/irq_work.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <plumb/abi/channel.h>

#include "kernel_channel.h"

/* One CPU's. Its words are its own: written by it alone, from whatever context. */
struct plumb_ring {
	struct plumb_kernel_channel_state *channel;
	struct plumb_ring_control *control; /* shared */
	u8 *data;                           /* shared */
	unsigned long reserved;             /* up to here, writers have taken bytes */
	unsigned long published;            /* up to here, readers may read */
	unsigned int level;                 /* writers that are at work */
	bool has_entered;                   /* a sub-buffer, since the last was told of it */
	bool is_reserving;                  /* a writer is about to move `reserved` */
	unsigned int reserved_before;       /* how often others have, since the first that is at it now began */
	atomic64_t missed;                  /* by those that were sent away meanwhile */
	u8 *raw;                            /* PLUMB_NESTING_MAX times PLUMB_RAW_BYTES */
	u8 *filtering;                      /* as many; NULL: no event has a filter */
};

#define PLUMB_RECORDER_IS_NOBODY ((pid_t)-1)

struct plumb_kernel_channel_state {
	struct plumb_channel_header *header; /* shared, and mapped with all behind it */
	struct page **pages;
	size_t page_count;
	struct plumb_ring __percpu *rings;
	u32 ring_count;
	u32 subbuf_bytes;
	u64 ring_bytes;
	u32 record_limit;
	pid_t recorder; /* a process, whose own doings are left out; PLUMB_RECORDER_IS_NOBODY: it has closed its descriptor */
	bool is_open;
	const unsigned long *followed; /* NULL: everybody */
	enum plumb_ring_mode mode;
	enum plumb_clock_mode clock;
	atomic64_t entered;
	struct irq_work tell;
	wait_queue_head_t *queue; /* of who gave the channel */
};

#endif
