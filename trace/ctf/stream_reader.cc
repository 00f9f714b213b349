#include "trace/ctf/stream_reader.h"

#include "base/ctf_layout.h"

#include <plumb/abi/record.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace plumb {
namespace {

constexpr uint32_t ctf_packet_magic = 0xC1FC1FC1;
constexpr std::size_t max_problems = 8;

/* A timestamp of fewer than 64 bits is the lower end of a clock that goes on. */
uint64_t later(uint64_t clock, unsigned bits, uint64_t value) {
    if (bits == 64) return value;
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const uint64_t low = value & mask;
    const bool wrapped = low < (clock & mask);
    return (clock & ~mask) + low + (wrapped ? mask + 1 : 0);
}

} // namespace

/* Keeps the values that mean something to the reader, and sets the clock. */
struct RoleVisitor : SkipVisitor {
    explicit RoleVisitor(StreamReader& reader) : reader_(reader) {}

    void integer(const Step& step, uint64_t value) {
        if (step.role == Role::uuid) {
            if (reader_.uuid_bytes_ < reader_.uuid_.size())
                reader_.uuid_[reader_.uuid_bytes_++] = static_cast<uint8_t>(value);
            return;
        }
        if (step.role != Role::none) {
            reader_.roles_[static_cast<std::size_t>(step.role)] = value;
            reader_.present_ |= uint64_t{1} << static_cast<unsigned>(step.role);
        }
        if (step.role == Role::timestamp_end)
            reader_.end_bits_ = step.size_bits;
        else if (step.maps_clock || step.role == Role::timestamp_begin)
            reader_.clock_ = later(reader_.clock_, step.size_bits, value);
        if (step.role == Role::timestamp_begin) reader_.begin_ = reader_.clock_;
    }

private:
    StreamReader& reader_;
};

StreamReader::StreamReader(const TraceLayout& layout, std::span<const uint8_t> bytes, std::string name)
    : layout_(layout), bytes_(bytes), name_(std::move(name)) {
    slots_.resize(layout.packet_header_slot_count());
    event_.slots = slots_.data();
}

void StreamReader::rewind() {
    next_packet_at_ = 0;
    in_packet_ = false;
    clock_ = 0;
    first_packet_ = !before_;
    last_discarded_ = before_ ? before_->events_discarded : 0;
    last_sequence_ = before_ ? before_->sequence_number.value_or(0) : 0;
    losses_ = {};
    problems_.clear();
}

void StreamReader::look_at_packets(const std::function<bool(const PacketPlace&)>& look) {
    rewind();
    const int64_t skip_before_ns = std::exchange(skip_before_ns_, std::numeric_limits<int64_t>::min());
    while (next_packet() && look(place())) {
    }
    skip_before_ns_ = skip_before_ns;
    rewind();
}

/* A tracer counts what is missing in the packet that it writes when it counts: it may have been lost before that one, in
 * it, or behind it. */
StreamLossPlaces StreamReader::loss_places() {
    constexpr int64_t never = std::numeric_limits<int64_t>::max();
    StreamLossPlaces found{bytes_, {}};
    std::vector<LossPlace>& places = found.places;
    int64_t before_ns = std::numeric_limits<int64_t>::min();
    uint64_t known = 0;
    bool is_open = false;
    look_at_packets([&](const PacketPlace&) {
        const int64_t begin_ns = stream_->clock(has(Role::timestamp_begin) ? begin_ : 0);
        const uint64_t lost = losses_.events_discarded + losses_.packets_lost;
        if (is_open) places.back().until_ns = begin_ns;
        is_open = lost > known;
        if (is_open) places.push_back({before_ns, never});
        known = lost;
        before_ns = begin_ns;
        return true;
    });
    return found;
}

void StreamReader::continue_behind(const std::optional<PacketPlace>& last, std::vector<uint64_t> left_out) {
    before_ = last;
    left_out_ = std::move(left_out);
    rewind();
}

PacketPlace StreamReader::place() const {
    const auto told = [this](Role role_of_it) {
        return has(role_of_it) ? std::optional(role(role_of_it)) : std::nullopt;
    };
    return {packet_at_,
            stream_->id,
            told(Role::timestamp_begin).value_or(0),
            told(Role::events_discarded).value_or(0),
            content_bits_,
            told(Role::stream_instance_id),
            told(Role::packet_seq_num)};
}

void StreamReader::tell(std::string_view why) {
    if (problems_.size() < max_problems)
        problems_.push_back(fmt::format("{}, packet at byte {}: {}", name_, packet_at_, why));
}

