/*
 * Cycles of a trace's clock to nanoseconds since its origin (1970 for clocks that say so), exactly:
 *
 *   offset_s * 10^9 + floor(offset_cycles * 10^9 / f) + floor(cycles * 10^9 / f)
 *
 * A 128-bit division takes longer than all the rest of decoding an event, so for f >= 10^9 the quotient is
 * estimated with a multiplication by 2^64 * 10^9 / f, which is at most 1 too small, and then corrected.
 */
#ifndef PLUMB_BASE_CLOCK_CONVERT_H
#define PLUMB_BASE_CLOCK_CONVERT_H

#include <cstdint>

namespace plumb {

class CyclesToNs {
public:
    CyclesToNs() = default;
    CyclesToNs(uint64_t frequency_hz, int64_t offset_s, int64_t offset_cycles) : frequency_(frequency_hz) {
        if (frequency_ > ns_per_s)
            reciprocal_ =
                static_cast<uint64_t>((static_cast<unsigned __int128>(ns_per_s) << 64) / frequency_);
        const uint64_t magnitude = offset_cycles < 0 ? 0 - static_cast<uint64_t>(offset_cycles)
                                                     : static_cast<uint64_t>(offset_cycles);
        const uint64_t offset_ns = scaled(magnitude);
        /* Unsigned, since the metadata may say anything: nonsense must wrap, not trap. */
        base_ns_ =
            static_cast<uint64_t>(offset_s) * ns_per_s + (offset_cycles < 0 ? 0 - offset_ns : offset_ns);
    }

    int64_t operator()(uint64_t cycles) const { return static_cast<int64_t>(base_ns_ + scaled(cycles)); }

private:
    static constexpr uint64_t ns_per_s = 1'000'000'000;

    uint64_t scaled(uint64_t cycles) const {
        if (frequency_ == ns_per_s) return cycles;
        if (frequency_ < ns_per_s)
            return static_cast<uint64_t>(static_cast<unsigned __int128>(cycles) * ns_per_s / frequency_);
        uint64_t ns = static_cast<uint64_t>((static_cast<unsigned __int128>(cycles) * reciprocal_) >> 64);
        const unsigned __int128 rest = static_cast<unsigned __int128>(cycles) * ns_per_s -
                                       static_cast<unsigned __int128>(ns) * frequency_;
        if (rest >= frequency_) ++ns;
        return ns;
    }

    uint64_t frequency_ = ns_per_s;
    uint64_t reciprocal_ = 0;
    uint64_t base_ns_ = 0;
};

} // namespace plumb

#endif
