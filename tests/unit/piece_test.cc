// cmake-once
/* A piece of records, cut for a sink that takes little at a time. */
#include "consumerd/channel/piece.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace plumb {
namespace {

/* Records of 16 bytes and some; the last one ends without padding. */
std::vector<std::byte> records_of(const std::vector<uint16_t>& lengths) {
    std::vector<std::byte> bytes;
    uint64_t time = 100;
    size_t end = 0;
    for (const uint16_t length : lengths) {
        plumb_record record{time++, 1, length, 7};
        const size_t at = bytes.size();
        bytes.resize(at + (length + size_t{7}) / 8 * 8);
        std::memcpy(bytes.data() + at, &record, sizeof(record));
        end = at + length;
    }
    bytes.resize(end);
    return bytes;
}

TEST(Piece, IsCutBetweenRecords) {
    const std::vector<uint16_t> lengths = {17, 24, 100, 16, 31, 500, 16, 18, 20};
    const std::vector<std::byte> bytes = records_of(lengths);
    for (size_t bytes_max = 1; bytes_max < 800; bytes_max++) {
        size_t next = 0;
        for (Piece left{bytes, lengths.size(), 100, 108, 3, 4, 0}; left.record_count > 0;) {
            const Piece first = first_of(left, bytes_max);
            ASSERT_GT(first.record_count, 0u);
            EXPECT_TRUE(first.records.size() <= bytes_max || first.record_count == 1);
            EXPECT_EQ(first.first_timestamp, 100 + next);
            EXPECT_EQ(first.lost_subbufs, 3u);
            EXPECT_EQ(first.lost_events, 4u);
            size_t last_end = 0, at = 0;
            for_each_record(first, [&](const plumb_record& record) {
                ASSERT_LT(next, lengths.size());
                EXPECT_EQ(record.timestamp, 100 + next);
                EXPECT_EQ(record.length, lengths[next]);
                last_end = at + record.length;
                at += (record.length + size_t{7}) / 8 * 8;
                next++;
            });
            EXPECT_EQ(first.records.size(), last_end) << "padding is no content";
            EXPECT_EQ(first.last_timestamp, 99 + next);
            left = behind(left, first);
        }
        EXPECT_EQ(next, lengths.size()) << bytes_max;
    }
}

} // namespace
} // namespace plumb
