// SPDX-License-Identifier: GPL-2.0
/*
 * See kernel_channel.h. What is shared is written, and nothing of it is believed but `consumed`, which is only compared:
 * positions and geometry are kept apart from it (channel_state.h), since the channel was opened (channel_file.c).
 */
#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/threads.h>
#include <linux/timekeeping.h>
#include <asm/msr.h>
#include <plumb/abi/channel.h>
#include <plumb/abi/kernel_events.h>

#include "channel_state.h"
#include "compat.h"

static nokprobe_inline u64 now(enum plumb_clock_mode clock)
{
	switch (clock) {
	case PLUMB_CLOCK_TSC:
		return rdtsc_ordered();
	case PLUMB_CLOCK_BOOTTIME:
		return ktime_get_boot_fast_ns();
	case PLUMB_CLOCK_REALTIME:
		return ktime_get_real_fast_ns();
	default:
		return ktime_get_mono_fast_ns();
	}
}

/* By any CPU, and by readers that look. */
static nokprobe_inline void count(struct plumb_ring *ring, enum plumb_loss cause)
{
	atomic64_inc((atomic64_t *)&ring->control->lost[cause]);
}

void plumb_count_too_large(struct plumb_writing *writing)
{
	count(writing->ring, PLUMB_LOST_TOO_LARGE);
}

/*
 * Whether everything before `boundary` may be written. In overwrite mode what is there is dropped by that; but who interrupts a
 * writer goes no further ahead of what is published than readers believe of `limit`: two sub-buffers.
 */
static nokprobe_inline bool has_room(const struct plumb_ring *ring, u64 boundary, enum plumb_loss *cause)
{
	const struct plumb_kernel_channel_state *channel = ring->channel;

	*cause = PLUMB_LOST_CONTENDED;
	if (boundary - READ_ONCE(ring->published) > 2 * (u64)channel->subbuf_bytes)
		return false;
	if (channel->mode == PLUMB_MODE_OVERWRITE)
		return true;
	*cause = PLUMB_LOST_FULL;
	return boundary - smp_load_acquire(&ring->control->consumed) <= channel->ring_bytes;
}

/* Before anything is written below it: who copies what was there looks at it again. */
static nokprobe_inline void raise_limit(struct plumb_ring *ring, u64 boundary)
{
	u64 *limit = &ring->control->limit;
	u64 there = READ_ONCE(*limit);
	int tries;

	/* Again if somebody has interrupted us here; more often than that, it is written by who should not. */
	for (tries = 0; there < boundary && tries < 2 * PLUMB_NESTING_MAX; tries++) {
		const u64 seen = cmpxchg_local(limit, there, boundary);

		if (seen == there)
			break;
		there = seen;
	}
	smp_wmb();
}

static nokprobe_inline void put_header(u8 *at, u64 time, u16 event_id, u16 length, u32 thread_id)
{
	struct plumb_record *record = (struct plumb_record *)at;

	record->timestamp = time;
	record->event_id = event_id;
	record->length = length;
	record->thread_id = thread_id;
}

static nokprobe_inline u8 *place(const struct plumb_ring *ring, u64 position)
{
	return ring->data + (position & (ring->channel->ring_bytes - 1));
}

u8 *plumb_reserve(struct plumb_writing *writing, u16 event_id, size_t payload_bytes)
{
	struct plumb_ring *ring = writing->ring;
	struct plumb_kernel_channel_state *channel = ring->channel;
	const u32 mask = channel->subbuf_bytes - 1;
	const size_t length = PLUMB_RECORD_HEADER_BYTES + payload_bytes;
	const size_t bytes = ALIGN(length, PLUMB_RECORD_ALIGNMENT);
	enum plumb_loss cause = PLUMB_LOST_TOO_LARGE;
	const bool was_reserving = ring->is_reserving;
	u64 begin, at, end, time;

	if (bytes > channel->record_limit) {
		count(ring, cause);
		return NULL;
	}
	/* Whoever interrupts us writes, and we try again. A probe in what is called here would be hit each time, without end. */
	if (!was_reserving)
		WRITE_ONCE(ring->reserved_before, 0);
	WRITE_ONCE(ring->is_reserving, true);
	barrier();
	for (;;) {
		begin = READ_ONCE(ring->reserved);
		at = begin;
		if ((begin & mask) + bytes > channel->subbuf_bytes)
			at = (begin | mask) + 1;
		end = at + bytes;
		if ((at & mask) == 0) {
			const u64 boundary = at + channel->subbuf_bytes;

			if (!has_room(ring, boundary, &cause))
				goto lost;
			raise_limit(ring, boundary);
		}
		/* Between: whoever comes in, and reads the clock later, has moved `reserved`. */
		time = now(channel->clock);
		if (cmpxchg_local(&ring->reserved, begin, end) == begin)
			break;
		WRITE_ONCE(ring->reserved_before, READ_ONCE(ring->reserved_before) + 1);
	}
	WRITE_ONCE(ring->is_reserving, was_reserving);
	if (at - begin >= PLUMB_RECORD_HEADER_BYTES)
		put_header(place(ring, begin), time, PLUMB_EVENT_ID_PADDING, PLUMB_RECORD_HEADER_BYTES, at - begin);
	if ((at & mask) == 0)
		WRITE_ONCE(ring->has_entered, true);
	put_header(place(ring, at), time, event_id, length, current->pid);
	return place(ring, at) + PLUMB_RECORD_HEADER_BYTES;
lost:
	WRITE_ONCE(ring->is_reserving, was_reserving);
	count(ring, cause);
	return NULL;
}
NOKPROBE_SYMBOL(plumb_reserve);

