/* Whether a thread's control group is frozen, where the folders of control groups can be seen from here. */
#ifndef PLUMB_BASE_FROZEN_H
#define PLUMB_BASE_FROZEN_H

#include <cstdint>
#include <string>

namespace plumb {

/* `root`: in front of /proc and all else, for tests. */
bool is_control_group_frozen(std::uint32_t process_id, std::uint32_t thread_id, const std::string& root = {});

} // namespace plumb

#endif
