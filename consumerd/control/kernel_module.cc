#include "consumerd/control/kernel_module.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {
namespace {

constexpr const char* module_folder = "/sys/module/plumb";

/* 0, or errno. */
int operate(plumb_operation operation, void* argument, std::size_t bytes) {
    const FileDescriptor device(::open(PLUMB_DEVICE, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (device.is_open() && ::ioctl(device.get(), PLUMB_IOCTL(operation, bytes), argument) == 0) return 0;
    const int not_opened = errno;
    if (device.is_open() && errno != ENOTTY) return errno; /* else it is another device */
    if (::access(module_folder, F_OK) != 0) return not_opened;
    return ::syscall(PLUMB_SYSCALL, operation, argument, bytes) == 0 ? 0 : errno;
}

} // namespace

bool is_kernel_module_loaded() {
    return ::access(module_folder, F_OK) == 0 || ::access(PLUMB_DEVICE, F_OK) == 0;
}

Result<plumb_about> ask_kernel_module() {
    plumb_about about = {};
    if (const int error = operate(PLUMB_OPERATION_ABOUT, &about, sizeof(about)); error != 0)
        return Error::from_errno(error, "plumb is loaded, and does not answer");
    return about;
}

FileDescriptor kernel_module_descriptor(plumb_operation operation, std::uint32_t flags) {
    plumb_descriptor_request request = {flags, -1};
    const int error = operate(operation, &request, sizeof(request));
    if (error == 0) return FileDescriptor(request.descriptor);
    errno = error;
    return {};
}

void fix_size_by_kernel_module(const FileDescriptor& file) {
    plumb_descriptor_request request = {PLUMB_DIRECTORY_FIX_SIZE, file.get()};
    (void)operate(PLUMB_OPERATION_DIRECTORY, &request, sizeof(request));
}

} // namespace plumb
