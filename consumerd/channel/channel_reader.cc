#include "consumerd/channel/channel_reader.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/clock/clock_page_check.h"

#include <plumb/clock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace plumb {
namespace {

constexpr size_t entry_limit_bytes = 64 * 1024;
constexpr uint64_t damage_lines_told = 8;

/* A string of at most `room` bytes; false if its end is not among them. */
bool take_string(const std::byte* from, size_t room, std::string& out) {
    const auto* text = reinterpret_cast<const char*>(from);
    const size_t length = strnlen(text, room);
    if (length == room) return false;
    out.assign(text, length);
    return true;
}

bool decode_process(std::span<const std::byte> bytes, ChannelEntry& entry) {
    plumb_entry_process process;
    if (bytes.size() < sizeof(process)) return false;
    std::memcpy(&process, bytes.data(), sizeof(process));
    entry.parent_process_id = process.parent_process_id;
    entry.user_id = process.user_id;
    const size_t name = offsetof(plumb_entry_process, name);
    const size_t executable = offsetof(plumb_entry_process, executable);
    return take_string(bytes.data() + name, sizeof(process.name), entry.name) &&
           take_string(bytes.data() + executable, bytes.size() - executable, entry.path);
}

bool decode_thread(std::span<const std::byte> bytes, ChannelEntry& entry) {
    if (bytes.size() < sizeof(plumb_entry_thread)) return false;
    return take_string(bytes.data() + offsetof(plumb_entry_thread, name), sizeof(plumb_entry_thread::name),
                       entry.name);
}

bool decode_object(std::span<const std::byte> bytes, ChannelEntry& entry) {
    plumb_entry_object object;
    if (bytes.size() < sizeof(object)) return false;
    std::memcpy(&object, bytes.data(), sizeof(object));
    if (object.build_id_bytes > sizeof(object.build_id)) return false;
    entry.base = object.base;
    entry.bytes = object.bytes;
    entry.build_id.assign(object.build_id, object.build_id + object.build_id_bytes);
    const size_t path = offsetof(plumb_entry_object, path);
    return take_string(bytes.data() + path, bytes.size() - path, entry.path);
}

bool decode_entry(std::span<const std::byte> bytes, ChannelEntry& entry) {
    plumb_entry header;
    if (bytes.size() < sizeof(header)) return false;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.bytes < sizeof(header) || header.bytes > bytes.size()) return false;
    bytes = bytes.first(header.bytes);
    entry.type = static_cast<plumb_entry_type>(header.type);
    entry.timestamp = header.timestamp;
    entry.process_id = header.process_id;
    entry.thread_id = header.thread_id;
    switch (header.type) {
    case PLUMB_ENTRY_PROCESS:
        return decode_process(bytes, entry);
    case PLUMB_ENTRY_THREAD:
        return decode_thread(bytes, entry);
    case PLUMB_ENTRY_OBJECT:
        return decode_object(bytes, entry);
    default:
        return false;
    }
}

} // namespace

const char* damage_name(Damage kind) {
    switch (kind) {
    case Damage::records:
        return "damaged_records";
    case Damage::subbufs:
        return "damaged_subbufs";
    case Damage::positions:
        return "damaged_positions";
    case Damage::events:
        return "damaged_events";
    case Damage::entries:
        return "damaged_entries";
    case Damage::header:
        return "damaged_header";
    case Damage::clock:
        return "damaged_clock";
    case Damage::losses:
        return "times a counter of lost events was written over: how many were lost by then is not known";
    case Damage::counts:
        return "damaged_counts";
    }
    return "damaged";
}

