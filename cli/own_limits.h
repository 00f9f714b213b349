/*
 * Limits that the recorder was started with and that would end it without a word: of its stacks, and of its processor time.
 * A command that it starts gets them as they were.
 */
#ifndef PLUMB_CLI_OWN_LIMITS_H
#define PLUMB_CLI_OWN_LIMITS_H

#include "base/result.h"

namespace plumb {

/* Whether the stack that the command line is read on is large enough (`ulimit -s`). */
Status check_stack_limit();

/* Threads that start from now on have stacks that no limit makes smaller, and share the memory of the first one. */
void choose_thread_memory();

/* Asks for SIGXCPU before the kernel ends the process, where both are due at once (`ulimit -t`). While that signal is blocked. */
void hear_of_time_limit();
/* In the child, before exec. */
void restore_time_limit();

} // namespace plumb

#endif
