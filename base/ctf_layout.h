/*
 * How Plumb's CTF packets begin, byte for byte. The metadata (ctf_metadata.cc) describes exactly these
 * structs, so a packet is: these 88 bytes (80 in the statedump stream, which has no CPU), then records as
 * they lay in the ring.
 *
 *   +------------------+ 0
 *   | CtfPacketHeader  |
 *   +------------------+ 32
 *   | CtfPacketContext |
 *   +------------------+ 88 or 80, a multiple of 8: records keep their alignment
 *   | records          |   (of compact records: 84)
 *   +------------------+ content_size: the end of the last record's `length`
 *   | zeros            |
 *   +------------------+ packet_size: a multiple of 8 bytes
 *
 * All fields are naturally aligned and little-endian. Sizes inside are in bits.
 */
#ifndef PLUMB_BASE_CTF_LAYOUT_H
#define PLUMB_BASE_CTF_LAYOUT_H

#include <cstddef>
#include <cstdint>

namespace plumb {

constexpr uint32_t ctf_magic = 0xC1FC1FC1;

/* Stream classes. */
constexpr uint32_t ctf_stream_records = 0;
constexpr uint32_t ctf_stream_statedump = 1;

/* Event ids of the statedump stream. */
constexpr uint16_t ctf_statedump_process = 1;
constexpr uint16_t ctf_statedump_thread = 2;
constexpr uint16_t ctf_statedump_object = 3;
constexpr uint16_t ctf_statedump_namespace = 4;

/* cpu_id of packets whose ring belongs to no CPU. */
constexpr uint32_t ctf_no_cpu = 0xFFFFFFFF;

/* The entry of the metadata's environment that says at which wall-clock time, in nanoseconds, CLOCK_MONOTONIC was
 * zero. Metadata is written anew whenever the clock is known better. */
constexpr char monotonic_zero_entry[] = "monotonic_zero_realtime_ns";

/* What begins the name of a type alias in an event's description: behind it stands the name of a field that is an
 * integer for every reader, and the alias is an enumeration with the labels of its values, for those that know. */
constexpr char labels_alias[] = "plumb_labels_of_";
/* The same of a field whose bits have names: of each label whose bits are all set, in this order, and which the labels before
 * have not named. */
constexpr char flags_alias[] = "plumb_flags_of_";

/* The entry of the kernel's environment that says that the packets of the statedump tell since when and until when the names of
 * threads are known: each begins where the one before it ends, and where it does not, or behind the last one's end, they are
 * not. And what it says. Who is named between its times stands in it, or before it. */
constexpr char named_spans_entry[] = "plumb_names";
constexpr char named_spans_by_packets[] = "statedump_packets";

/* The entry of the kernel's environment that names system calls, with spaces between them, of which some exits are left out, by a
 * filter or with --exe: an entry and the next exit may be of two calls. */
constexpr char split_calls_entry[] = "plumb_split_calls";

/* The entry of the environment that says that records have small headers (consumerd/sink/record_packer.h), and what it says. */
constexpr char record_layout_entry[] = "plumb_record_layout";
constexpr char record_layout_compact[] = "compact";

/* Of such a header: the first bits are the event's id, or one of these two, and the others the lower end of the time. */
constexpr unsigned ctf_compact_kind_bits = 5;
constexpr uint32_t ctf_compact_far = 30;
constexpr uint32_t ctf_compact_whole = 31;
constexpr unsigned ctf_compact_time_bits = 27;
constexpr uint64_t ctf_compact_time_limit = uint64_t{1} << ctf_compact_time_bits;

struct CtfPacketHeader {
    uint32_t magic;
    uint8_t uuid[16];
    uint32_t stream_id;
    uint64_t stream_instance_id;
};

struct CtfPacketContext {
    uint64_t timestamp_begin;
    uint64_t timestamp_end;
    uint64_t content_size;
    uint64_t packet_size;
    uint64_t packet_seq_num;
    uint64_t events_discarded;
    uint32_t cpu_id;
    uint32_t unused; /* alignment of the first record; not content if there is none */
};

struct CtfPacketStart {
    CtfPacketHeader header;
    CtfPacketContext context;
};

static_assert(sizeof(CtfPacketHeader) == 32 && offsetof(CtfPacketHeader, stream_instance_id) == 24);
static_assert(sizeof(CtfPacketContext) == 56 && offsetof(CtfPacketContext, cpu_id) == 48);
static_assert(sizeof(CtfPacketStart) == 88);

constexpr size_t ctf_start_bytes = sizeof(CtfPacketStart);
constexpr size_t ctf_start_bytes_without_cpu = offsetof(CtfPacketStart, context.cpu_id);
static_assert(ctf_start_bytes_without_cpu == 80);

/* Small headers need no alignment. */
constexpr size_t ctf_start_bytes_compact = offsetof(CtfPacketStart, context.unused);

/* What counts as content of a packet without records. */
constexpr size_t ctf_content_bytes(size_t start_bytes) {
    return start_bytes == ctf_start_bytes ? offsetof(CtfPacketStart, context.unused) : start_bytes;
}

} // namespace plumb

#endif
