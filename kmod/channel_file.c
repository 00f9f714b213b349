// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel's channel is opened and closed: its file and header are checked, once, and its pages kept. What is shared is not looked
 * at again for where anything is.
 */
#include <linux/build_bug.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>
#include <plumb/abi/kernel_events.h>

#include "channel_state.h"

/* What the header says, if all of it lies within the file. */
static int check_header(const struct plumb_channel_header *header, u64 file_bytes)
{
	const u64 rings = (u64)header->ring_count + header->extra_ring_count;

	if (header->magic != PLUMB_CHANNEL_MAGIC || header->version_major != PLUMB_CHANNEL_VERSION_MAJOR ||
	    header->domain != PLUMB_DOMAIN_KERNEL)
		return -EINVAL;
	if (header->mode != PLUMB_MODE_DISCARD && header->mode != PLUMB_MODE_OVERWRITE)
		return -EINVAL;
	if (header->clock.mode != PLUMB_CLOCK_TSC && header->clock.mode != PLUMB_CLOCK_MONOTONIC &&
	    header->clock.mode != PLUMB_CLOCK_BOOTTIME && header->clock.mode != PLUMB_CLOCK_REALTIME)
		return -EOPNOTSUPP;
	if (!is_power_of_2(header->subbuf_bytes) || header->subbuf_bytes < PLUMB_SUBBUF_MIN_BYTES ||
	    header->subbuf_bytes > PLUMB_SUBBUF_MAX_BYTES)
		return -EINVAL;
	if (!is_power_of_2(header->subbuf_count) || header->subbuf_count < PLUMB_SUBBUF_MIN_COUNT ||
	    header->ring_bytes != (u64)header->subbuf_bytes * header->subbuf_count)
		return -EINVAL;
	if (header->ring_count == 0 || rings > PLUMB_CHANNEL_MAX_RINGS)
		return -EINVAL;
	if (header->ring_bytes > PLUMB_KERNEL_CHANNEL_MAX / rings || file_bytes > PLUMB_KERNEL_CHANNEL_MAX)
		return -E2BIG;
	if (header->control_offset < sizeof(*header) || header->control_offset % 64 != 0 ||
	    header->data_offset % PLUMB_RECORD_ALIGNMENT != 0 || header->data_offset > file_bytes ||
	    header->control_offset > header->data_offset ||
	    header->data_offset - header->control_offset < rings * PLUMB_RING_CONTROL_BYTES ||
	    file_bytes - header->data_offset < rings * header->ring_bytes)
		return -EINVAL;
	return 0;
}

/* Its rings are as they were made. Before the pages are taken: those of a file that is refused would stay in memory with it. */
static int check_rings(const struct plumb_channel_header *header, struct file *file)
{
	u32 i;

	for (i = 0; i < header->ring_count; i++) {
		loff_t position = header->control_offset + (u64)i * PLUMB_RING_CONTROL_BYTES;
		u64 words[offsetofend(struct plumb_ring_control, consumed) / sizeof(u64)];

		BUILD_BUG_ON(offsetof(struct plumb_ring_control, write_pos) != 0);
		if (kernel_read(file, words, sizeof(words), &position) != sizeof(words))
			return -EINVAL;
		if (words[0] || words[ARRAY_SIZE(words) - 1])
			return -EINVAL; /* somebody has written there */
	}
	return 0;
}

static void put_pages(struct plumb_kernel_channel_state *channel)
{
	size_t i;

	for (i = 0; i < channel->page_count; i++) {
		set_page_dirty(channel->pages[i]);
		put_page(channel->pages[i]);
		cond_resched();
	}
	kvfree(channel->pages);
}

/* Keeps them: they are not swapped out as long as the file is there, nor taken away from us when it is cut. */
static int get_pages(struct plumb_kernel_channel_state *channel, struct address_space *mapping, u64 bytes)
{
	const size_t count = bytes >> PAGE_SHIFT;

	channel->pages = kvmalloc_array(count, sizeof(*channel->pages), GFP_KERNEL_ACCOUNT);
	if (!channel->pages)
		return -ENOMEM;
	mapping_set_unevictable(mapping);
	while (channel->page_count < count) {
		struct page *page =
			shmem_read_mapping_page_gfp(mapping, channel->page_count, mapping_gfp_mask(mapping));

		if (IS_ERR(page))
			return PTR_ERR(page);
		channel->pages[channel->page_count++] = page;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	channel->header = vmap(channel->pages, channel->page_count, VM_MAP, PAGE_KERNEL);
	return channel->header ? 0 : -ENOMEM;
}

static u8 *alloc_room(int cpu)
{
	return kvmalloc_node(PLUMB_NESTING_MAX * PLUMB_RAW_BYTES, GFP_KERNEL_ACCOUNT, cpu_to_node(cpu));
}

int plumb_make_filtering_room(struct plumb_kernel_channel_state *channel)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct plumb_ring *ring = per_cpu_ptr(channel->rings, cpu);

		if (!ring->raw || ring->filtering)
			continue;
		ring->filtering = alloc_room(cpu);
		if (!ring->filtering)
			return -ENOMEM;
	}
	return 0;
}

