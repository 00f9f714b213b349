/* SPDX-License-Identifier: GPL-2.0 */
/* Which records of an event are written: see <plumb/abi/kernel_filter.h>. */
#ifndef PLUMB_KMOD_FILTER_H
#define PLUMB_KMOD_FILTER_H

#include <linux/types.h>
#include <plumb/abi/kernel_filter.h>

struct plumb_filter;

/* ERR_PTR: -EINVAL, -E2BIG, -ENOMEM. kvfree() frees it. */
struct plumb_filter *plumb_make_filter(const struct plumb_kernel_filter *request);
/* In any context. */
bool plumb_passes(const struct plumb_filter *filter, const void *payload, size_t bytes);
/* Whether it may pass, whatever the texts of some fields are: `unread` has a bit for each of these. */
bool plumb_may_pass(const struct plumb_filter *filter, const void *payload, size_t bytes, u32 unread);

#endif
