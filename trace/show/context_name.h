/* The name of who wrote an event, where a tracer puts it into each event: LTTng's context `procname`. */
#ifndef PLUMB_TRACE_SHOW_CONTEXT_NAME_H
#define PLUMB_TRACE_SHOW_CONTEXT_NAME_H

#include "trace/ctf/stream_reader.h"

#include <string_view>

namespace plumb {

/* Part of the event's bytes; empty if it is not there, as in all traces of Plumb. */
std::string_view context_name_of(const Event& event);

} // namespace plumb

#endif
