#include "consumerd/channel/count_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace plumb {

namespace {

constexpr std::size_t cell_bytes = sizeof(plumb_count);

template <std::size_t Bytes>
std::string name_in(const char (&text)[Bytes]) {
    return {text, ::strnlen(text, Bytes)};
}

bool is_of_writer(const std::string& name) {
    static constexpr std::array names = {"pid", "tid", "vpid", "vtid", "comm", "cpu"};
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_key_sound(const plumb_count_slot& slot) {
    switch (slot.kind) {
    case PLUMB_KEY_NONE:
        return slot.key_bytes == 0;
    case PLUMB_KEY_UNSIGNED:
    case PLUMB_KEY_SIGNED:
    case PLUMB_KEY_FLOAT:
        return slot.key_bytes == sizeof(std::uint64_t);
    case PLUMB_KEY_TEXT:
        return slot.key_bytes <= PLUMB_COUNT_KEY_BYTES;
    case PLUMB_KEY_CUT_TEXT:
        return slot.key_bytes == PLUMB_COUNT_KEY_BYTES;
    default:
        return false;
    }
}

CountKey key_of(const plumb_count_slot& slot) {
    CountKey key;
    key.kind = static_cast<plumb_count_key>(slot.kind);
    if (key.kind == PLUMB_KEY_TEXT || key.kind == PLUMB_KEY_CUT_TEXT)
        key.text.assign(reinterpret_cast<const char*>(slot.key), slot.key_bytes);
    else if (key.kind != PLUMB_KEY_NONE)
        std::memcpy(&key.bits, slot.key, sizeof(key.bits));
    return key;
}

/* Writers that took no other way come to it from its first place in so many steps. */
bool is_where_its_tag_says(std::uint64_t tag, std::uint32_t index, std::uint32_t slots) {
    const auto first = static_cast<std::uint32_t>(static_cast<unsigned __int128>(tag) * slots >> 64);
    const std::uint32_t steps = index >= first ? index - first : index + slots - first;
    return steps < PLUMB_COUNT_PROBES;
}

} // namespace

CountReader::CountReader(std::unique_ptr<ChannelReader> reader, const plumb_counts& counts)
    : reader_(std::move(reader)),
      key_(name_in(counts.key)),
      sum_(name_in(counts.sum)),
      hist_(name_in(counts.hist)),
      slots_(counts.slots),
      buckets_(counts.buckets),
      index_of_id_(reader_->geometry().event_slots, 0) {}

Result<CountReader> CountReader::open(std::span<const std::byte> bytes, const plumb_counts& counts,
                                      ReaderOptions options) {
    options.of_counts = true;
    auto reader = ChannelReader::open(bytes, std::move(options));
    if (!reader) return reader.error();
    const ChannelGeometry& geometry = reader->geometry();
    if (counts.slots > PLUMB_COUNT_SLOTS_MAX ||
        (counts.buckets > 1 && counts.buckets != PLUMB_COUNT_BUCKETS) ||
        PLUMB_COUNT_TABLE_BYTES(geometry.event_slots, counts.slots, counts.buckets) > geometry.ring_bytes)
        return Error("The channel is damaged: {} slots of {} counts.", counts.slots, counts.buckets);
    return CountReader(std::make_unique<ChannelReader>(std::move(*reader)), counts);
}

const EventField* CountReader::find_field(const ChannelEvent& event, const std::string& name) const {
    const auto& fields = event.description.fields;
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const EventField& field) { return field.name == name; });
    return name.empty() || found == fields.end() ? nullptr : &*found;
}

/* As a program finds them when it switches the event on. */
CountsOfEvent CountReader::begin(const ChannelEvent& event) const {
    const auto is_number = [](const EventField* field) {
        return field != nullptr && (field->type == PLUMB_FIELD_INTEGER || field->type == PLUMB_FIELD_ENUM ||
                                    field->type == PLUMB_FIELD_FLOAT);
    };
    CountsOfEvent counts;
    counts.event = &event;
    const EventField* const key = find_field(event, key_);
    if (key != nullptr && key->type != PLUMB_FIELD_ARRAY && key->type != PLUMB_FIELD_SEQUENCE)
        counts.key_field = key;
    counts.has_key = counts.key_field != nullptr || is_of_writer(key_);
    const EventField* const hist = find_field(event, hist_);
    if (is_number(hist) && hist->type != PLUMB_FIELD_FLOAT) counts.hist_field = hist;
    const EventField* const sum = find_field(event, sum_);
    counts.sum_field = sum_.empty() ? counts.hist_field : is_number(sum) ? sum : nullptr;
    return counts;
}

