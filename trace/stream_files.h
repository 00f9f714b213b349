/*
 * One stream in several files. LTTng begins a new file where the last one is large enough (--tracefile-size), with each
 * rotation, and with each snapshot, which may have packets that the one before it has. The tracer goes on counting what it
 * lost and the packets that it wrote, so what was lost is known only by who reads these files as one.
 *
 * They are known by the trace's UUID and the stream's id and number. Files of Plumb's traces are streams of their own.
 */
#ifndef PLUMB_TRACE_STREAM_FILES_H
#define PLUMB_TRACE_STREAM_FILES_H

#include "trace/ctf/stream_reader.h"

#include <memory>
#include <vector>

namespace plumb {

/* Before any of them is read: tells each from where it goes on, and which of its packets another one has. */
void join_streams(const std::vector<std::unique_ptr<StreamReader>>& streams);

} // namespace plumb

#endif
