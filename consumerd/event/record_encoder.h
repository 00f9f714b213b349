/*
 * Writes records (<plumb/abi/record.h>) one behind the other: header, then packed fields, each record aligned.
 */
#ifndef PLUMB_CONSUMERD_EVENT_RECORD_ENCODER_H
#define PLUMB_CONSUMERD_EVENT_RECORD_ENCODER_H

#include <plumb/abi/record.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace plumb {

class RecordEncoder {
public:
    void begin(uint16_t event_id, uint64_t timestamp, uint32_t thread_id) {
        bytes_.resize((bytes_.size() + 7) & ~size_t{7});
        begin_ = bytes_.size();
        put(plumb_record{timestamp, event_id, 0, thread_id});
    }
    void end() {
        const auto length = static_cast<uint16_t>(bytes_.size() - begin_);
        std::memcpy(bytes_.data() + begin_ + offsetof(plumb_record, length), &length, sizeof(length));
    }
    template <class T>
    void put(const T& value) {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof(value));
    }
    void put_string(std::string_view text) {
        const size_t length = std::min(text.size(), string_bytes_max);
        const auto* from = reinterpret_cast<const std::byte*>(text.data());
        bytes_.insert(bytes_.end(), from, from + length);
        bytes_.push_back(std::byte{0});
    }
    const std::vector<std::byte>& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }

private:
    static constexpr size_t string_bytes_max = 4096; /* longer ones are cut */

    std::vector<std::byte> bytes_;
    size_t begin_ = 0;
};

} // namespace plumb

#endif