/* Live, the two words may be of different instants. */
plumb_count CountReader::load(const std::byte* at) const {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(at);
    return {__atomic_load_n(words, __ATOMIC_RELAXED), __atomic_load_n(words + 1, __ATOMIC_RELAXED)};
}

void CountReader::add(CountSum& sum, const CountsOfEvent& event, std::uint64_t bits) {
    if (event.sum_field == nullptr) return;
    if (event.sums_floats())
        sum.floating += std::bit_cast<double>(bits);
    else if (event.sum_field->is_signed)
        sum.integer += static_cast<std::int64_t>(bits);
    else
        sum.integer += bits;
}

void CountReader::add(CountsOfEvent& event, Counts& to, const plumb_count& count) const {
    event.count += count.count;
    to.count += count.count;
    add(event.sum, event, count.sum);
    add(to.sum, event, count.sum);
}

/* Whoever counts it has described it before. */
CountsOfEvent* CountReader::of_id(std::uint32_t id, std::vector<CountsOfEvent>& events) {
    if (id >= index_of_id_.size()) return nullptr;
    if (index_of_id_[id] == 0) {
        const ChannelEvent* const event = reader_->find_event(id);
        if (event == nullptr) return nullptr;
        events.push_back(begin(*event));
        index_of_id_[id] = static_cast<std::uint32_t>(events.size());
    }
    return &events[index_of_id_[id] - 1];
}

void CountReader::damaged(const std::string& what) {
    damaged_slots_++;
    if (!is_told_) reader_->report_damage(Damage::counts, what);
}

void CountReader::read_slot(const std::byte* table, std::uint32_t index, std::vector<CountsOfEvent>& events) {
    const std::byte* const at =
        table + reader_->geometry().event_slots * cell_bytes + index * PLUMB_COUNT_SLOT_BYTES(buckets_);
    const std::uint64_t tag = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_ACQUIRE);
    if (tag == 0 || tag == PLUMB_COUNT_CLAIMED) return;
    plumb_count_slot slot;
    std::memcpy(&slot, at, sizeof(slot));
    CountsOfEvent* const event = of_id(slot.event_id, events);
    if (event == nullptr || !is_key_sound(slot) || !is_where_its_tag_says(tag, index, slots_))
        return damaged(fmt::format("Slot {} of a table of counts is not usable.", index));
    Counts& to = event->by_key[key_of(slot)];
    if (buckets_ == PLUMB_COUNT_BUCKETS) to.buckets.resize(buckets_);
    for (std::uint32_t bucket = 0; bucket < buckets_; bucket++) {
        const plumb_count count = load(at + sizeof(slot) + bucket * cell_bytes);
        if (count.count == 0) continue;
        add(*event, to, count);
        if (!to.buckets.empty()) to.buckets[bucket] += count.count;
    }
}

void CountReader::read_table(const std::byte* table, std::vector<CountsOfEvent>& events) {
    for (std::uint32_t id = 0; id < index_of_id_.size(); id++) {
        const plumb_count count = load(table + id * cell_bytes);
        if (count.count == 0 && count.sum == 0) continue;
        if (CountsOfEvent* const event = of_id(id, events))
            add(*event, event->others, count);
        else
            damaged(fmt::format("There is a count of event {}, which is not described.", id));
    }
    for (std::uint32_t index = 0; index < slots_; index++)
        read_slot(table, index, events);
}

std::vector<CountsOfEvent> CountReader::read() {
    reader_->scan_events();
    std::vector<CountsOfEvent> events;
    std::fill(index_of_id_.begin(), index_of_id_.end(), 0);
    for (const ChannelEvent& event : reader_->events()) {
        events.push_back(begin(event));
        index_of_id_[event.id] = static_cast<std::uint32_t>(events.size());
    }
    damaged_slots_ = 0;
    const std::uint32_t tables = reader_->geometry().all_rings();
    for (std::uint32_t ring = 0; ring < tables; ring++)
        read_table(reader_->ring_data(ring), events);
    is_told_ = is_told_ || damaged_slots_ != 0;
    return events;
}

std::uint64_t CountReader::not_counted() const {
    std::uint64_t sum = 0;
    for (std::uint32_t ring = 0; ring < reader_->geometry().all_rings(); ring++)
        for (int cause = 0; cause < static_cast<int>(PLUMB_LOSS_COUNTERS); cause++)
            if (cause != PLUMB_CUT) sum += reader_->lost(ring, static_cast<plumb_loss>(cause));
    return sum;
}

} // namespace plumb
