/*
 * What the command says: answers on standard output, everything else on standard error. Neither may end a recording:
 * a terminal is closed, a disk is full, a reader has gone away, `2>&-`. So nothing here throws, or ends the program.
 *
 * What can not be said on standard error is dropped; there is nowhere else to say it. An answer that can not be given
 * is an error that the exit status must show, except that nobody reads it any more: then it is not missed.
 *
 * A recorder does not wait for who reads either: what nobody reads yet waits beside it, and some time at the end.
 */
#ifndef PLUMB_CLI_OUTPUT_H
#define PLUMB_CLI_OUTPUT_H

#include "base/result.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace plumb {

/* A standard descriptor that is closed would be the number of the next file that is opened, and messages would go into
 * a trace. So each gets a stand-in, at which reading and writing fail as before, and which a launched command does not
 * inherit. First thing in main(). */
void hold_standard_descriptors();

/* Which pipes and sockets beyond the standard descriptors were there at the start. Then, too. */
void note_inherited();
/* Lets go of them, once a launched command has them: who waits for their end waits for the command to let go of them. Not of
 * files: with one of those, locks of this process would go. */
void leave_inherited_to_command();

/* From now on, threads of their own write to both, and nobody else waits. Before the process has other threads. */
void speak_apart();

/* Lets go of a standard descriptor that a launched command has: who writes into its input, or reads its output, sees when
 * the command lets go of it. Then as one that was closed. */
void leave_to_command(int number);

/* Standard output, buffered; a terminal sees it at once. */
void put_out(std::string_view text);
/* Writes what is held; what went wrong with it, or with something before. A recorder gives it up when `is_enough`. */
Status flush_out(const std::function<bool()>& is_enough = {});
/* Standard error, at once, from any thread. errno is kept. */
void put_error(std::string_view text);
/* "plumb: LINE", without what controls a terminal. */
void say_error(const std::string& line);
/* Once, behind all other messages: the result, which finds room however much waits. */
void put_result(std::string_view text);
/* What is worth nothing later: only if nothing else waits to be said. Whether it was. */
bool put_error_now(std::string_view text);
/* Last of all: gives what was said apart some time to be read. */
void flush_errors();

template <typename... Values>
void print_out(fmt::format_string<Values...> format, Values&&... values) {
    put_out(fmt::format(format, std::forward<Values>(values)...));
}

template <typename... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) {
    put_error(fmt::format(format, std::forward<Values>(values)...));
}

} // namespace plumb

#endif
