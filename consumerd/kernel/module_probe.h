/*
 * A probe of a function of the kernel, "kprobe:vfs_read(n=%dx:u64)", for plumb.ko: what it is asked (<plumb/abi/kernel_probe.h>),
 * and the description of what it records, which is that of tracefs.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_MODULE_PROBE_H
#define PLUMB_CONSUMERD_KERNEL_MODULE_PROBE_H

#include "base/result.h"
#include "consumerd/event/elf_events.h"
#include "consumerd/kernel/tracefs.h"

#include <plumb/abi/kernel_probe.h>

namespace plumb {

struct ModuleProbe {
    EventDescription description;
    plumb_kernel_probe request; /* without an id */
};

/* Of a kprobe or kretprobe. */
Result<ModuleProbe> module_probe(const KernelSelector& selector);

/* What the module's refusal, an errno, means. */
Error probe_not_taken(const KernelSelector& selector, int error);

} // namespace plumb

#endif
