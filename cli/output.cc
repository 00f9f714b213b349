#include "cli/output.h"

#include "base/output_buffer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace plumb {
namespace {

/* How long a terminal or pipe that another program made non-blocking may stay full. */
constexpr int patience_ms = 1000;

OutputBuffer& standard_output() {
    static OutputBuffer buffer(STDOUT_FILENO);
    return buffer;
}

} // namespace

void hold_standard_descriptors() {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
        if (fcntl(number, F_GETFD) >= 0) continue;
        /* The lowest that is free is this one. Opened the wrong way round: using it still fails with EBADF. */
        const int wrong_way = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (open("/dev/null", wrong_way | O_CLOEXEC) < 0) (void)open("/", O_PATH | O_CLOEXEC);
    }
}

void put_out(std::string_view text) {
    static const bool is_terminal = isatty(STDOUT_FILENO) == 1;
    standard_output().put(text);
    if (is_terminal) standard_output().flush();
}

Status flush_out() {
    OutputBuffer& out = standard_output();
    out.flush();
    if (out.error_number() == 0) return ok();
    return Error::from_errno(out.error_number(), "Could not write to standard output");
}

void put_error(std::string_view text) {
    const int kept = errno;
    while (!text.empty()) {
        const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            pollfd room{STDERR_FILENO, POLLOUT, 0};
            if (poll(&room, 1, patience_ms) <= 0) break;
        } else if (errno != EINTR) {
            break;
        }
    }
    errno = kept;
}

} // namespace plumb