bool StreamReader::give_up_packet(std::string_view why) {
    tell(why);
    if (!is_cut_) ++losses_.damaged_packets;
    in_packet_ = false;
    return true;
}

bool StreamReader::give_up_file(std::string_view why) {
    is_cut_ = false;
    tell(why);
    ++losses_.damaged_packets;
    in_packet_ = false;
    next_packet_at_ = bytes_.size();
    return false;
}

bool StreamReader::next() {
    for (;;) {
        if (!in_packet_) {
            if (!next_packet()) return false;
            continue;
        }
        if (next_event()) return true;
    }
}

/* False: no event here. */
bool StreamReader::next_event() {
    switch (stream_->record_layout) {
    case RecordLayout::plain:
        return next_plumb_event();
    case RecordLayout::compact:
        return next_compact_event();
    case RecordLayout::other:
        break;
    }
    return next_other_event();
}

/* Moves to the next packet that is worth looking into; false at the end of the file. */
bool StreamReader::next_packet() {
    while (next_packet_at_ < bytes_.size()) {
        packet_at_ = next_packet_at_;
        if (!enter_packet()) return false;
        if (in_packet_) return true;
    }
    return false;
}

/* False if there is no way to go on in this file. */
bool StreamReader::enter_packet() {
    const uint64_t available_bits = (bytes_.size() - packet_at_) * 8;
    event_.packet = bytes_.data() + packet_at_;
    BitCursor cursor{event_.packet, 0, available_bits};
    if (!read_header(cursor)) return false;
    const std::optional<PacketSizes> sizes = packet_sizes(cursor.bit);
    if (!sizes) return false;
    next_packet_at_ = packet_at_ + std::min(sizes->packet_bits, available_bits) / 8;
    if (std::binary_search(left_out_.begin(), left_out_.end(), packet_at_)) {
        in_packet_ = false;
        return true;
    }
    if (sizes->packet_bits > available_bits) tell("the file ends inside the packet");
    /* Between two events, too: nothing else would show it. */
    is_cut_ = sizes->content_bits > available_bits;
    if (is_cut_) ++losses_.damaged_packets;
    if (has(Role::timestamp_begin)) clock_ = begin_;
    event_.cpu = has(Role::cpu_id) ? static_cast<uint32_t>(role(Role::cpu_id)) : no_cpu;
    count_losses();
    bit_ = cursor.bit;
    steps_left_ = BitCursor::steps_for(std::min(sizes->content_bits, available_bits));
    content_bits_ = std::min(sizes->content_bits, available_bits);
    in_packet_ = !ends_before(skip_before_ns_);
    return true;
}

/* A packet that its tracer did not live to finish (lttng-crash) has no end, and says 0. */
bool StreamReader::ends_before(int64_t time_ns) const {
    if (!has(Role::timestamp_end)) return false;
    const uint64_t end = role(Role::timestamp_end);
    if (!has(Role::timestamp_begin)) return stream_->clock(end) < time_ns;
    const bool is_finished = end_bits_ == 64 ? end >= begin_ : end != 0 || begin_ == 0;
    return is_finished && stream_->clock(later(begin_, end_bits_, end)) < time_ns;
}

bool StreamReader::read_header(BitCursor& cursor) {
    RoleVisitor visitor(*this);
    present_ = 0;
    uuid_bytes_ = 0;
    if (!walk(layout_.packet_header(), cursor, slots_.data(), visitor))
        return give_up_file("the file ends inside the packet's header");
    if (!check_header()) return false;
    if (!walk(stream_->packet_context, cursor, slots_.data(), visitor))
        return give_up_file("the file ends inside the packet's header");
    return true;
}

bool StreamReader::check_header() {
    if (has(Role::magic) && role(Role::magic) != ctf_packet_magic)
        return give_up_file("there is no packet where one should begin");
    const auto& uuid = layout_.metadata().uuid;
    if (uuid && uuid_bytes_ == uuid_.size() && *uuid != uuid_)
        return give_up_file("the packet belongs to another trace");
    const uint64_t id = has(Role::stream_id) ? role(Role::stream_id) : 0;
    const StreamLayout* const stream = layout_.find_stream(id);
    if (stream == nullptr) return give_up_file(fmt::format("the metadata has no stream {}", id));
    stream_ = stream;
    event_.stream = stream;
    return true;
}

