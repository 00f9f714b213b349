/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of plumb.ko and how they lie on each other:
 *
 *   syscall.c     the system call: takes a number that does not exist
 *   device.c      /dev/plumb: the same operations, for those who can not have the number
 *        \ both call
 *   operations.c  what is asked and answered (<plumb/abi/module.h>)
 *        \ which is made of
 *   clock.c       the page by which user space turns cycles into nanoseconds as the kernel does
 *   updates.c     who asks processes to hear of new rules
 *   update_work.c how they do before their next instruction
 *   directories.c where state files and channels live before, and without, /dev/shm
 *   kernel_events.c   which events of the kernel go into which channel
 *        \ which has
 *   event_table.c     those that there are, of the kernel and of other modules (plumb_events.h)
 *   kernel_probes.c   probes of the kernel's functions
 *   kernel_calls.c    system calls, each as an event of its own
 *   fetch.c           what these two read of registers and memory
 *   filter.c          which records of an event are wanted
 *   followed.c        of which threads
 *   kernel_channel.c  the writer: from any context, into pages that a recorder has given us
 *   channel_file.c    which of these it takes, and how it lets go of them
 *   events/       probes, made out of the kernel's own descriptions of its tracepoints
 *
 *   compat.h      what differs from kernel to kernel, and nothing of it anywhere else
 */
#ifndef PLUMB_KMOD_PLUMB_H
#define PLUMB_KMOD_PLUMB_H

#include <linux/types.h>

/* One operation, for the process that runs. May sleep. Returns its result or -errno. */
long plumb_operate(unsigned long operation, void __user *argument, size_t bytes);

int plumb_take_syscall(void);
void plumb_give_back_syscall(void);
bool plumb_has_syscall(void);

int plumb_add_device(void);
void plumb_remove_device(void);

int plumb_start_clock(void);
void plumb_stop_clock(void);
u32 plumb_clock_mode(void);
int plumb_open_clock(void);

int plumb_open_updates(void);

void plumb_start_directories(void);
void plumb_stop_directories(void);
int plumb_open_directory(bool of_all);
long plumb_fix_size(int descriptor);

int plumb_start_kernel_events(void);
void plumb_stop_kernel_events(void);
int plumb_open_kernel_events(void);

#endif
