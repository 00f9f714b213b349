// The times of the records in a kernel domain's statedump file, in the order of the file.
#pragma once

#include "base/ctf_layout.h"
#include "base/file.h"

#include <plumb/abi/channel.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace plumb::test {

inline std::vector<uint64_t> kernel_statedump_times(const std::string& path) {
    std::vector<uint64_t> times;
    const Result<std::string> file = read_small_file(path, size_t{16} << 20);
    EXPECT_TRUE(file) << path;
    for (size_t packet = 0; file && packet + ctf_start_bytes <= file->size();) {
        CtfPacketStart start;
        std::memcpy(&start, file->data() + packet, sizeof(start));
        const size_t first = times.size();
        for (size_t at = ctf_start_bytes; at + PLUMB_RECORD_HEADER_BYTES <= start.context.content_size / 8;) {
            plumb_record record;
            std::memcpy(&record, file->data() + packet + at, sizeof(record));
            times.push_back(record.timestamp);
            at += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
        }
        if (times.size() > first) {
            EXPECT_LE(start.context.timestamp_begin, times[first]);
            EXPECT_GE(start.context.timestamp_end, times.back());
        }
        packet += start.context.packet_size / 8;
    }
    return times;
}

} // namespace plumb::test
