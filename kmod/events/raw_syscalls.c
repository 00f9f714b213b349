// SPDX-License-Identifier: GPL-2.0
/* Every system call: its number, its arguments, and what came of it. */
#include <trace/events/syscalls.h>

#define PLUMB_HEADER <trace/events/syscalls.h>
#define PLUMB_EVENTS plumb_raw_syscalls_events
#include "stages.h"
