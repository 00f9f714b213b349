/*
 * Cuts the streams of a killed recorder back to whole packets.
 *
 * A packet that was begun is empty at best, and readers of CTF refuse a trace of which one
 * stream ends within a packet (see ctf_stream.h). So a small process beside the recorder knows of each stream how far it is whole, by memory
 * that both share, and waits for the recorder's end. It has no other memory, descriptor, directory or terminal of the
 * recorder's, and takes no signals but SIGKILL.
 */
#ifndef PLUMB_CONSUMERD_SINK_STREAM_KEEPER_H
#define PLUMB_CONSUMERD_SINK_STREAM_KEEPER_H

#include <cstdint>
#include <utility>

namespace plumb {

/* Once, before the process has other threads. Where it can not be started nothing is kept, and nothing else changes. */
void start_stream_keeper();

/* One stream file. Without a keeper, and for those beyond some thousands at a time, it does nothing. */
class KeptStream {
public:
    KeptStream() = default;
    /* Gives its place back: the file may be as it is. */
    ~KeptStream();
    KeptStream(KeptStream&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    KeptStream& operator=(KeptStream&& other) noexcept {
        std::swap(entry_, other.entry_);
        return *this;
    }

    /* The file is open in `fd`; nothing of it is whole yet. */
    void begin(int fd);
    /* Somebody may have moved it, with the directory that it is in. */
    void follow(int fd) const;
    void set_whole_bytes(uint64_t bytes);
    /* From now on the file may be as it is. */
    void end();

private:
    struct Entry;
    friend class StreamKeeper;
    Entry* entry_ = nullptr;
};

} // namespace plumb

#endif
