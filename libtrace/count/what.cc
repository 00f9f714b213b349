#include "what.h"
#include "../bytes.h"

#include "../ring/sequence.h"

#include <sys/prctl.h>

namespace plumb::count {

namespace {

// Reads a payload by a link that may change meanwhile: wherever it leads, it is not beyond the payload.
class Payload {
public:
    Payload(const Link& link, const void* at, uint32_t bytes)
        : link_(link), at_(static_cast<const unsigned char*>(at)), bytes_(bytes) {}

    uint32_t begin_of(uint32_t place) const {
        const uint32_t variables = place >> condition::place_offset_bits;
        const uint32_t offset = place & ((1u << condition::place_offset_bits) - 1);
        uint64_t begin = 0;
        for (uint32_t i = 0; i < variables && i < PLUMB_EVENT_MAX_FIELDS && begin < bytes_; i++)
            begin = behind(link_.variables[i], begin);
        begin += offset;
        return begin < bytes_ ? static_cast<uint32_t>(begin) : bytes_;
    }

    bool load(uint32_t begin, uint32_t bytes, uint64_t& bits) const {
        bits = 0;
        if (bytes_ - begin < bytes) return false;
        switch (bytes) {
        case 1:
            bits = at_[begin];
            return true;
        case 2:
            __builtin_memcpy(&bits, at_ + begin, 2);
            return true;
        case 4:
            __builtin_memcpy(&bits, at_ + begin, 4);
            return true;
        case 8:
            __builtin_memcpy(&bits, at_ + begin, 8);
            return true;
        default:
            return false;
        }
    }
    // With its sign, if it has one.
    bool load_integer(const Place& place, uint64_t& bits) const {
        const uint32_t bytes = place.type & condition::type_bytes;
        if (!load(begin_of(place.place), bytes, bits)) return false;
        if ((place.type & condition::type_signed) == 0) return true;
        const uint32_t unused = 64 - 8 * bytes;
        bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
        return true;
    }
    Bytes string_at(uint32_t begin) const {
        const auto* const at = reinterpret_cast<const char*>(at_ + begin);
        const uint32_t left = bytes_ - begin;
        return {at, static_cast<uint32_t>(find_byte('\0', at, left))};
    }
    Bytes text_at(uint32_t begin) const {
        uint64_t count;
        if (!load(begin, 2, count)) return {nullptr, 0};
        const uint32_t left = bytes_ - begin - 2;
        return {reinterpret_cast<const char*>(at_ + begin + 2),
                count < left ? static_cast<uint32_t>(count) : left};
    }

private:
    uint64_t behind(const condition::Variable& variable, uint64_t base) const {
        const uint64_t begin = base + load_relaxed(variable.offset);
        if (begin >= bytes_) return bytes_;
        const auto at = static_cast<uint32_t>(begin);
        if (load_relaxed(variable.type) == PLUMB_FIELD_STRING) return begin + string_at(at).count + 1;
        uint64_t count;
        if (!load(at, 2, count)) return bytes_;
        return begin + 2 + count * load_relaxed(variable.size);
    }

