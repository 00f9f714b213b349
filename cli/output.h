/*
 * What the command says: answers on standard output, everything else on standard error. Neither may end a recording:
 * a terminal is closed, a disk is full, a reader has gone away, `2>&-`. So nothing here throws, or ends the program.
 *
 * What can not be said on standard error is dropped; there is nowhere else to say it. An answer that can not be given
 * is an error that the exit status must show, except that nobody reads it any more: then it is not missed.
 */
#ifndef PLUMB_CLI_OUTPUT_H
#define PLUMB_CLI_OUTPUT_H

#include "base/result.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace plumb {

/* A standard descriptor that is closed would be the number of the next file that is opened, and messages would go into
 * a trace. So each gets a stand-in, at which reading and writing fail as before, and which a launched command does not
 * inherit. First thing in main(). */
void hold_standard_descriptors();

/* Standard output, buffered; a terminal sees it at once. */
void put_out(std::string_view text);
/* Writes what is held; what went wrong with it, or with something before. */
Status flush_out();
/* Standard error, at once, from any thread. errno is kept. */
void put_error(std::string_view text);

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
