#include "consumerd/kernel/raw_page.h"

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

constexpr std::uint32_t type_padding = 29;
constexpr std::uint32_t type_time_extend = 30;
constexpr std::uint32_t type_time_stamp = 31;
constexpr unsigned type_bits = 5;
constexpr unsigned delta_bits = 27;
constexpr std::uint32_t word_bytes = 4;

constexpr std::uint64_t missed_events_flag = std::uint64_t{1} << 31;
constexpr std::uint64_t missed_stored_flag = std::uint64_t{1} << 30;
constexpr std::uint64_t commit_mask = missed_stored_flag - 1;

/* An absolute time stamp has 59 bits; the rest is that of the time before. */
constexpr std::uint64_t stamp_mask = (std::uint64_t{1} << (32 + delta_bits)) - 1;

/* The kernel puts back the upper bits where there are any, and then knows that a stamp that went back has gone past a
 * multiple of 2^59. */
std::uint64_t with_stamp(std::uint64_t before, std::uint64_t stamp) {
    const std::uint64_t upper = before & ~stamp_mask;
    const std::uint64_t time = upper | stamp;
    return upper != 0 && time < before ? time + stamp_mask + 1 : time;
}

template <typename T>
T read(std::span<const std::byte> bytes, std::size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
}

} // namespace

RawPage::RawPage(std::span<const std::byte> bytes, const RawPageFormat& format) {
    const std::size_t header_bytes = std::max<std::size_t>(
        {format.data_offset, std::size_t{format.commit_offset} + format.commit_bytes, sizeof(std::uint64_t)});
    if (bytes.size() < header_bytes || (format.commit_bytes != 4 && format.commit_bytes != 8)) {
        is_damaged_ = true;
        return;
    }
    time_ = read<std::uint64_t>(bytes, 0);
    const std::uint64_t commit = format.commit_bytes == 8 ? read<std::uint64_t>(bytes, format.commit_offset)
                                                          : read<std::uint32_t>(bytes, format.commit_offset);
    const std::span<const std::byte> data = bytes.subspan(format.data_offset);
    const std::uint64_t used = commit & commit_mask;
    if (used > data.size()) {
        is_damaged_ = true;
        return;
    }
    events_ = data.first(used);
    has_missed_ = (commit & missed_events_flag) != 0;
    if (has_missed_ && (commit & missed_stored_flag) != 0 && data.size() - used >= sizeof(std::uint64_t))
        missed_count_ = read<std::uint64_t>(data, used);
}

inline std::uint32_t RawPage::word_at(std::size_t offset) const {
    return read<std::uint32_t>(events_, offset);
}

bool RawPage::damaged() {
    is_damaged_ = true;
    at_ = events_.size();
    return false;
}

bool RawPage::next(RawEvent& event) {
    while (events_.size() - at_ >= word_bytes) {
        const std::uint32_t header = word_at(at_);
        const std::uint32_t type = header & ((1u << type_bits) - 1);
        const std::uint64_t delta = header >> type_bits;
        const std::size_t left = events_.size() - at_ - word_bytes;
        if (type > 0 && type < type_padding) {
            const std::size_t bytes = std::size_t{type} * word_bytes;
            if (bytes > left) return damaged();
            time_ += delta;
            event = {time_, events_.subspan(at_ + word_bytes, bytes)};
            at_ += word_bytes + bytes;
            return true;
        }
        /* A padding without time closes the page. */
        if (type == type_padding && delta == 0) {
            at_ = events_.size();
            return false;
        }
        if (left < word_bytes) return damaged();
        const std::uint64_t word = word_at(at_ + word_bytes);
        if (type == type_time_extend || type == type_time_stamp) {
            const std::uint64_t time = word << delta_bits | delta;
            time_ = type == type_time_extend ? time_ + time : with_stamp(time_, time);
            at_ += std::size_t{2} * word_bytes;
            continue;
        }
        /* `word` counts itself: of an event too large for the header, or of one that was discarded. */
        const std::size_t bytes = (word + word_bytes - 1) & ~std::uint64_t{word_bytes - 1};
        if (word < word_bytes || bytes > left) return damaged();
        /* A discarded event without time gets a 1 there: nothing may look like the end of the page. */
        if (type != type_padding || delta > 1) time_ += delta;
        const std::size_t data_at = at_ + std::size_t{2} * word_bytes;
        at_ += word_bytes + bytes;
        if (type == type_padding) continue;
        event = {time_, events_.subspan(data_at, word - word_bytes)};
        return true;
    }
    return false;
}

} // namespace plumb
