// SPDX-License-Identifier: GPL-2.0
/* Loading and unloading. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>

#include "plumb.h"

/* For plumb-init, which reads them on the kernel's command line; here so that the kernel does not call them unknown. Whatever
 * they are, long or nothing, the module is loaded. */
static int is_for_plumb_init(const char *value, const struct kernel_param *parameter)
{
	return 0;
}

static const struct kernel_param_ops for_plumb_init = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = is_for_plumb_init,
};
module_param_cb(rules, &for_plumb_init, NULL, 0);
MODULE_PARM_DESC(rules, "what plumb-init records of the boot: options of plumb record");
module_param_cb(boot, &for_plumb_init, NULL, 0);
MODULE_PARM_DESC(boot, "off: plumb-init does not record the boot");

static int __init plumb_init(void)
{
	int error = plumb_start_clock();

	if (error)
		return error;
	error = plumb_start_kernel_events();
	if (error)
		goto no_events;
	plumb_start_directories();
	error = plumb_add_device();
	if (error)
		goto no_device;
	/* The device is there in any case: a kernel without kprobes has that alone. */
	error = plumb_take_syscall();
	if (error)
		pr_warn("plumb: no system call (%d): programs ask by /dev/plumb\n", error);
	return 0;

no_device:
	plumb_stop_directories();
	plumb_stop_kernel_events();
no_events:
	plumb_stop_clock();
	return error;
}

static void __exit plumb_exit(void)
{
	plumb_give_back_syscall();
	plumb_remove_device();
	plumb_stop_directories();
	plumb_stop_kernel_events();
	plumb_stop_clock();
	/* Whoever held the module last, a thread that came by for an update, is behind its last instruction here. */
	synchronize_rcu_tasks();
}

module_init(plumb_init);
module_exit(plumb_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tracing ABI between user space and the kernel");
MODULE_VERSION("0.1.0");
