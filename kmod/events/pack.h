/* SPDX-License-Identifier: GPL-2.0 */
/* What the stages lean on: packing the fields of a raw event. */
#ifndef PLUMB_KMOD_EVENTS_PACK_H
#define PLUMB_KMOD_EVENTS_PACK_H

#include <linux/kernel.h>
#include <linux/string.h>
#include <plumb/abi/event.h>

#include "../kernel_channel.h"
#include "../kernel_events.h"
#include "io_flags.h"

/* Beyond what was measured: a source that grows meanwhile is copied to its own end by some kernels (strcpy). */
#define PLUMB_RAW_SLACK 512

static __always_inline bool plumb_fits(struct plumb_writing *writing, size_t fixed, size_t dynamic)
{
	if (likely(fixed + dynamic + PLUMB_RAW_SLACK <= PLUMB_RAW_BYTES))
		return true;
	plumb_count_too_large(writing);
	return false;
}

/* An array that the location says, from `base` on: 16 bits of offset, 16 of length. */
static __always_inline const u8 *plumb_located(const void *base, u32 location)
{
	return (const u8 *)base + (location & 0xffff);
}

static __always_inline size_t plumb_text_bytes(const void *text, size_t most)
{
	return strnlen(text, most) + 1;
}

static __always_inline u8 *plumb_put(u8 *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

static __always_inline u8 *plumb_put_text(u8 *to, const void *text, size_t most)
{
	const size_t length = strnlen(text, most);

	memcpy(to, text, length);
	to[length] = 0;
	return to + length + 1;
}

/* What they mean, and they themselves. */
static __always_inline u8 *plumb_put_io_flags(u8 *to, const void *letters, size_t most)
{
	const u32 flags = plumb_io_flags(letters, most);

	to = plumb_put(to, &flags, sizeof(flags));
	return plumb_put_text(to, letters, most);
}

static __always_inline u8 *plumb_put_sequence(u8 *to, const void *from, size_t bytes, size_t element)
{
	const u16 count = bytes / element;

	to = plumb_put(to, &count, sizeof(count));
	return plumb_put(to, from, count * element);
}

#define PLUMB_IS_CHAR(type) __builtin_types_compatible_p(type, char)
/* What has no size of a number is bytes. */
#define PLUMB_IS_NUMBER(type) \
	(sizeof(type) == 1 || sizeof(type) == 2 || sizeof(type) == 4 || sizeof(type) == 8)
#define PLUMB_ELEMENT(type) (PLUMB_IS_NUMBER(type) ? sizeof(type) : 1)
#define PLUMB_IS_SIGNED(type) ((__force type)-1 < (__force type)1)
/* The letters that say what a block request is: packed as two fields, of which the second is these letters. */
#define PLUMB_IS_IO_FLAGS(item) (!__builtin_strcmp(#item, "rwbs"))
#define PLUMB_FLAGS(type) (PLUMB_IS_SIGNED(type) ? PLUMB_FIELD_SIGNED : 0)
#define PLUMB_ELEMENT_FLAGS(type) \
	(PLUMB_ELEMENT(type) == 1 ? PLUMB_FIELD_HEX : PLUMB_IS_SIGNED(type) ? PLUMB_FIELD_SIGNED : 0)

/* The events that are about threads besides the one that does it, by their class (plumb_is_about_others()), and their fields that name
 * these: as tracefs has it. */
#define PLUMB_IS_ABOUT(class, item)                                                          \
	((!__builtin_strcmp(class, "sched_switch") && !__builtin_strcmp(item, "next_pid")) || \
	 (!__builtin_strcmp(class, "sched_wakeup_template") && !__builtin_strcmp(item, "pid")))

#endif
