/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels that plumb.ko is built for: 6.1 to 6.12. */
#ifndef PLUMB_KMOD_COMPAT_H
#define PLUMB_KMOD_COMPAT_H

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "plumb.ko is for Linux 6.1 to 6.12"
#endif
/*
 * From 6.13 on sys_enter and sys_exit are of a kind of their own (TRACE_EVENT_SYSCALL), which events/stages.h does not know; from 6.15
 * on vfs_mkdir() gives a dentry; from 6.16 on there is no lookup_one_len().
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#error "plumb.ko is for Linux 6.1 to 6.12, and this one is younger: plumb records the kernel by tracefs there"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

static inline int make_directory_in(struct inode *parent, struct dentry *dentry, umode_t mode)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	return vfs_mkdir(&init_user_ns, parent, dentry, mode);
#else
	return vfs_mkdir(&nop_mnt_idmap, parent, dentry, mode);
#endif
}

static inline struct file *plumb_file_of(struct fd opened)
{
#ifdef fd_file
	return fd_file(opened);
#else
	return opened.file;
#endif
}

/* What <trace/events/sched.h> calls, and has only for the kernel itself: the state that a task is left in. */
static inline long __trace_sched_switch_state(bool preempt, unsigned int prev_state, struct task_struct *task)
{
	unsigned int state;

	if (preempt)
		return TASK_REPORT_MAX;
	state = __task_state_index(prev_state, task->exit_state);
	return state ? 1 << (state - 1) : state;
}

/* Threads of a process that never are in user space. */
static inline bool is_worker(const struct task_struct *task)
{
#ifdef PF_USER_WORKER
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
#else
	return task->flags & (PF_KTHREAD | PF_IO_WORKER);
#endif
}

/* Whether it has made an io_uring, or handed something to one: completions wake it in any call that may be interrupted. */
static inline bool has_ring(const struct task_struct *task)
{
#ifdef CONFIG_IO_URING
	return READ_ONCE(task->io_uring);
#else
	return false;
#endif
}

#endif
