/*
 * What a probe is to record besides that it was hit: arguments in the kernel's own syntax (Documentation/trace/kprobetrace),
 * as they stand in parentheses behind the place:
 *
 *   uprobe:./app:load(name=+0(%di):string, n=%si:u32)      registers, and what they point to
 *   uretprobe:./app:load($retval:s32)                      what a function returns
 *
 * Names that are left out are arg1, arg2, ... by their place.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_FETCH_ARGUMENTS_H
#define PLUMB_CONSUMERD_KERNEL_FETCH_ARGUMENTS_H

#include "base/result.h"

#include <string>

namespace plumb {

struct ProbeText {
    std::string place;     /* without the arguments, and without spaces around it */
    std::string arguments; /* what is between the parentheses; empty: none */
};

/* Parentheses of a C++ function's parameters are part of the place: arguments have a %, $, @, \ or = in them. */
ProbeText split_arguments(const std::string& text);

/* As the kernel wants them: "name=+0(%di):string n=%si:u32". */
Result<std::string> fetch_arguments(const std::string& text);

/* What the kernel's error_log says of a command that it just refused: "Unknown type is specified.", with the word that it
 * points at. Empty: nothing. Entries of other commands are others'. */
std::string refusal_in_log(const std::string& log, const std::string& command);

} // namespace plumb

#endif