/* Whether a thread does it, and no interrupt that came to it. A probe's trap counts as one itself. */
static nokprobe_inline bool is_of_thread(bool is_probe)
{
	const unsigned int trap = is_probe && in_nmi() ? NMI_OFFSET + HARDIRQ_OFFSET : 0;

	return !((preempt_count() - trap) & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET));
}

/* Each call by which what was recorded is written would be one more event to write. */
static nokprobe_inline bool is_of_recorder(const struct plumb_kernel_channel_state *channel, bool is_probe)
{
	return current->tgid == READ_ONCE(channel->recorder) && is_of_thread(is_probe);
}

static nokprobe_inline bool is_followed(const unsigned long *followed, pid_t thread)
{
	return !followed || ((u32)thread < PID_MAX_LIMIT && test_bit(thread, followed));
}

bool plumb_is_followed(const struct plumb_writing *writing, const void *number, size_t bytes)
{
	pid_t thread;

	if (bytes != sizeof(thread))
		return false;
	memcpy(&thread, number, sizeof(thread));
	return is_followed(READ_ONCE(writing->ring->channel->followed), thread);
}

/*
 * Whether a writer who is about to take bytes on this CPU is to be left alone: by probes, which what he calls may hit again and again;
 * and by everybody who comes in again and again, as other modules' events from a callback in what he calls.
 */
static nokprobe_inline bool is_left_alone(const struct plumb_ring *ring, bool is_probe)
{
	return READ_ONCE(ring->is_reserving) && (is_probe || READ_ONCE(ring->reserved_before) > PLUMB_NESTING_MAX);
}

void *plumb_enter(struct plumb_writing *writing, const struct plumb_active_event *event)
{
	struct plumb_kernel_channel_state *channel = event->channel;
	struct plumb_ring *ring;

	if (!READ_ONCE(channel->is_open) || (!event->of_recorder_too && is_of_recorder(channel, event->is_probe)))
		return NULL;
	writing->is_of_other = !event->of_everybody && !is_followed(smp_load_acquire(&channel->followed), current->pid);
	if (writing->is_of_other && !event->is_about_others)
		return NULL;
	preempt_disable_notrace();
	ring = this_cpu_ptr(channel->rings);
	if (is_left_alone(ring, event->is_probe)) {
		atomic64_inc(&ring->missed);
		preempt_enable_notrace();
		return NULL;
	}
	writing->ring = ring;
	/* Who comes in here has left again before we go on. */
	writing->level = READ_ONCE(ring->level);
	if (likely(ring->control && writing->level < PLUMB_NESTING_MAX)) {
		WRITE_ONCE(ring->level, writing->level + 1);
		barrier();
		return ring->raw + writing->level * PLUMB_RAW_BYTES;
	}
	/* A CPU without a ring of its own has its losses told at the first one's. */
	count(ring->control ? ring : per_cpu_ptr(channel->rings, 0), PLUMB_LOST_CONTENDED);
	preempt_enable_notrace();
	return NULL;
}
NOKPROBE_SYMBOL(plumb_enter);

u8 *plumb_filtering_room(const struct plumb_writing *writing)
{
	return writing->ring->filtering + writing->level * PLUMB_RAW_BYTES;
}

static nokprobe_inline void tell_readers(struct plumb_ring *ring)
{
	struct plumb_kernel_channel_state *channel = ring->channel;

	WRITE_ONCE(ring->has_entered, false);
	atomic64_inc(&channel->entered);
	if (wq_has_sleeper(channel->queue))
		irq_work_queue(&channel->tell);
}

void plumb_leave(struct plumb_writing *writing)
{
	struct plumb_ring *ring = writing->ring;
	u64 reserved;

	barrier();
	if (writing->level == 0) {
		/* Those that came in since have left theirs to us, unless they found nobody at work. */
		do {
			WRITE_ONCE(ring->level, 1);
			barrier();
			reserved = READ_ONCE(ring->reserved);
			WRITE_ONCE(ring->published, reserved);
			smp_store_release(&ring->control->write_pos, reserved);
			barrier();
			WRITE_ONCE(ring->level, 0);
			barrier();
		} while (READ_ONCE(ring->reserved) != READ_ONCE(ring->published));
		if (READ_ONCE(ring->has_entered))
			tell_readers(ring);
	} else {
		WRITE_ONCE(ring->level, writing->level);
	}
	preempt_enable_notrace();
}
/* Each record that a probe writes in the loop above is one more turn of it. */
NOKPROBE_SYMBOL(plumb_leave);

void plumb_open_to_writers(struct plumb_kernel_channel_state *channel, bool is_open)
{
	WRITE_ONCE(channel->is_open, is_open);
}

void plumb_limit_writers(struct plumb_kernel_channel_state *channel, const unsigned long *followed)
{
	smp_store_release(&channel->followed, followed);
}

u64 plumb_missed_by_writers(const struct plumb_kernel_channel_state *channel)
{
	u64 missed = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		missed += atomic64_read(&per_cpu_ptr(channel->rings, cpu)->missed);
	return missed;
}

u64 plumb_take_entered(struct plumb_kernel_channel_state *channel)
{
	return atomic64_xchg(&channel->entered, 0);
}

bool plumb_has_entered(struct plumb_kernel_channel_state *channel)
{
	return atomic64_read(&channel->entered) != 0;
}
