// SPDX-License-Identifier: GPL-2.0
/* /dev/plumb: each ioctl is an operation. For everybody, as the system call is. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <plumb/abi/module.h>

#include "plumb.h"

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	if (command != PLUMB_IOCTL(_IOC_NR(command), _IOC_SIZE(command)))
		return -ENOTTY;
	return plumb_operate(_IOC_NR(command), (void __user *)argument, _IOC_SIZE(command));
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = device_ioctl,
	/* Structs are the same for 32 and 64 bits, and so are the commands. */
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "plumb",
	.fops = &device_operations,
	.mode = 0666,
};

int plumb_add_device(void)
{
	return misc_register(&device);
}

void plumb_remove_device(void)
{
	misc_deregister(&device);
}
