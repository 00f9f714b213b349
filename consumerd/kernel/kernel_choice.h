/* Which events of the kernel somebody has asked for, in words, and what is to be said of what came of it: of a recording as of a
 * session that is kept. */
#ifndef PLUMB_CONSUMERD_KERNEL_KERNEL_CHOICE_H
#define PLUMB_CONSUMERD_KERNEL_KERNEL_CHOICE_H

#include "base/result.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/tracefs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

Result<std::vector<KernelSelector>> parse_kernel_events(const std::vector<std::string>& texts);

/* Of each CPU. `text`: as it was written. */
Status check_kernel_buffer(std::uint64_t bytes, const std::string& text);

/* What select() did otherwise than asked, and of which strings there are the addresses alone. */
std::vector<std::string> told_of_choice(const KernelSession& session);

} // namespace plumb

#endif
