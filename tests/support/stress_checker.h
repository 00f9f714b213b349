// Collects the records of stress_writer programs and says what is wrong with them: torn (checksum), doubled,
// lost (but for what the channel counted), or out of order.
#pragma once

#include "tests/support/child.h"
#include "tests/support/record_reader.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace plumb::test {

class StressChecker {
public:
    explicit StressChecker(TestChannel& channel);
    RecordReader& reader() { return reader_; }
    uint64_t poll() { return reader_.poll(); }
    uint64_t record_count() const { return record_count_; }
    uint64_t newest_timestamp() const { return newest_timestamp_; }
    uint64_t records_of(uint32_t writer) const { return seen_[writer].size(); }

    // The thread ids that its records carry.
    const std::set<uint32_t>& threads_of(uint32_t writer) { return threads_[writer]; }

    // Everything that does not depend on losses: layout, checksums, order, doubles. Empty if all is well.
    std::string check();
    // Every event that a writer began is there; those of `except` may end early, but have no gap.
    std::string check_complete(const Board& board, const std::vector<uint32_t>& killed_processes = {});
    // Events recorded and events counted as lost are the events that writers began and finished.
    std::string check_counted(const Board& board);

private:
    struct Seen {
        uint64_t timestamp;
        uint64_t sequence;
    };
    void use(const SeenRecord& record);
    void complain(const std::string& what);

    TestChannel& channel_;
    std::vector<std::vector<Seen>> seen_;
    std::map<uint32_t, std::set<uint32_t>> threads_;
    std::vector<std::string> complaints_;
    uint64_t record_count_ = 0;
    uint64_t newest_timestamp_ = 0;
    uint16_t fixed_id_ = 0;
    uint16_t varying_id_ = 0;
    RecordReader reader_;
};

} // namespace plumb::test
