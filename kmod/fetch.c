// SPDX-License-Identifier: GPL-2.0
/* See fetch.h. */
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "fetch.h"

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

static void put_integer(struct plumb_fetching *fetching, const struct plumb_kernel_fetch *fetch, struct pt_regs *regs)
{
	u64 value = 0, address;

	if (fetch->depth == 0)
		value = source_of(fetch, regs);
	else if (!last_address(fetch, regs, &address) ||
		 !read_memory(&value, address, fetch->size, fetch->flags & PLUMB_FETCH_USER(fetch->depth - 1)))
		value = 0;
	memcpy(fetching->to, &value, fetch->size);
	fetching->to += fetch->size;
}

/* Up to the end of what can be read at once: the next page may not be there, and need not be, if the text ends before it. */
static size_t bytes_at_once(u64 address, size_t most)
{
	return min_t(size_t, most, PAGE_SIZE - (address & ~PAGE_MASK));
}

/* The bytes of the text that were read, at most `most`; *is_whole: its end was among them. */
static size_t read_text(u8 *to, u64 address, size_t most, bool is_user, bool *is_whole)
{
	size_t length = 0;

	*is_whole = false;
	while (length < most) {
		/* Little at first: most are short. */
		const size_t bytes = bytes_at_once(address + length, min_t(size_t, most - length, length ? 512 : 64));
		size_t found;

		if (!read_memory(to + length, address + length, bytes, is_user))
			break;
		found = strnlen(to + length, bytes);
		length += found;
		if (found < bytes) {
			*is_whole = true;
			break;
		}
	}
	return length;
}

/* So many bytes that are there already, and a NUL. */
static void end_text(struct plumb_fetching *fetching, size_t length)
{
	fetching->to[length] = 0;
	fetching->to += length + 1;
	fetching->text_left -= length;
}

void plumb_fetch_known(struct plumb_fetching *fetching, const char *text)
{
	const size_t length = strnlen(text, fetching->text_left);

	memcpy(fetching->to, text, length);
	end_text(fetching, length);
}

/* So that one that is long leaves something to those that follow: what they need mostly, or an equal part. */
static size_t room_of_text(const struct plumb_fetching *fetching)
{
	const size_t part = fetching->text_left / (fetching->texts_to_come + 1);

	return fetching->text_left - fetching->texts_to_come * min_t(size_t, part, 256);
}

static void put_text(struct plumb_fetching *fetching, const struct plumb_kernel_fetch *fetch, u32 bit,
		     struct pt_regs *regs)
{
	static const char goes_on[] = "...";
	const size_t room = room_of_text(fetching);
	size_t length = 0;
	u64 address = 0;
	bool is_whole = false;

	if (fetch->source == PLUMB_FETCH_COMM) {
		plumb_fetch_known(fetching, current->comm);
		return;
	}
	if (last_address(fetch, regs, &address))
		length = read_text(fetching->to, address, room,
				   fetch->flags & PLUMB_FETCH_USER(fetch->depth - 1), &is_whole);
	if (!is_whole && length == 0) {
		const bool is_null = fetching->of_call && address == 0;

		if (!is_null)
			fetching->unread |= bit;
		plumb_fetch_known(fetching, is_null ? "(null)" : fetching->of_call ? "(not read)" : "(fault)");
		return;
	}
	if (!is_whole) {
		/* In the place of its last bytes, where there is no other. */
		length = min(length, room - (sizeof(goes_on) - 1));
		memcpy(fetching->to + length, goes_on, sizeof(goes_on) - 1);
		length += sizeof(goes_on) - 1;
	}
	end_text(fetching, length);
}

void plumb_fetch(struct plumb_fetching *fetching, const struct plumb_kernel_fetch *fetches, u32 count, struct pt_regs *regs)
{
	u32 i;

	for (i = 0; i < count; i++)
		fetching->texts_to_come += fetches[i].type == PLUMB_FIELD_STRING;
	for (i = 0; i < count; i++) {
		if (fetches[i].type == PLUMB_FIELD_STRING)
			fetching->texts_to_come--;
		if (fetches[i].type == PLUMB_FIELD_STRING)
			put_text(fetching, &fetches[i], 1u << i, regs);
		else
			put_integer(fetching, &fetches[i], regs);
	}
}

bool plumb_is_good_fetch(const struct plumb_kernel_fetch *fetch)
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
