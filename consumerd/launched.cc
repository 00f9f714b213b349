#include "consumerd/file.h"
#include "consumerd/processes.h"

#include <plumb/abi/state.h>

namespace plumb {

bool is_launched_by(std::uint32_t process_id, std::uint64_t cookie) {
    const Result<std::string> environment =
        read_small_file(fmt::format("/proc/{}/environ", process_id), std::size_t{4} << 20);
    if (!environment) return true; /* not ours to see: it may be */
    const std::string text = std::string(1, '\0') + *environment;
    const std::string variable = std::string(1, '\0') + PLUMB_SESSIONS_VARIABLE + "=";
    const std::size_t at = text.find(variable);
    if (at == std::string::npos) {
        /* A program that writes its title over its arguments also writes over this. */
        return !environment->empty() && environment->find('=') > environment->find('\0');
    }
    const std::string value =
        text.substr(at + variable.size(), text.find('\0', at + 1) - at - variable.size());
    return value.find(fmt::format("{:016x}", cookie)) != std::string::npos;
}

} // namespace plumb
