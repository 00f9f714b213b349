/* The way to plumb.ko (<plumb/abi/module.h>): by its device, and where that is out of reach by its system call. Never by a call
 * where no module is: a filter may end a process for a call that does not exist. */
#ifndef PLUMB_CONSUMERD_CONTROL_KERNEL_MODULE_H
#define PLUMB_CONSUMERD_CONTROL_KERNEL_MODULE_H

#include "base/file.h"
#include "base/result.h"

#include <plumb/abi/module.h>

namespace plumb {

bool is_kernel_module_loaded();
Result<plumb_about> ask_kernel_module();
/* What an operation that gives a descriptor gives; not open, with errno, where there is no module, or one that does not know it. */
FileDescriptor kernel_module_descriptor(plumb_operation operation, std::uint32_t flags = 0);
/* PLUMB_DIRECTORY_FIX_SIZE */
void fix_size_by_kernel_module(const FileDescriptor& file);

} // namespace plumb

#endif
