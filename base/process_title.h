/*
 * What ps and pkill know a process by.
 */
#ifndef PLUMB_BASE_PROCESS_TITLE_H
#define PLUMB_BASE_PROCESS_TITLE_H

namespace plumb {

/* In a forked child: its name and its command line, which are its parent's until then, become `title`. Who looks for the
 * parent by name does not find the child any more. */
void take_process_title(const char* title);

} // namespace plumb

#endif
