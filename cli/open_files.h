/*
 * How many files the recorder may have open. It looks at every process that it records, and each drain has files of its
 * own; one who may have few would take processes for gone that it only cannot look at. A command that it starts gets
 * what the recorder was started with.
 */
#ifndef PLUMB_CLI_OPEN_FILES_H
#define PLUMB_CLI_OPEN_FILES_H

namespace plumb {

void raise_open_files_limit();
/* In the child, before exec. */
void restore_open_files_limit();

} // namespace plumb

#endif
