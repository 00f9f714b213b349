/*
 * What every header of the ABI needs: fixed-width integers and compile-time checks of layout that read the
 * same in C11, C++17 and the kernel.
 *
 * The headers in this folder describe memory that crosses a process or kernel boundary. They name nothing of
 * the rest of the project, hold no pointers and no `long`, and align every 64-bit field by hand, so that
 * 32-bit and 64-bit programs agree on every offset.
 *
 * Versions: a reader accepts the same major version with any minor version, and refuses another major
 * version with a message that names both. A minor version only gives meaning to bytes that were reserved
 * (zero).
 */
#ifndef PLUMB_ABI_BASE_H
#define PLUMB_ABI_BASE_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
#define PLUMB_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define PLUMB_ABI_ALIGNED(bytes) alignas(bytes)
#else
#define PLUMB_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define PLUMB_ABI_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif

#define PLUMB_ABI_SIZE(type, bytes) PLUMB_STATIC_ASSERT(sizeof(type) == (bytes), #type ": size changed")
#define PLUMB_ABI_OFFSET(type, field, bytes) \
    PLUMB_STATIC_ASSERT(offsetof(type, field) == (bytes), #type "." #field ": offset changed")

#endif