    const Link& link_;
    const unsigned char* const at_;
    const uint32_t bytes_;
};

Place copy_of(const Place& shared) {
    const uint64_t word = load_relaxed(reinterpret_cast<const uint64_t&>(shared));
    Place place;
    __builtin_memcpy(&place, &word, sizeof(place));
    return place;
}
static_assert(sizeof(Place) == sizeof(uint64_t));

void set_number(Key& key, plumb_count_key kind, uint64_t bits) {
    key.kind = kind;
    key.bytes = sizeof(bits);
    __builtin_memcpy(key.text, &bits, sizeof(bits));
}

void set_text(Key& key, Bytes text) {
    const bool is_cut = text.count > PLUMB_COUNT_KEY_BYTES;
    const uint32_t bytes = is_cut ? PLUMB_COUNT_KEY_BYTES : text.count;
    key.kind = is_cut ? PLUMB_KEY_CUT_TEXT : PLUMB_KEY_TEXT;
    key.bytes = bytes;
    for (uint32_t end = bytes; end % 8 != 0; end++)
        key.text[end] = 0;
    if (bytes != 0) __builtin_memcpy(key.text, text.at, bytes);
}

// What a child of vfork() finds in its memory is its parent's.
bool is_known_thread() {
    return load_relaxed(plumb_thread_self.in_vfork) == 0 && plumb_thread_self.id != 0;
}

// Some of it takes a system call, and where none may be made there is no key.
void set_of_writer(Key& key, uint8_t source) {
    const Permit permit;
    char name[16] = {};
    unsigned cpu = 0;
    switch (source) {
    case source_pid:
        if (is_known_thread() || permit.given())
            set_number(key, PLUMB_KEY_UNSIGNED, is_known_thread() ? runtime.process_id : sys::process_id());
        return;
    case source_tid:
        if (is_known_thread() || permit.given())
            set_number(key, PLUMB_KEY_UNSIGNED, is_known_thread() ? plumb_thread_self.id : sys::thread_id());
        return;
    case source_cpu:
        if (uses_sequences())
            set_number(key, PLUMB_KEY_UNSIGNED, current_cpu(runtime.rseq_offset));
        else if (permit.given() && sys::call(SYS_getcpu, &cpu, nullptr, nullptr) == 0)
            set_number(key, PLUMB_KEY_UNSIGNED, cpu);
        return;
    case source_comm:
        if (permit.given() && sys::call(SYS_prctl, PR_GET_NAME, name, 0, 0, 0) == 0) {
            name[sizeof(name) - 1] = '\0';
            set_text(key, {name, static_cast<uint32_t>(length_of(name))});
        }
        return;
    default:
        return;
    }
}

// The bits of a double, without a step of floating point, of which the program may have set that it traps.
bool load_double(const Payload& payload, const Place& place, uint64_t& bits) {
    const uint32_t bytes = place.type & condition::type_bytes;
    if (!payload.load(payload.begin_of(place.place), bytes, bits)) return false;
    if (bytes == sizeof(double)) return true;
    const uint64_t sign = bits >> 31 << 63, fraction = bits & 0x7fffff;
    const uint64_t exponent = bits >> 23 & 0xff;
    if (exponent == 0xff) {
        bits = sign | uint64_t{0x7ff} << 52 | fraction << 29;
    } else if (exponent != 0) {
        bits = sign | (exponent + 1023 - 127) << 52 | fraction << 29;
    } else if (fraction == 0) {
        bits = sign;
    } else { // a number that has no leading one there, and has one as a double
        const auto up = static_cast<uint32_t>(__builtin_clzll(fraction)) - 40;
        bits = sign | uint64_t{1023 - 126 - up} << 52 | (fraction << up & 0x7fffff) << 29;
    }
    return true;
}

void set_key(Key& key, const Payload& payload, const Place& place) {
    uint64_t bits = 0;
    switch (place.source) {
    case source_none:
        return;
    case PLUMB_FIELD_INTEGER:
    case PLUMB_FIELD_ENUM:
        if (payload.load_integer(place, bits))
            set_number(key,
                       (place.type & condition::type_signed) != 0 ? PLUMB_KEY_SIGNED : PLUMB_KEY_UNSIGNED,
                       bits);
        return;
    case PLUMB_FIELD_FLOAT:
        if (load_double(payload, place, bits)) set_number(key, PLUMB_KEY_FLOAT, bits);
        return;
    case PLUMB_FIELD_STRING:
        return set_text(key, payload.string_at(payload.begin_of(place.place)));
    case PLUMB_FIELD_TEXT:
        return set_text(key, payload.text_at(payload.begin_of(place.place)));
    default:
        return set_of_writer(key, place.source);
    }
}

uint32_t bucket_of(uint64_t value, bool is_signed) {
    if (is_signed && static_cast<int64_t>(value) < 0) return PLUMB_COUNT_BUCKET_NEGATIVE;
    if (value == 0) return PLUMB_COUNT_BUCKET_ZERO;
    return PLUMB_COUNT_BUCKET_ZERO + 64 - static_cast<uint32_t>(__builtin_clzll(value));
}

} // namespace

Told tell(const Link& link, uint64_t cookie, const Attachment& attachment, const void* payload_at,
          uint32_t payload_bytes, What& what) {
    const uint32_t version = load_acquire(link.version);
    if (version % 2 != 0 || load_relaxed(link.cookie) != cookie) return Told::changed;
    const Payload payload(link, payload_at, payload_bytes);
    const Place sum = copy_of(link.sum), hist = copy_of(link.hist);
    const Place key = copy_of(link.key);
    set_key(what.key, payload, key);
    if (sum.source == PLUMB_FIELD_FLOAT)
        what.sums_floats = load_double(payload, sum, what.sum);
    else if (sum.source != source_none && !payload.load_integer(sum, what.sum))
        what.sum = 0;
    uint64_t value = 0;
    const bool has_value = hist.source != source_none && payload.load_integer(hist, value);
    // Also where key or value are not known: the reader takes what lies elsewhere for what found no slot.
    what.has_slot = key.source != source_none || hist.source != source_none;
    const bool has_buckets = load_relaxed(attachment.count_buckets) == PLUMB_COUNT_BUCKETS;
    if (has_buckets)
        what.bucket = has_value ? bucket_of(value, (hist.type & condition::type_signed) != 0)
                                : PLUMB_COUNT_BUCKET_NO_VALUE;
    else if (has_value)
        return Told::changed; // it speaks of another session
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return load_relaxed(link.version) == version ? Told::told : Told::changed;
}

} // namespace plumb::count
