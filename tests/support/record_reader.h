// Reads records of a live channel for tests, and checks what always holds of a ring: alignment, length, no
// record across a sub-buffer boundary, time order. Deliberately small and separate from the consumer's
// reader, so that the two do not share a mistake.
#pragma once

#include "tests/support/test_session.h"

#include <plumb/abi/record.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumb::test {

struct SeenRecord {
    uint32_t ring;
    plumb_record header;
    const unsigned char* payload;
    uint32_t payload_bytes;
};

class RecordReader {
public:
    using Use = std::function<void(const SeenRecord&)>;
    // From the beginning; in overwrite mode from the oldest records that are still there.
    RecordReader(TestChannel& channel, Use use);

    // Takes what was published since the last call, gives whole sub-buffers back. Returns the records taken.
    uint64_t poll();
    // What was wrong; empty if nothing.
    const std::vector<std::string>& complaints() const { return complaints_; }
    uint64_t overwritten_subbufs() const { return overwritten_subbufs_; }
    // Do not give anything back: rings fill up.
    bool keep = false;

private:
    struct Ring {
        uint64_t position = 0;
        uint64_t timestamp = 0;
        bool broken = false;
    };
    uint64_t poll_ring(uint32_t ring);
    uint64_t window_end(uint32_t ring) const;
    bool copy_span(uint32_t ring, uint64_t from, uint64_t bytes, std::vector<unsigned char>& to);
    void complain(uint32_t ring, uint64_t position, const std::string& what);

    TestChannel& channel_;
    Use use_;
    std::vector<Ring> rings_;
    std::vector<std::string> complaints_;
    std::vector<unsigned char> copy_;
    uint64_t overwritten_subbufs_ = 0;
};

// The name ("provider:event") and the fields of event `id`, from the channel's own description.
struct SeenEvent {
    std::string name;
    uint8_t log_level = 0;
    struct Field {
        std::string name;
        plumb_field field;
        std::vector<std::pair<int64_t, std::string>> labels; // of ranges, both ends
    };
    std::vector<Field> fields;
    std::string source_file;
};
SeenEvent describe_event(const TestChannel& channel, uint32_t id);
// The id of an event by "provider:name"; 0: the channel has none.
uint16_t find_event(const TestChannel& channel, const std::string& name);

} // namespace plumb::test
