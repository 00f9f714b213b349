/* Which functions the kernel has. */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_FUNCTIONS_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_FUNCTIONS_H

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace plumb {

/* How many are called as each of these: "vfs_read", or "module:function". Static functions of several files may have one name, and who
 * is told of it takes any of them. Nothing where `symbols`, in the form of /proc/kallsyms, can not be read. */
std::map<std::string, std::size_t> count_kernel_functions(const std::vector<std::string>& names,
                                                          const std::string& symbols = "/proc/kallsyms");

} // namespace plumb

#endif
