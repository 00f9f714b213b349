// What the recorder does with each record that it finds in a ring, step by step: copies and checks it, gives it a small
// header, and hands it to the file system.
//
//   bench_drain FILE LAPS     FILE: is written over and over, as large as a few rings
//
// Prints the best lap of each as JSON, in nanoseconds for an event with one u64: a bare copy of what lies in the ring, the
// floor under the first step; `read`, the first step; `pack`, both; and write(2) of as many bytes as they leave to write.
// The ring is in this CPU's caches: a recorder beside a producer fetches it from another one's.
#include "best_lap.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/sink/record_packer.h"
#include "tests/support/channel_builder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace plumb;
using plumb::bench::best_ns;

namespace {

constexpr uint32_t subbuf_bytes = 512 * 1024;
constexpr uint32_t subbuf_count = 8;
constexpr size_t laps_of_file = 8;

test::ChannelBuilder filled_channel(uint64_t& events) {
    test::BuilderConfig config;
    config.subbuf_bytes = subbuf_bytes;
    config.subbuf_count = subbuf_count;
    config.ring_count = 1;
    test::ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("number", {test::integer("value", 8)});
    for (events = 0; channel.write(0, id, 1000 + events, test::Payload().put(events).bytes());)
        events++;
    return channel;
}

/* All pieces of the ring; how many records were in them. */
template <typename Use>
uint64_t read_ring(ChannelReader& reader, ReadBuffer& buffer, Use use) {
    RingReader ring(reader, 0);
    uint64_t count = 0;
    while (const auto piece = ring.next(ReadWhat::everything, buffer)) {
        count += piece->record_count;
        use(*piece);
    }
    return count;
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: bench_drain FILE LAPS\n");
        return 2;
    }
    const int laps = std::atoi(argv[2]);
    uint64_t events = 0;
    test::ChannelBuilder channel = filled_channel(events);
    auto reader = ChannelReader::open(channel.bytes());
    const int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (!reader || file < 0) {
        std::fprintf(stderr, "bench_drain: %s\n",
                     reader ? "could not open the file" : reader.error().message().c_str());
        return 1;
    }
    ReadBuffer buffer;
    EventNumbers numbers;
    RecordPacker packer(numbers);
    const std::byte* const ring = channel.ring(0);
    const double copied_ns = best_ns(laps, [&] {
        for (size_t at = 0; at < size_t{subbuf_bytes} * subbuf_count; at += ReadBuffer::chunk_limit_bytes) {
            std::memcpy(buffer.chunk.get(), ring + at, ReadBuffer::chunk_limit_bytes);
            __asm__ volatile("" : : "r"(buffer.chunk.get()) : "memory");
        }
    });
    uint64_t seen = 0;
    size_t packed_bytes = 0;
    const double read_ns = best_ns(laps, [&] { seen = read_ring(*reader, buffer, [](const Piece&) {}); });
    const double pack_ns = best_ns(laps, [&] {
        packed_bytes = 0;
        read_ring(*reader, buffer,
                  [&](const Piece& piece) { packed_bytes += packer.pack(piece.records).size(); });
    });
    off_t at = 0;
    bool is_written = true;
    const double written_ns = best_ns(laps, [&] {
        if (at >= static_cast<off_t>(laps_of_file * packed_bytes)) {
            at = 0;
            is_written = ftruncate(file, 0) == 0 && is_written;
        }
        for (size_t left = packed_bytes; left > 0;) {
            const ssize_t done = pwrite(file, ring, std::min<size_t>(left, 170 * 1024), at);
            is_written = done > 0 && is_written;
            if (done <= 0) break;
            left -= static_cast<size_t>(done);
            at += done;
        }
    });
    unlink(argv[1]);
    if (seen != events || !is_written) {
        std::fprintf(stderr, "bench_drain: %s\n",
                     is_written ? "records are missing" : "could not write the file");
        return 1;
    }
    const auto count = static_cast<double>(events);
    std::printf("{\"events\": %llu, \"bytes_per_event\": %.1f, \"copy_ns\": %.2f, \"read_ns\": %.2f, "
                "\"pack_ns\": %.2f, "
                "\"write_ns\": %.2f}\n",
                static_cast<unsigned long long>(events), static_cast<double>(packed_bytes) / count,
                copied_ns / count, read_ns / count, pack_ns / count, written_ns / count);
    return 0;
}