std::optional<StreamReader::PacketSizes> StreamReader::packet_sizes(uint64_t header_bits) {
    const uint64_t available_bits = (bytes_.size() - packet_at_) * 8;
    PacketSizes sizes{};
    sizes.packet_bits = has(Role::packet_size) ? role(Role::packet_size) : available_bits;
    sizes.content_bits = has(Role::content_size) ? role(Role::content_size) : sizes.packet_bits;
    if (sizes.content_bits >= header_bits && sizes.content_bits <= sizes.packet_bits &&
        sizes.packet_bits % 8 == 0 && sizes.packet_bits > 0)
        return sizes;
    give_up_file(fmt::format("impossible sizes, {} of {} bits", sizes.content_bits, sizes.packet_bits));
    return std::nullopt;
}

/* Counters go on over the packets of a stream. A trace of Plumb starts counting with its first packet; others
 * may have counted before the part that was kept. */
void StreamReader::count_losses() {
    const bool from_zero =
        stream_->is_plumb_record() || (has(Role::packet_seq_num) && role(Role::packet_seq_num) == 0);
    if (has(Role::events_discarded)) {
        const uint64_t now = role(Role::events_discarded);
        if (first_packet_ ? from_zero : now > last_discarded_)
            losses_.events_discarded += now - (first_packet_ ? 0 : last_discarded_);
        last_discarded_ = std::max(now, last_discarded_); /* LTTng writes a 0 now and then */
    }
    if (has(Role::packet_seq_num)) {
        const uint64_t now = role(Role::packet_seq_num);
        const uint64_t expected = first_packet_ ? 0 : last_sequence_ + 1;
        if (now > expected && (!first_packet_ || from_zero)) losses_.packets_lost += now - expected;
        last_sequence_ = now;
    }
    first_packet_ = false;
}

/* The fixed shape: 16 bytes of header, then the payload, `length` over both. False: no event here. */
bool StreamReader::next_plumb_event() {
    const uint64_t at = ((bit_ >> 3) + (PLUMB_RECORD_ALIGNMENT - 1)) & ~uint64_t{PLUMB_RECORD_ALIGNMENT - 1};
    const uint64_t end = content_bits_ >> 3;
    if (at >= end) {
        in_packet_ = false;
        return false;
    }
    plumb_record record;
    if (end - at < sizeof record) return !give_up_packet("it ends inside an event");
    std::memcpy(&record, event_.packet + at, sizeof record);
    if (record.length < sizeof record || record.length > end - at)
        return !give_up_packet(fmt::format("the event at byte {} of it has an impossible length", at));
    bit_ = (at + record.length) * 8;
    event_.info = stream_->find_event(record.event_id);
    if (event_.info == nullptr) {
        if (losses_.unknown_events++ == 0)
            tell(fmt::format("the metadata has no event with id {}", record.event_id));
        return false;
    }
    event_.cycles = record.timestamp;
    event_.time_ns = stream_->clock(record.timestamp);
    event_.thread_id = record.thread_id;
    event_.stream_context_bit = at * 8 + offsetof(plumb_record, thread_id) * 8;
    event_.context_bit = event_.fields_bit = (at + sizeof record) * 8;
    event_.end_bit = bit_;
    const bool is_whole = skip_plan(event_.info->context, event_.info->context_bytes, event_.fields_bit,
                                    bit_) == Skipped::whole;
    if (!is_whole) event_.fields_bit = bit_; /* who looks at either finds that it ends too early */
    return true;
}

/* To the byte behind what the plan describes. */
StreamReader::Skipped StreamReader::skip_plan(const Plan& plan, uint32_t fixed_bytes, uint64_t& bit,
                                              uint64_t end_bit) {
    if (plan.empty()) return Skipped::whole;
    if (fixed_bytes != EventInfo::variable_size && bit <= end_bit && fixed_bytes <= (end_bit - bit) >> 3) {
        bit += uint64_t{fixed_bytes} * 8;
        return Skipped::whole;
    }
    BitCursor cursor{event_.packet, bit, end_bit};
    cursor.steps_left = steps_left_;
    SkipVisitor skip;
    if (!walk(plan, cursor, slots_.data(), skip))
        return cursor.steps_left == 0 ? Skipped::too_many : Skipped::cut;
    steps_left_ = cursor.steps_left;
    bit = (cursor.bit + 7) & ~uint64_t{7};
    return Skipped::whole;
}

/* The small headers that consumerd/sink/record_packer.h draws. Where the fields end, they say themselves. False: no event
 * here. */
