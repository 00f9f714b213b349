// Where state file and channels live: directory.cc.
#pragma once

#include "open_file.h"

namespace plumb {

enum class DirectoryKeeper : uint32_t { not_known, shared_memory, module };

// The user's directory, made if it is missing; of that keeper, which becomes known if it is not.
OpenFile open_directory(uint32_t user_id, DirectoryKeeper& keeper);
OpenFile open_in_directory(uint32_t user_id, DirectoryKeeper keeper, const char* name, int flags);
void fix_size(const OpenFile& file, DirectoryKeeper keeper);
bool is_private(const struct stat& info, mode_t type, uint32_t user_id);

} // namespace plumb
