/*
 * plumb list, as root: that other users have programs with tracepoints, or left something, which the commands show and
 * take only by name of the user.
 */
#ifndef PLUMB_CLI_LIST_USERS_H
#define PLUMB_CLI_LIST_USERS_H

#include <string>

namespace plumb {

/* Lines for the end of the list; empty if there is nobody, or for who is not root. */
std::string other_users_text();

} // namespace plumb

#endif
