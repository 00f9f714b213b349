/*
 * Reads one stream file of a CTF trace: packet after packet, event after event, in the order of the file.
 *
 * The bytes are hostile: sizes, positions and ids are checked before use. What can not be read is skipped, up
 * to the next packet if its size is known, and told in `problems`; what was lost before it came into the file
 * is counted in `losses`.
 *
 * Reading an event finds where it ends and says which event it is; its fields are decoded only for who asks,
 * with visit_fields() and its like.
 */
#ifndef PLUMB_TRACE_CTF_STREAM_READER_H
#define PLUMB_TRACE_CTF_STREAM_READER_H

#include "trace/ctf/field_walker.h"
#include "trace/ctf/trace_layout.h"

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plumb {

inline constexpr uint32_t no_cpu = std::numeric_limits<uint32_t>::max();

/* One event, as long as its stream has not moved on. */
struct Event {
    const EventInfo* info = nullptr;
    const StreamLayout* stream = nullptr;
    int64_t time_ns = 0; /* since 1970, if the trace's clock knows */
    uint64_t cycles = 0;
    uint32_t cpu = no_cpu;
    uint32_t thread_id = 0;  /* 0: not in the trace */
    uint32_t process_id = 0; /* 0: not in the event; TraceReader::thread_of() may know */

    const uint8_t* packet = nullptr;
    uint64_t stream_context_bit = 0; /* where its parts begin, from `packet` */
    uint64_t context_bit = 0;
    uint64_t fields_bit = 0;
    uint64_t end_bit = 0;
    uint64_t* slots = nullptr;
};

/* Each returns false if the bytes end before the struct does; the visitor has seen what is whole. */
template <typename Visitor>
bool visit_fields(const Event& event, Visitor& visitor) {
    BitCursor cursor{event.packet, event.fields_bit, event.end_bit};
    return walk(event.info->fields, cursor, event.slots, visitor);
}
template <typename Visitor>
bool visit_stream_context(const Event& event, Visitor& visitor) {
    BitCursor cursor{event.packet, event.stream_context_bit, event.end_bit};
    return walk(event.stream->event_context, cursor, event.slots, visitor);
}
template <typename Visitor>
bool visit_event_context(const Event& event, Visitor& visitor) {
    BitCursor cursor{event.packet, event.context_bit, event.end_bit};
    return walk(event.info->context, cursor, event.slots, visitor);
}

/* What is missing from a stream. */
struct StreamLosses {
    uint64_t events_discarded = 0; /* counted by the writer */
    uint64_t packets_lost = 0;     /* missing sequence numbers: overwritten, or never written */
    uint64_t unknown_events = 0;   /* in the stream, but not in the metadata */
    uint64_t damaged_packets = 0;  /* given up, in whole or from some event on */
    bool any() const { return (events_discarded | packets_lost | unknown_events | damaged_packets) != 0; }
};

/* Events are missing somewhere in between: as narrow as the packets' own times tell. */
struct LossPlace {
    int64_t from_ns = 0, until_ns = 0;
};

/* All of a stream file, in order: neither begins nor ends before the one before it. */
struct StreamLossPlaces {
    std::span<const uint8_t> file;
    std::vector<LossPlace> places;

    /* Event::packet is in it. */
    bool has(const uint8_t* packet) const {
        return packet >= file.data() && packet < file.data() + file.size();
    }
};

/* What a packet says of itself. */
struct PacketPlace {
    uint64_t at = 0; /* in the file */
    uint64_t stream_id = 0;
    uint64_t timestamp_begin = 0;
    uint64_t events_discarded = 0; /* until it ended, since the tracer began to count */
    uint64_t content_bits = 0;     /* less than it says if the file ends inside */
    std::optional<uint64_t> instance_id;
    std::optional<uint64_t> sequence_number;
};

class StreamReader {
public:
    StreamReader(const TraceLayout& layout, std::span<const uint8_t> bytes, std::string name);

    /* Moves to the next event; false at the end. */
    bool next();
    const Event& event() const { return event_; }

    /* Packets that end before this time are not looked into. */
    void skip_before(int64_t time_ns) { skip_before_ns_ = time_ns; }
    /* Back to the first event, with all counts at zero. */
    void rewind();
    /* Of each packet, until `look` returns false. Behind it all is as after rewind(). */
    void look_at_packets(const std::function<bool(const PacketPlace&)>& look);
    /* Of the packet that is looked at: until when it tells. */
    uint64_t packet_end() const { return has(Role::timestamp_end) ? role(Role::timestamp_end) : 0; }
    /* In order. Behind it all is as after rewind(). */
    StreamLossPlaces loss_places();
    /* Before the first next(): the file goes on where another one ended, whose last packet this is; what is at these places,
     * which are in order, stands in another one, too, and is left out here. */
    void continue_behind(const std::optional<PacketPlace>& last, std::vector<uint64_t> left_out);

    const std::string& name() const { return name_; }
    std::span<const uint8_t> bytes() const { return bytes_; }
    std::size_t size_bytes() const { return bytes_.size(); }
    const TraceLayout& layout() const { return layout_; }
    const StreamLayout* stream() const { return stream_; }
    uint32_t cpu() const { return event_.cpu; }
    const StreamLosses& losses() const { return losses_; }
    /* What was wrong with the file, for a person; the first few only. */
    const std::vector<std::string>& problems() const { return problems_; }

private:
    struct PacketSizes {
        uint64_t content_bits;
        uint64_t packet_bits;
    };
    bool next_event();
    bool next_packet();
    bool enter_packet();
    uint64_t steps_left_ = 0; /* in this packet */
    bool is_cut_ = false;     /* the file ends inside its content, and it is counted so */
    bool read_header(BitCursor& cursor);
    bool check_header();
    std::optional<PacketSizes> packet_sizes(uint64_t header_bits);
    bool ends_before(int64_t time_ns) const;
    PacketPlace place() const;
    void count_losses();
    bool next_plumb_event();
    bool next_compact_event();
    enum class Skipped { whole, cut, too_many };
    Skipped skip_plan(const Plan& plan, uint32_t fixed_bytes, uint64_t& bit, uint64_t end_bit);
    bool next_other_event();
    bool give_up_packet(std::string_view why);
    bool give_up_file(std::string_view why);
    void tell(std::string_view why);
    bool has(Role role) const { return (present_ >> static_cast<unsigned>(role) & 1) != 0; }
    uint64_t role(Role role) const { return roles_[static_cast<std::size_t>(role)]; }

    friend struct RoleVisitor;

    const TraceLayout& layout_;
    std::span<const uint8_t> bytes_;
    std::string name_;
    const StreamLayout* stream_ = nullptr;
    std::vector<uint64_t> slots_;
    Event event_;

    uint64_t packet_at_ = 0;      /* of the current packet, in bytes_ */
    uint64_t next_packet_at_ = 0; /* behind it */
    uint64_t bit_ = 0;            /* of the next event, from the packet's start */
    uint64_t content_bits_ = 0;
    bool in_packet_ = false;
    uint64_t clock_ = 0;
    uint64_t begin_ = 0;     /* of the packet: what its timestamp_begin means where the clock has come to */
    unsigned end_bits_ = 64; /* of its timestamp_end */
    int64_t skip_before_ns_ = std::numeric_limits<int64_t>::min();

    std::array<uint64_t, static_cast<std::size_t>(Role::count)> roles_{};
    uint64_t present_ = 0;
    std::array<uint8_t, 16> uuid_{};
    unsigned uuid_bytes_ = 0;

    std::optional<PacketPlace> before_; /* the last packet of the file that this one goes on from */
    std::vector<uint64_t> left_out_;    /* places of packets */
    bool first_packet_ = true;
    uint64_t last_discarded_ = 0;
    uint64_t last_sequence_ = 0;
    StreamLosses losses_;
    std::vector<std::string> problems_;
};

} // namespace plumb

#endif
