/*
 * The statedump stream: process, thread and object entries of a channel, as events that say who wrote the
 * records and what was loaded where, so that a trace can be read after all of them are gone.
 *
 * Entries come in no order: a writer takes the time first and enters its entry afterwards. They are sorted
 * before they are written. One that comes too late gets the time of the last one written: a stream must not go
 * back. That its records are not older than that is the caller's business.
 */
#ifndef PLUMB_CONSUMERD_SINK_CTF_STATEDUMP_H
#define PLUMB_CONSUMERD_SINK_CTF_STATEDUMP_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/sink/ctf_stream.h"

#include <cstddef>
#include <vector>

namespace plumb {

/* Sorts the entries by time and appends them to the stream as packets of about so many bytes of records at most. */
Status write_statedump(CtfStream& stream, std::vector<ChannelEntry>& entries, size_t records_max);

} // namespace plumb

#endif
