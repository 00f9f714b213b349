#include "consumerd/control/program_image.h"

#include "base/file.h"

#include <plumb/detail/state_layout.h>

#include <cstring>
#include <elf.h>
#include <sys/uio.h>

namespace plumb {

namespace {

/* Where the random bytes are that the program was given; 0: not known. */
std::uint64_t random_address(const std::string& vector) {
    Elf64_auxv_t entry;
    for (std::size_t at = 0; at + sizeof(entry) <= vector.size(); at += sizeof(entry)) {
        std::memcpy(&entry, vector.data() + at, sizeof(entry));
        if (entry.a_type == AT_RANDOM) return entry.a_un.a_val;
    }
    return 0;
}

/* Another program has them at another place, or others there. */
bool are_its(std::uint32_t process_id, std::uint64_t address, std::uint32_t image) {
    unsigned char random[PLUMB_IMAGE_RANDOM_BYTES];
    const iovec here{random, sizeof(random)};
    const iovec there{reinterpret_cast<void*>(address), sizeof(random)};
    return ::process_vm_readv(static_cast<pid_t>(process_id), &here, 1, &there, 1, 0) == sizeof(random) &&
           plumb_state_image_of(random) == image;
}

} // namespace

bool ProgramImage::is_run_by(std::uint32_t process_id, std::uint32_t image) {
    if (image == 0) return false;
    if (address_ != 0 && are_its(process_id, address_, image)) return true;
    const Result<std::string> vector = read_proc_file(fmt::format("/proc/{}/auxv", process_id));
    address_ = vector ? random_address(*vector) : 0;
    return address_ != 0 && are_its(process_id, address_, image);
}

} // namespace plumb
