/*
 * Which arguments of a system call are strings, by the kernel's own description of the call's event, and what number the
 * call has on this machine.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_SYSCALL_ARGUMENTS_H
#define PLUMB_CONSUMERD_KERNEL_SYSCALL_ARGUMENTS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct TextArgument {
    std::uint8_t index;   /* 0 to 5 */
    std::string name;     /* of the field, "filename" */
    bool is_list = false; /* of strings, behind whose pointers stands a null pointer: argv */
};

constexpr unsigned syscall_arguments_max = 6;

/* Of a list, how many are read: so many pieces, of up to 383 bytes each (SyscallTextProgram), and the rest of the last. */
constexpr unsigned list_pieces_max = 32;

/* By the call's name in tracefs, "openat": its strings, in their order. */
using TextArguments = std::map<std::string, std::vector<TextArgument>>;

/* `format`: the text of events/syscalls/sys_enter_<call>/format. */
std::vector<TextArgument> text_arguments_of(const std::string& call, const std::string& format);

/* Those of the headers of the system that this was built on; made when the build is configured (cmake/PlumbNames.cmake). */
struct SyscallNumber {
    const char* name;
    std::uint32_t number;
};
extern const std::vector<SyscallNumber> syscall_numbers;

/* By the name in tracefs. Nothing if this program was built on a system whose headers do not have the call. */
std::optional<std::uint32_t> syscall_number(const std::string& call);

} // namespace plumb

#endif