bool StreamReader::next_compact_event() {
    const uint64_t at = bit_ >> 3, end = content_bits_ >> 3;
    constexpr uint64_t near_bytes = 4, far_bytes = 6, whole_bytes = 11, thread_bytes = 4;
    if (at >= end) {
        in_packet_ = false;
        return false;
    }
    const auto cut = [this] { return !give_up_packet("it ends inside an event"); };
    if (end - at < near_bytes + thread_bytes) return cut();
    const uint8_t* const bytes = event_.packet + at;
    const auto load = [bytes]<typename Integer>(uint64_t offset, Integer value) {
        std::memcpy(&value, bytes + offset, sizeof value);
        return value;
    };
    const uint32_t first = load(0, uint32_t{});
    uint64_t id = first & ((uint32_t{1} << ctf_compact_kind_bits) - 1), header_bytes = near_bytes;
    if (id == ctf_compact_whole) {
        header_bytes = whole_bytes;
        if (end - at < header_bytes + thread_bytes) return cut();
        id = load(1, uint16_t{});
        clock_ = load(3, uint64_t{});
    } else {
        constexpr uint64_t mask = ctf_compact_time_limit - 1;
        const uint64_t low = first >> ctf_compact_kind_bits;
        clock_ += (low - clock_) & mask;
        if (id == ctf_compact_far) {
            header_bytes = far_bytes;
            if (end - at < header_bytes + thread_bytes) return cut();
            id = load(4, uint16_t{});
        }
    }
    event_.info = stream_->find_event(id);
    if (event_.info == nullptr) {
        ++losses_.unknown_events;
        return !give_up_packet(fmt::format("the metadata has no event with id {}", id));
    }
    event_.thread_id = load(header_bytes, uint32_t{});
    event_.cycles = clock_;
    event_.time_ns = stream_->clock(clock_);
    event_.stream_context_bit = (at + header_bytes) * 8;
    event_.context_bit = event_.fields_bit = (at + header_bytes + thread_bytes) * 8;
    const EventInfo& info = *event_.info;
    Skipped skipped = skip_plan(info.context, info.context_bytes, event_.fields_bit, content_bits_);
    uint64_t end_bit = event_.fields_bit;
    if (skipped == Skipped::whole)
        skipped = skip_plan(info.fields, info.fields_bytes, end_bit, content_bits_);
    if (skipped == Skipped::too_many)
        return !give_up_packet(
            fmt::format("its events have too many parts that take no space, {}", info.name));
    if (skipped == Skipped::cut) return cut();
    event_.end_bit = bit_ = end_bit;
    return true;
}

/* Any other shape: every part is walked to find where the next one begins. False: no event here. */
bool StreamReader::next_other_event() {
    BitCursor cursor{event_.packet, bit_, content_bits_};
    cursor.steps_left = steps_left_;
    RoleVisitor roles(*this);
    SkipVisitor skip;
    if (!cursor.align(stream_->event_header.align_mask) || cursor.bit >= content_bits_) {
        in_packet_ = false;
        return false;
    }
    constexpr auto bit_of = [](Role role) { return uint64_t{1} << static_cast<unsigned>(role); };
    present_ &= ~(bit_of(Role::event_id) | bit_of(Role::thread_id) | bit_of(Role::process_id));
    if (!walk(stream_->event_header, cursor, slots_.data(), roles))
        return !give_up_packet("it ends inside an event");
    const uint64_t id = has(Role::event_id) ? role(Role::event_id) : 0;
    event_.info = stream_->find_event(id);
    if (event_.info == nullptr) {
        ++losses_.unknown_events;
        return !give_up_packet(fmt::format("the metadata has no event with id {}", id));
    }
    event_.stream_context_bit = cursor.bit;
    bool whole = walk(stream_->event_context, cursor, slots_.data(), roles);
    event_.context_bit = cursor.bit;
    whole = whole && walk(event_.info->context, cursor, slots_.data(), skip);
    event_.fields_bit = cursor.bit;
    whole = whole && walk(event_.info->fields, cursor, slots_.data(), skip);
    if (!whole && cursor.steps_left == 0)
        return !give_up_packet(
            fmt::format("its events have too many parts that take no space, {}", event_.info->name));
    if (!whole) return !give_up_packet(fmt::format("it ends inside an event, {}", event_.info->name));
    if (cursor.bit == bit_) return !give_up_packet("it holds events that take no space");
    bit_ = event_.end_bit = cursor.bit;
    steps_left_ = cursor.steps_left;
    event_.cycles = clock_;
    event_.time_ns = stream_->clock(clock_);
    event_.thread_id = has(Role::thread_id) ? static_cast<uint32_t>(role(Role::thread_id)) : 0;
    event_.process_id = has(Role::process_id) ? static_cast<uint32_t>(role(Role::process_id)) : 0;
    return true;
}

} // namespace plumb
