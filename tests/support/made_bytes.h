// Bytes as a file or a table has them, put together.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace plumb::test {

using Bytes = std::vector<uint8_t>;

inline Bytes little_endian(uint64_t value, unsigned count) {
    Bytes made;
    for (unsigned i = 0; i < count; i++)
        made.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return made;
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace plumb::test
