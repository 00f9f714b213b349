// SPDX-License-Identifier: GPL-2.0
/*
 * The clock page, <plumb/abi/clock_page.h>: what the timekeeper has, at each of its updates, as the vDSO gets it. Where it
 * counts something else than the cycle counter, the page says so, and nobody converts with it.
 */
#include <linux/anon_inodes.h>
#include <linux/clocksource.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pvclock_gtod.h>
#include <linux/timekeeper_internal.h>
#include <plumb/abi/clock_page.h>

#include "compat.h"
#include "plumb.h"

static struct page *page;

/* In the timekeeper's own section: one at a time, interrupts off. */
static int clock_changed(struct notifier_block *block, unsigned long was_set, void *data)
{
	const struct timekeeper *timekeeper = data;
	const struct tk_read_base *base = &timekeeper->tkr_mono;
	const u64 fraction = base->xtime_nsec & ((1ull << base->shift) - 1);
	const bool is_tsc = base->clock->vdso_clock_mode == VDSO_CLOCKMODE_TSC;
	struct plumb_clock_page *clock = page_address(page);
	const u32 sequence = clock->sequence;

	WRITE_ONCE(clock->sequence, sequence + 1);
	smp_wmb();
	WRITE_ONCE(clock->mode, is_tsc ? PLUMB_CLOCK_TSC : PLUMB_CLOCK_NONE);
	WRITE_ONCE(clock->mult, base->mult);
	WRITE_ONCE(clock->shift, base->shift);
	WRITE_ONCE(clock->base_cycles, base->cycle_last);
	WRITE_ONCE(clock->base_monotonic_ns, ktime_to_ns(base->base) + (base->xtime_nsec >> base->shift));
	WRITE_ONCE(clock->base_fraction, (u32)fraction);
	WRITE_ONCE(clock->realtime_offset_ns, ktime_to_ns(timekeeper->offs_real));
	WRITE_ONCE(clock->frequency_hz, is_tsc ? div_u64((u64)NSEC_PER_SEC << base->shift, base->mult) : 0);
	smp_wmb();
	WRITE_ONCE(clock->sequence, sequence + 2);
	return NOTIFY_OK;
}

static struct notifier_block notifier = { .notifier_call = clock_changed };

static int map_clock(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff != 0 || vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start, page);
}

static const struct file_operations clock_operations = {
	.owner = THIS_MODULE, /* who maps it keeps the module */
	.mmap = map_clock,
	.llseek = noop_llseek,
};

u32 plumb_clock_mode(void)
{
	const struct plumb_clock_page *clock = page_address(page);

	return READ_ONCE(clock->mode);
}

int plumb_open_clock(void)
{
	return anon_inode_getfd("[plumb-clock]", &clock_operations, NULL, O_RDONLY | O_CLOEXEC);
}

int plumb_start_clock(void)
{
	int error;

	page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	/* Calls us with the state that is now. */
	error = pvclock_gtod_register_notifier(&notifier);
	if (error)
		__free_page(page);
	return error;
}

void plumb_stop_clock(void)
{
	pvclock_gtod_unregister_notifier(&notifier);
	__free_page(page);
}
