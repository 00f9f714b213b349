/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The threads that a recording follows: those of some processes, and all that these start from then on, be it by fork(), or as
 * a thread, or as a worker of an io_uring. By their numbers in the machine's first namespace, one bit for each that there can be.
 */
#ifndef PLUMB_KMOD_FOLLOWED_H
#define PLUMB_KMOD_FOLLOWED_H

#include <linux/types.h>

struct plumb_followed;

/* Nobody yet. ERR_PTR: -ENOMEM, or -ENOENT where the kernel does not tell of its threads. May sleep, as all that follows. */
struct plumb_followed *plumb_follow_nobody(void);
/* All threads that it has, and those that any of them is making just now. By the caller's numbers; -ESRCH: there is none. */
int plumb_follow(struct plumb_followed *followed, pid_t process);
/* For readers: test_bit() of a thread's number. In any context. */
const unsigned long *plumb_followed_numbers(const struct plumb_followed *followed);
/* Behind it nobody reads or writes them, if no writer can come any more. NULL: nothing. */
void plumb_follow_no_more(struct plumb_followed *followed);

#endif
