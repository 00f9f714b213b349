#include "consumerd/daemon/daemon_log.h"

#include "base/output_buffer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

namespace plumb {
namespace {

/* It lies in memory. */
constexpr off_t log_bytes_max = 256 * 1024;

} // namespace

void log_line(const std::string& who, const std::string& line) {
    struct stat info {};
    if (::fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > log_bytes_max)
        (void)!::ftruncate(STDERR_FILENO, 0);
    const std::string text =
        fmt::format("{:%F %T} {}: {}\n", fmt::localtime(std::time(nullptr)), who, without_controls(line));
    (void)!::write(STDERR_FILENO, text.data(), text.size());
}

void log_into(const DaemonFolder& folder) {
    const int file = ::openat(folder.top().fd(), DaemonFolder::log_name,
                              O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return;
    ::dup2(file, STDERR_FILENO);
    ::close(file);
}

} // namespace plumb