ChannelReader::ChannelReader(std::span<const std::byte> bytes, ChannelGeometry geometry,
                             ReaderOptions options)
    : bytes_(bytes),
      geometry_(std::move(geometry)),
      options_(std::move(options)),
      numbers_((is_live() ? WriterNumbers::of_live : WriterNumbers::of_dead)(
          reinterpret_cast<const plumb_channel_header*>(bytes_.data()))),
      event_by_id_(geometry_.event_slots, nullptr),
      record_length_(65536, length_unknown),
      event_is_bad_(geometry_.event_slots, false),
      entry_taken_(geometry_.entry_slots, 0),
      entry_freed_(geometry_.entry_slots, 0) {
    const void* const made_as = options_.made_as ? &*options_.made_as : nullptr;
    std::memcpy(fixed_header_.data(), made_as != nullptr ? made_as : bytes_.data(), fixed_header_bytes);
    if (is_live() && geometry_.clock_mode == PLUMB_CLOCK_REALTIME)
        wall_clock_.emplace(options_.realtime_offset);
}

Result<ChannelReader> ChannelReader::open(std::span<const std::byte> bytes, ReaderOptions options) {
    /* Slots and positions are read as 64-bit words. */
    if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0)
        return Error("The bytes of the channel do not begin at a multiple of 8.");
    plumb_channel_header header{};
    if (options.made_as)
        header = *options.made_as;
    else
        std::memcpy(&header, bytes.data(), std::min(sizeof(header), bytes.size()));
    const bool is_live = options.shared != nullptr;
    if (!is_live) header.clock.mode = believable_clock_mode(header.clock);
    auto geometry = check_channel_header(header, bytes.size());
    if (!geometry) return geometry.error();
    if ((geometry->mode == PLUMB_MODE_COUNT) != options.of_counts)
        return options.of_counts ? Error("The channel holds records, and no counts.")
                                 : Error("The channel holds counts, and no records.");
    ChannelReader reader(bytes, std::move(*geometry), std::move(options));
    if (!is_live) reader.check_clock();
    return reader;
}

void ChannelReader::check_clock() {
    const CheckedClockPage checked =
        check_clock_page(copy_of_clock_page(), {geometry_.created_realtime_ns, some_timestamp()});
    mended_clock_ = checked.page;
    if (!checked.damage.empty())
        report_damage(
            Damage::clock,
            fmt::format("A traced program wrote over the channel's clock. Replaced: {}.", checked.damage));
}

/* The middle one of all entries', so that damaged ones are none. */
std::optional<uint64_t> ChannelReader::some_timestamp() const {
    std::vector<uint64_t> timestamps;
    std::vector<std::byte> copy;
    for (uint32_t i = 0; i < geometry_.entry_slots; i++) {
        const uint64_t slot = load_slot(geometry_.entry_slots_offset, i);
        ChannelEntry entry{};
        if (slot != 0 && (slot & (PLUMB_SLOT_FREE | PLUMB_SLOT_CLAIMED)) == 0 &&
            copy_from_heap(slot, entry_limit_bytes, copy) && decode_entry(copy, entry))
            timestamps.push_back(entry.timestamp);
    }
    if (timestamps.empty()) return {};
    const auto middle = timestamps.begin() + static_cast<std::ptrdiff_t>(timestamps.size() / 2);
    std::nth_element(timestamps.begin(), middle, timestamps.end());
    return *middle;
}

plumb_clock_page ChannelReader::copy_of_clock_page() const {
    const auto* header = reinterpret_cast<const plumb_channel_header*>(bytes_.data());
    plumb_clock_page page{};
    plumb_clock_read_page(&header->clock, &page);
    if (is_live()) page.mode = geometry_.clock_mode;
    return page;
}

