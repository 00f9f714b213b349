/*
 * The one line that shows, on a terminal, how a recording goes; and the way other lines get past it.
 */
#ifndef PLUMB_CLI_STATUS_LINE_H
#define PLUMB_CLI_STATUS_LINE_H

#include "base/number_text.h"
#include "consumerd/drain/drain_totals.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace plumb {

/* What a line on the terminal of standard error may take: one that reaches the last column goes on in the next line, and is never taken
 * away. Of anything else any width. */
std::size_t terminal_line_width();

class StatusLine {
public:
    /* Shown only if standard error is a terminal. */
    explicit StatusLine(bool wanted);
    bool is_shown() const { return is_shown_; }
    /* At most five times a second. */
    void update(const DrainProgress& progress, std::uint64_t elapsed_ns);
    /* Takes the line away. */
    void clear();
    /* A line of its own on standard error, from any thread. */
    void say(const std::string& line);

private:
    std::mutex lock_;
    bool is_shown_;
    bool is_drawn_ = false;
    std::uint64_t last_events_ = 0;
    std::uint64_t last_elapsed_ns_ = 0;
};

} // namespace plumb

#endif
