#include "cli/status_line.h"

#include "base/output_buffer.h"
#include "cli/output.h"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace plumb {

namespace {

/* In the background it is somebody else's. */
bool is_our_terminal() {
    const pid_t foreground = ::tcgetpgrp(STDERR_FILENO);
    return foreground < 0 || foreground == ::getpgrp();
}

/* However often a recorder looks: the terminal is the program's, too. */
constexpr std::uint64_t redraw_ns = 190'000'000;

} // namespace

std::size_t terminal_line_width() {
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return std::numeric_limits<std::size_t>::max();
    return size.ws_col - 1u;
}

StatusLine::StatusLine(bool wanted) : is_shown_(wanted && isatty(STDERR_FILENO) == 1) {}

void StatusLine::update(const DrainProgress& progress, std::uint64_t elapsed_ns) {
    if (!is_shown_) return;
    const std::lock_guard<std::mutex> guard(lock_);
    if (is_drawn_ && elapsed_ns - last_elapsed_ns_ < redraw_ns) return;
    if (!is_our_terminal()) {
        is_drawn_ = false; /* what stands there is its own by now */
        return;
    }
    std::string lost = with_commas(progress.events_discarded) + " lost";
    if (progress.subbufs_lost > 0)
        lost += fmt::format(", and {}", counted(progress.subbufs_lost, "sub-buffer"));
    const double seconds = static_cast<double>(elapsed_ns - last_elapsed_ns_) / 1e9;
    const double rate = seconds > 0 ? static_cast<double>(progress.events - last_events_) / seconds : 0;
    const std::uint64_t elapsed_s = elapsed_ns / 1'000'000'000;
    std::string line = fmt::format(
        "{:02}:{:02}  {}  {}/s  {}  {}", elapsed_s / 60, elapsed_s % 60, counted(progress.events, "event"),
        with_commas(static_cast<std::uint64_t>(rate)), lost, size_text(progress.bytes));
    line.resize(std::min(line.size(), terminal_line_width()));
    if (!put_error_now("\r\033[K" + line)) return;
    last_events_ = progress.events;
    last_elapsed_ns_ = elapsed_ns;
    is_drawn_ = true;
}

void StatusLine::clear() {
    const std::lock_guard<std::mutex> guard(lock_);
    if (is_drawn_) print_error("\r\033[K");
    is_drawn_ = false;
}

void StatusLine::say(const std::string& line) {
    const std::lock_guard<std::mutex> guard(lock_);
    print_error("{}plumb: {}\n", is_drawn_ ? "\r\033[K" : "", without_controls(line));
    is_drawn_ = false;
}

} // namespace plumb