uint64_t ChannelReader::load_slot(uint64_t table_offset, uint32_t index) const {
    const auto* slot = reinterpret_cast<const uint64_t*>(bytes_.data() + table_offset) + index;
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

bool ChannelReader::is_in_heap(uint64_t slot) const {
    const uint64_t offset = PLUMB_SLOT_OFFSET(slot);
    const uint64_t size = PLUMB_SLOT_BYTES(slot);
    return size <= geometry_.heap_bytes && offset >= geometry_.heap_offset &&
           offset - geometry_.heap_offset <= geometry_.heap_bytes - size;
}

bool ChannelReader::copy_from_heap(uint64_t slot, size_t limit_bytes, std::vector<std::byte>& out) const {
    const uint64_t offset = PLUMB_SLOT_OFFSET(slot);
    const uint64_t size = PLUMB_SLOT_BYTES(slot);
    if (size > limit_bytes || !is_in_heap(slot)) return false;
    out.assign(bytes_.data() + offset, bytes_.data() + offset + size);
    return true;
}

bool ChannelReader::take_event(uint32_t id) {
    if (event_by_id_[id] != nullptr || event_is_bad_[id]) return false;
    const uint64_t slot = load_slot(geometry_.event_slots_offset, id);
    if (slot == 0) return false;
    std::vector<std::byte> copy;
    auto event = copy_from_heap(slot, PLUMB_EVENT_MAX_DESCRIPTION_BYTES, copy)
                     ? make_channel_event(id, copy)
                     : Result<ChannelEvent>(Error("It lies outside the heap."));
    if (!event) {
        event_is_bad_[id] = true;
        report_damage(Damage::events, fmt::format("The description of event {} is not usable. {}", id,
                                                  event.error().message()));
        return false;
    }
    if (geometry_.domain == PLUMB_DOMAIN_KERNEL) event->description.provider.clear(); /* its system */
    events_.push_back(std::move(*event));
    event_by_id_[id] = &events_.back();
    const PayloadShape& shape = events_.back().shape;
    record_length_[id] = shape.is_fixed() ? PLUMB_RECORD_HEADER_BYTES + shape.least_bytes() : length_varies;
    return true;
}

uint64_t ChannelReader::now() const {
    const plumb_clock_mode mode = geometry_.clock_mode;
    const bool is_known = is_live() && mode != PLUMB_CLOCK_REALTIME && mode != PLUMB_CLOCK_NONE;
    return is_known ? read_clock(mode) : newest_of_all;
}

uint64_t ChannelReader::newest_possible(uint64_t now) {
    /* Generous, for counters that differ between CPUs; what matters is that one wild timestamp does not make
     * every later record look old. */
    constexpr uint64_t slack_cycles = uint64_t{1} << 30;
    return std::min(now, newest_of_all - slack_cycles) + slack_cycles;
}

size_t ChannelReader::scan_events() {
    size_t found = 0;
    for (uint32_t id = PLUMB_EVENT_ID_FIRST; id < geometry_.event_slots; id++)
        found += take_event(id) ? 1 : 0;
    return found;
}

const ChannelEvent* ChannelReader::find_event(uint32_t id) {
    if (id < PLUMB_EVENT_ID_FIRST || id >= geometry_.event_slots) return nullptr;
    take_event(id);
    return event_by_id_[id];
}

uint64_t ChannelReader::entries_added() const {
    const auto* header = reinterpret_cast<const plumb_channel_header*>(bytes_.data());
    return __atomic_load_n(&header->entries_added, __ATOMIC_ACQUIRE);
}

std::vector<ChannelEntry> ChannelReader::take_new_entries() {
    look_for_entries();
    return std::exchange(new_entries_, {});
}

/* In the order of their times, since numbers change hands. */
void ChannelReader::look_for_entries() {
    entries_looked_at_ = entries_added();
    std::vector<ChannelEntry> found;
    size_t taken = 0;
    try {
        read_new_entries(found);
        new_entries_.reserve(new_entries_.size() + found.size());
        std::stable_sort(found.begin(), found.end(), [](const ChannelEntry& a, const ChannelEntry& b) {
            return a.timestamp < b.timestamp;
        });
        for (; taken < found.size(); taken++) {
            translate(found[taken]);
            new_entries_.push_back(std::move(found[taken]));
        }
    } catch (const std::bad_alloc&) { /* the others are new at the next look */
        for (; taken < found.size(); taken++)
            entry_taken_[found[taken].slot] = 0;
        throw;
    }
}

void ChannelReader::read_new_entries(std::vector<ChannelEntry>& found) {
    std::vector<std::byte> copy;
    uint64_t newest = 0;
    const auto is_possible = [&](uint64_t timestamp) {
        if (timestamp > newest) newest = newest_possible(now()); /* behind the look at the entry */
        return timestamp <= newest;
    };
    for (uint32_t i = 0; i < geometry_.entry_slots; i++) {
        const uint64_t slot = load_slot(geometry_.entry_slots_offset, i);
        if (slot == entry_taken_[i] || (slot & (PLUMB_SLOT_FREE | PLUMB_SLOT_CLAIMED)) != 0) continue;
        if (slot == 0) {
            entry_taken_[i] = slot;
            continue;
        }
        ChannelEntry entry{};
        entry.slot = i;
        entry.slot_value = slot;
        if (copy_from_heap(slot, entry_limit_bytes, copy) && decode_entry(copy, entry) &&
            is_possible(entry.timestamp))
            found.push_back(std::move(entry));
        else
            report_damage(Damage::entries, fmt::format("Entry {} is not usable.", i));
        entry_taken_[i] = slot;
    }
}

void ChannelReader::translate(ChannelEntry& entry) {
    const uint32_t process = entry.process_id, thread = entry.thread_id;
    entry.own_process_id = PLUMB_UNTAGGED(process);
    entry.own_thread_id = PLUMB_UNTAGGED(thread);
    if (PLUMB_TAG(process) == 0 && PLUMB_TAG(thread) == 0) return;
    const uint64_t time = entry.timestamp;
    entry.space = numbers_.space_of(process);
    entry.process_id = numbers_.process(process, time, entry.type == PLUMB_ENTRY_PROCESS);
    entry.thread_id = numbers_.thread(process, thread, time, entry.type != PLUMB_ENTRY_OBJECT);
    entry.parent_process_id = numbers_.process(entry.parent_process_id, time);
}

/* Of all thread entries, in one look over the table. */
void ChannelReader::look_for_writers() {
    process_of_writer_.clear();
    for (uint32_t i = 0; i < geometry_.entry_slots; i++) {
        const uint64_t slot = load_slot(geometry_.entry_slots_offset, i);
        plumb_entry entry;
        if (slot == 0 || (slot & (PLUMB_SLOT_FREE | PLUMB_SLOT_CLAIMED)) != 0 || !is_in_heap(slot) ||
            PLUMB_SLOT_BYTES(slot) < sizeof(entry))
            continue;
        std::memcpy(&entry, bytes_.data() + PLUMB_SLOT_OFFSET(slot), sizeof(entry));
        if (entry.type == PLUMB_ENTRY_THREAD && PLUMB_TAG(entry.thread_id) != 0)
            process_of_writer_[entry.thread_id] = entry.process_id;
    }
    writers_are_known_ = true;
}

/* A record may be read before the entry of its thread is, and the number have been another one's before: so entries are looked
 * for once for all records that were taken together. Numbers that nobody entered may be anything, so they cost no more than a
 * bounded part of us. */
uint32_t ChannelReader::number_of_writer(uint32_t tagged, uint64_t time) {
    if (!entries_are_known_ && entries_looked_at_ != entries_added()) look_for_entries();
    entries_are_known_ = true;
    if (const uint32_t known = numbers_.known_thread(tagged, time); known != 0) return known;
    if (!writers_are_known_) look_for_writers();
    const auto process = process_of_writer_.find(tagged);
    if (process != process_of_writer_.end()) return numbers_.thread(process->second, tagged, time);
    if (unnamed_writers_ >= unnamed_writers_max) return any_further_writer;
    if (++unnamed_writers_ == unnamed_writers_max && options_.log)
        options_.log(
            fmt::format("{} writers of other process-id namespaces are not described in the channel; "
                        "further ones share one thread id.",
                        unnamed_writers_max));
    return numbers_.thread(tagged, tagged, time);
}

void ChannelReader::free_entry(uint32_t slot, uint64_t slot_value) {
    /* A block that came from us is as large as it was; any other as large as a good writer makes it. */
    uint64_t freed = entry_freed_[slot];
    if (PLUMB_SLOT_OFFSET(freed & ~PLUMB_SLOT_FREE) != PLUMB_SLOT_OFFSET(slot_value) ||
        PLUMB_SLOT_BYTES(freed) < PLUMB_SLOT_BYTES(slot_value))
        freed = PLUMB_SLOT_FREE |
                PLUMB_SLOT(PLUMB_SLOT_OFFSET(slot_value), PLUMB_ENTRY_CAPACITY(PLUMB_SLOT_BYTES(slot_value)));
    auto* slots = reinterpret_cast<uint64_t*>(options_.shared + geometry_.entry_slots_offset);
    /* Behind it stands what another writer puts there, so our loads of the entry come before. */
    if (!__atomic_compare_exchange_n(slots + slot, &slot_value, freed, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return;
    auto* header = reinterpret_cast<plumb_channel_header*>(options_.shared);
    __atomic_fetch_add(&header->entries_freed, 1u, __ATOMIC_SEQ_CST);
    entry_freed_[slot] = freed;
    entry_taken_[slot] = 0;
}

uint64_t ChannelReader::lost(uint32_t ring, plumb_loss cause) const {
    return __atomic_load_n(&ring_control(ring).lost[cause], __ATOMIC_RELAXED);
}

uint64_t ChannelReader::left_off() const {
    const auto* header = reinterpret_cast<const plumb_channel_header*>(bytes_.data());
    return __atomic_load_n(&header->left_off, __ATOMIC_RELAXED);
}

uint64_t ChannelReader::conditions_refused() const {
    const auto* header = reinterpret_cast<const plumb_channel_header*>(bytes_.data());
    return __atomic_load_n(&header->conditions_refused, __ATOMIC_RELAXED);
}

uint64_t ChannelReader::refused(plumb_refusal what) const {
    const auto* header = reinterpret_cast<const plumb_channel_header*>(bytes_.data());
    return __atomic_load_n(&header->refused[what], __ATOMIC_RELAXED);
}

const plumb_ring_control& ChannelReader::ring_control(uint32_t ring) const {
    return reinterpret_cast<const plumb_ring_control*>(bytes_.data() + geometry_.control_offset)[ring];
}

const std::byte* ChannelReader::ring_data(uint32_t ring) const {
    return bytes_.data() + geometry_.data_offset + ring * geometry_.ring_bytes;
}

plumb_ring_control& ChannelReader::shared_control(uint32_t ring) const {
    return reinterpret_cast<plumb_ring_control*>(options_.shared + geometry_.control_offset)[ring];
}

void ChannelReader::mend_header() {
    if (std::memcmp(bytes_.data(), fixed_header_.data(), fixed_header_bytes) == 0) return;
    std::memcpy(options_.shared, fixed_header_.data(), fixed_header_bytes);
    report_damage(Damage::header, "The channel's header was written over, and is as it was again.");
}

bool ChannelReader::count_damage(Damage kind) {
    return ++damage_[static_cast<size_t>(kind)] <= damage_lines_told && options_.log != nullptr;
}

void ChannelReader::tell_damage(Damage kind, const std::string& what) {
    const bool is_last = damage_[static_cast<size_t>(kind)] == damage_lines_told;
    options_.log(is_last ? what + " (Further damage of this kind is only counted.)" : what);
}

void ChannelReader::report_damage(Damage kind, const std::string& what) {
    if (count_damage(kind)) tell_damage(kind, what);
}

} // namespace plumb
