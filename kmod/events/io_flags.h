/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a block request is, as the kernel's blk_fill_rwbs() spells it (F if the cache is flushed before, the operation, and
 * then what else holds), as the bits that LTTng and Trace Compass know.
 */
#ifndef PLUMB_KMOD_EVENTS_IO_FLAGS_H
#define PLUMB_KMOD_EVENTS_IO_FLAGS_H

#include <linux/string.h>
#include <linux/types.h>

enum plumb_io_flag {
	PLUMB_IO_WRITE = 1u << 0,
	PLUMB_IO_DISCARD = 1u << 1,
	PLUMB_IO_READ = 1u << 2,
	PLUMB_IO_READ_AHEAD = 1u << 3,
	PLUMB_IO_SYNC = 1u << 5,
	PLUMB_IO_META = 1u << 6,
	PLUMB_IO_SECURE = 1u << 7,
	PLUMB_IO_FLUSH = 1u << 8,
	PLUMB_IO_THROUGH = 1u << 9, /* FUA: not only into the cache */
	PLUMB_IO_FLUSH_BEFORE = 1u << 10
};

static inline u32 plumb_io_operation(char letter)
{
	switch (letter) {
	case 'W':
		return PLUMB_IO_WRITE;
	case 'R':
		return PLUMB_IO_READ;
	case 'F':
		return PLUMB_IO_FLUSH;
	case 'D':
		return PLUMB_IO_DISCARD;
	default:
		return 0;
	}
}

static inline u32 plumb_io_condition(char letter)
{
	switch (letter) {
	case 'F':
		return PLUMB_IO_THROUGH;
	case 'A':
		return PLUMB_IO_READ_AHEAD;
	case 'S':
		return PLUMB_IO_SYNC;
	case 'M':
		return PLUMB_IO_META;
	default:
		return 0;
	}
}

static inline u32 plumb_io_flags(const char *letters, size_t most)
{
	const size_t count = strnlen(letters, most);
	size_t at = 0;
	u32 flags = 0;
	char operation;

	if (count > 1 && letters[0] == 'F' && strchr("WDRNZF", letters[1])) {
		flags |= PLUMB_IO_FLUSH_BEFORE;
		at++;
	}
	if (at == count)
		return flags;
	operation = letters[at++];
	flags |= plumb_io_operation(operation);
	if (operation == 'D' && at < count && letters[at] == 'E') {
		flags |= PLUMB_IO_SECURE;
		at++;
	} else if (operation == 'Z' && at < count) {
		at++;
	}
	while (at < count)
		flags |= plumb_io_condition(letters[at++]);
	return flags;
}

#endif
