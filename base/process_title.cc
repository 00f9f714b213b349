#include "base/process_title.h"

#include "base/file.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plumb {

/* The kernel shows the memory in which the words lie; the first is where the C library says. */
void take_process_title(const char* title) {
    ::prctl(PR_SET_NAME, title);
    constexpr std::size_t words_max = std::size_t{4} << 20;
    const auto line = read_small_file("/proc/self/cmdline", words_max);
    if (!line || program_invocation_name == nullptr) return;
    const std::size_t length = line->size();
    if (length == 0 || std::strcmp(line->c_str(), program_invocation_name) != 0) return;
    std::memset(program_invocation_name, 0, length);
    std::memcpy(program_invocation_name, title, std::min(std::strlen(title), length - 1));
}

} // namespace plumb
