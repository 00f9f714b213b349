/* SPDX-License-Identifier: GPL-2.0 */
/* What a probe fetches, put behind each other as a record's payload has it: see <plumb/abi/kernel_probe.h>. */
#ifndef PLUMB_KMOD_FETCH_H
#define PLUMB_KMOD_FETCH_H

#include <linux/ptrace.h>
#include <linux/types.h>
#include <plumb/abi/kernel_probe.h>

/* How far a payload has come: at most 16 bytes, the integers, and PLUMB_FETCH_TEXT_BYTES of texts. */
struct plumb_fetching {
	u8 *to;
	size_t text_left; /* PLUMB_FETCH_TEXT_ROOM at first */
	u32 texts_to_come; /* behind the one that is fetched */
	bool of_call;     /* texts are told as those of system calls */
	u32 unread;       /* a bit for each fetch that is a text and could not be read */
};

/* Their NULs have room of their own. Each of the most that there may be has some 100 bytes. */
#define PLUMB_FETCH_TEXT_ROOM (PLUMB_FETCH_TEXT_BYTES - PLUMB_FETCH_MAX)

bool plumb_is_good_fetch(const struct plumb_kernel_fetch *fetch);
/* In any context; it never faults. */
void plumb_fetch(struct plumb_fetching *fetching, const struct plumb_kernel_fetch *fetches, u32 count, struct pt_regs *regs);
/* A text that is known, with its NUL. */
void plumb_fetch_known(struct plumb_fetching *fetching, const char *text);

#endif
