#include "cli/output.h"

#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/speaker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace plumb {
namespace {

/* How long a terminal or pipe that another program made non-blocking may stay full. */
constexpr int patience_ms = 1000;

/* How long nobody may read what a recorder has to say, when there is nothing else left to do. */
constexpr std::uint64_t last_patience_ns = 5'000'000'000;
constexpr std::uint64_t endless_ns = std::numeric_limits<std::int64_t>::max();

constexpr std::size_t messages_bytes = 64 * 1024, answer_bytes = SIZE_MAX / 2;

bool is_apart = false;

Speaker& error_speaker() {
    static Speaker speaker(STDERR_FILENO, messages_bytes);
    return speaker;
}

Speaker& answer_speaker() {
    static Speaker speaker(STDOUT_FILENO, answer_bytes);
    return speaker;
}

OutputBuffer& standard_output() {
    static OutputBuffer buffer(STDOUT_FILENO);
    return buffer;
}

/* Opened the wrong way round: using it fails with EBADF. */
int open_stand_in(int number) {
    const int wrong_way = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    const int null = open("/dev/null", wrong_way | O_CLOEXEC);
    return null >= 0 ? null : open("/", O_PATH | O_CLOEXEC);
}

std::vector<int>& inherited() {
    static std::vector<int> numbers;
    return numbers;
}

/* exec() has closed what has the flag. */
bool is_inherited_end(int number) {
    struct stat found {};
    const int flags = fcntl(number, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0 && fstat(number, &found) == 0 &&
           (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode));
}

} // namespace

void hold_standard_descriptors() {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0) (void)open_stand_in(number); /* the lowest that is free is this one */
}

void note_inherited() {
    const auto names = list_directory("/proc/self/fd");
    if (!names) return;
    for (const std::string& name : *names) {
        const int number = std::atoi(name.c_str());
        if (number > STDERR_FILENO && is_inherited_end(number)) inherited().push_back(number);
    }
}

void leave_inherited_to_command() {
    for (const int number : inherited())
        if (is_inherited_end(number)) close(number);
    inherited().clear();
}

void leave_to_command(int number) {
    const int stand_in = open_stand_in(number);
    if (stand_in < 0) return;
    (void)dup3(stand_in, number, O_CLOEXEC);
    close(stand_in);
}

void speak_apart() {
    is_apart = true;
}

void put_out(std::string_view text) {
    if (is_apart) {
        (void)answer_speaker().say(text);
        return;
    }
    static const bool is_terminal = isatty(STDOUT_FILENO) == 1;
    standard_output().put(text);
    if (is_terminal) standard_output().flush();
}

Status flush_out(const std::function<bool()>& is_enough) {
    if (is_apart) {
        static bool is_given_up = false;
        Speaker& speaker = answer_speaker();
        is_given_up = is_given_up || !speaker.finish(endless_ns, is_enough);
        const int error_number = is_given_up ? EINTR : speaker.error_number();
        if (error_number == 0 || error_number == EPIPE) return ok();
        return Error::from_errno(error_number, "Could not write to standard output");
    }
    OutputBuffer& out = standard_output();
    out.flush();
    if (out.error_number() == 0) return ok();
    return Error::from_errno(out.error_number(), "Could not write to standard output");
}

void say_error(const std::string& line) {
    print_error("plumb: {}\n", without_controls(line));
}

void put_error(std::string_view text) {
    const int kept = errno;
    if (is_apart) {
        (void)error_speaker().say(text);
        errno = kept;
        return;
    }
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

void put_result(std::string_view text) {
    if (is_apart)
        (void)error_speaker().say(text, true);
    else
        put_error(text);
}

bool put_error_now(std::string_view text) {
    if (is_apart && !error_speaker().has_said_all()) return false;
    put_error(text);
    return true;
}

void flush_errors() {
    if (is_apart) (void)error_speaker().finish(last_patience_ns);
}

} // namespace plumb
