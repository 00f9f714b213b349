// SPDX-License-Identifier: GPL-2.0
/* The operations of <plumb/abi/module.h>. */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/nospec.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <plumb/abi/clock_page.h>
#include <plumb/abi/module.h>

#include "plumb.h"

/* The most that a struct of a later version may have. */
#define BYTES_MAX PAGE_SIZE

static long tell_about(void *argument)
{
	struct plumb_about *about = argument;

	*about = (struct plumb_about){
		.version = PLUMB_MODULE_VERSION,
		.ways = PLUMB_WAY_DEVICE | (plumb_has_syscall() ? PLUMB_WAY_SYSCALL : 0),
		.operations = 1ull << PLUMB_OPERATION_ABOUT | 1ull << PLUMB_OPERATION_CLOCK |
			      1ull << PLUMB_OPERATION_UPDATES | 1ull << PLUMB_OPERATION_KERNEL_EVENTS |
			      1ull << PLUMB_OPERATION_DIRECTORY,
		.clock_mode = plumb_clock_mode(),
	};
	return 0;
}

static long give_descriptor(struct plumb_descriptor_request *request, int (*open)(void))
{
	int descriptor;

	if (request->flags)
		return -EINVAL;
	descriptor = open();
	if (descriptor < 0)
		return descriptor;
	request->descriptor = descriptor;
	return 0;
}

static long give_clock(void *argument)
{
	return give_descriptor(argument, plumb_open_clock);
}

static long give_updates(void *argument)
{
	return give_descriptor(argument, plumb_open_updates);
}

static long give_kernel_events(void *argument)
{
	return give_descriptor(argument, plumb_open_kernel_events);
}

static long give_directory(void *argument)
{
	struct plumb_descriptor_request *request = argument;
	int descriptor;

	if (request->flags == PLUMB_DIRECTORY_FIX_SIZE)
		return plumb_fix_size(request->descriptor);
	if (request->flags & ~PLUMB_DIRECTORY_OF_ALL)
		return -EINVAL;
	descriptor = plumb_open_directory(request->flags & PLUMB_DIRECTORY_OF_ALL);
	if (descriptor < 0)
		return descriptor;
	request->descriptor = descriptor;
	return 0;
}

static const struct {
	long (*function)(void *argument);
	size_t bytes;
	size_t bytes_min; /* of its first version */
} operations[] = {
	[PLUMB_OPERATION_ABOUT] = { tell_about, sizeof(struct plumb_about), 24 },
	[PLUMB_OPERATION_CLOCK] = { give_clock, sizeof(struct plumb_descriptor_request), 8 },
	[PLUMB_OPERATION_UPDATES] = { give_updates, sizeof(struct plumb_descriptor_request), 8 },
	[PLUMB_OPERATION_KERNEL_EVENTS] = { give_kernel_events, sizeof(struct plumb_descriptor_request), 8 },
	[PLUMB_OPERATION_DIRECTORY] = { give_directory, sizeof(struct plumb_descriptor_request), 8 },
};

long plumb_operate(unsigned long operation, void __user *argument, size_t bytes)
{
	union {
		struct plumb_about about;
		struct plumb_descriptor_request descriptor;
	} known;
	long result;

	if (operation >= ARRAY_SIZE(operations))
		return -EOPNOTSUPP;
	operation = array_index_nospec(operation, ARRAY_SIZE(operations));
	if (bytes < operations[operation].bytes_min || bytes > BYTES_MAX)
		return -EINVAL;
	result = copy_struct_from_user(&known, operations[operation].bytes, argument, bytes);
	if (result)
		return result;
	/* Before anything is done for it: a descriptor that nobody learns of would stay open. */
	if (clear_user(argument, min(bytes, operations[operation].bytes)))
		return -EFAULT;
	result = operations[operation].function(&known);
	if (result < 0)
		return result;
	if (copy_to_user(argument, &known, min(bytes, operations[operation].bytes)))
		return -EFAULT;
	return result;
}
