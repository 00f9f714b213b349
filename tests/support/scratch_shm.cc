#include "tests/support/scratch_shm.h"

#include "tests/support/private_shm.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sys/mount.h>

namespace plumb::test {

ScratchShm::ScratchShm(unsigned long bytes) : path_("/dev/shm/scratch-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    if (bytes == 0) return;
    const std::string options = "mode=0755,size=" + std::to_string(bytes);
    is_mounted_ = has_private_shm() &&
                  ::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (!is_mounted_) std::fprintf(stderr, "no file system of its own at %s\n", path_.c_str());
}

ScratchShm::~ScratchShm() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

} // namespace plumb::test
