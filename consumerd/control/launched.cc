#include "consumerd/control/launched.h"

#include "base/file.h"
#include "base/processes.h"

#include <plumb/abi/state.h>

#include <algorithm>
#include <string_view>

namespace plumb {

namespace {

/* A program that writes its title over its arguments may also write over its environment: then there are
 * words that are no NAME=VALUE. */
bool has_foreign_words(const std::string& environment) {
    std::size_t start = 0;
    while (start < environment.size()) {
        const std::size_t end = std::min(environment.find('\0', start), environment.size());
        const std::string_view word(environment.data() + start, end - start);
        if (!word.empty() && word.find('=') == std::string_view::npos) return true;
        start = end + 1;
    }
    return false;
}

} // namespace

namespace {

Launched launched_by_environment(std::uint32_t process_id, std::uint64_t cookie) {
    const Result<std::string> environment =
        read_small_file(proc_folder(process_id) + "/environ", std::size_t{4} << 20);
    if (!environment) return Launched::maybe; /* not ours to see */
    const std::string text = std::string(1, '\0') + *environment;
    const std::string variable = std::string(1, '\0') + PLUMB_SESSIONS_VARIABLE + "=";
    const std::size_t at = text.find(variable);
    if (at == std::string::npos) return has_foreign_words(*environment) ? Launched::maybe : Launched::no;
    const std::string value =
        text.substr(at + variable.size(), text.find('\0', at + 1) - at - variable.size());
    return value.find(fmt::format("{:016x}", cookie)) != std::string::npos ? Launched::yes : Launched::no;
}

} // namespace

Launched launched_by(std::uint32_t process_id, const Launcher& launcher) {
    const Launched named = launched_by_environment(process_id, launcher.cookie);
    if (named == Launched::yes || launcher.process_id == 0 || !descends_from(process_id, launcher.process_id))
        return named;
    return Launched::yes;
}

bool is_launched_by(std::uint32_t process_id, const Launcher& launcher) {
    return launched_by(process_id, launcher) == Launched::yes;
}

} // namespace plumb