static int make_rings(struct plumb_kernel_channel_state *channel, const struct plumb_channel_header *header)
{
	u8 *bytes = (u8 *)channel->header;
	int cpu;

	channel->rings = alloc_percpu_gfp(struct plumb_ring, GFP_KERNEL_ACCOUNT);
	if (!channel->rings)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct plumb_ring *ring = per_cpu_ptr(channel->rings, cpu);

		ring->channel = channel;
		if (cpu >= header->ring_count) /* not a CPU of this machine, as yet: it has no ring */
			continue;
		ring->raw = alloc_room(cpu);
		if (!ring->raw)
			return -ENOMEM;
		ring->data = bytes + header->data_offset + cpu * header->ring_bytes;
		ring->control = (void *)(bytes + header->control_offset + cpu * PLUMB_RING_CONTROL_BYTES);
	}
	return 0;
}

void plumb_close_kernel_channel(struct plumb_kernel_channel_state *channel)
{
	int cpu;

	irq_work_sync(&channel->tell);
	if (channel->rings)
		for_each_possible_cpu(cpu) {
			kvfree(per_cpu_ptr(channel->rings, cpu)->raw);
			kvfree(per_cpu_ptr(channel->rings, cpu)->filtering);
		}
	free_percpu(channel->rings);
	vunmap(channel->header);
	put_pages(channel);
	kfree(channel);
}

static int open_channel(struct plumb_kernel_channel_state *channel, struct file *file)
{
	struct inode *inode = file_inode(file);
	const u64 bytes = round_down(i_size_read(inode), PAGE_SIZE);
	struct plumb_channel_header header;
	loff_t position;
	int error;

	if (inode->i_sb->s_magic != TMPFS_MAGIC || !S_ISREG(inode->i_mode))
		return -EINVAL;
	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EBADF;
	if (SHMEM_I(inode)->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if (bytes < PLUMB_CHANNEL_HEADER_BYTES)
		return -EINVAL;
	if (bytes > PLUMB_KERNEL_CHANNEL_MAX)
		return -E2BIG;
	/* Before anything is taken, and once: what it becomes later is not ours. */
	position = 0;
	if (kernel_read(file, &header, sizeof(header), &position) != sizeof(header))
		return -EINVAL;
	error = check_header(&header, bytes);
	if (!error)
		error = check_rings(&header, file);
	if (error)
		return error;
	error = get_pages(channel, file->f_mapping, bytes);
	if (error)
		return error;
	channel->ring_count = header.ring_count;
	channel->subbuf_bytes = header.subbuf_bytes;
	channel->ring_bytes = header.ring_bytes;
	channel->record_limit = PLUMB_RECORD_LIMIT(header.subbuf_bytes);
	channel->mode = header.mode;
	channel->clock = header.clock.mode;
	return make_rings(channel, &header);
}

static void tell(struct irq_work *work)
{
	wake_up_all(container_of(work, struct plumb_kernel_channel_state, tell)->queue);
}

struct plumb_kernel_channel_state *plumb_open_kernel_channel(int descriptor, struct wait_queue_head *queue)
{
	struct plumb_kernel_channel_state *channel = kzalloc(sizeof(*channel), GFP_KERNEL_ACCOUNT);
	struct file *file;
	int error;

	if (!channel)
		return ERR_PTR(-ENOMEM);
	channel->recorder = current->tgid;
	init_irq_work(&channel->tell, tell);
	channel->queue = queue;
	file = fget(descriptor);
	if (!file) {
		kfree(channel);
		return ERR_PTR(-EBADF);
	}
	error = open_channel(channel, file);
	/* Its pages are enough: as long as the file is open, its lock says that its recorder lives. */
	fput(file);
	if (!error)
		return channel;
	plumb_close_kernel_channel(channel);
	return ERR_PTR(error);
}
