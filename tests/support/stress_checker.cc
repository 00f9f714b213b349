#include "tests/support/stress_checker.h"

#include <algorithm>
#include <cstring>

namespace plumb::test {

namespace {

template <typename T>
T take(const unsigned char*& at) {
    T value;
    memcpy(&value, at, sizeof(value));
    at += sizeof(value);
    return value;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += line + "\n";
    return text;
}

} // namespace

StressChecker::StressChecker(TestChannel& channel)
    : channel_(channel),
      seen_(board_writers_max),
      reader_(channel, [this](const SeenRecord& record) { use(record); }) {}

void StressChecker::complain(const std::string& what) {
    if (complaints_.size() < 20) complaints_.push_back(what);
}

void StressChecker::use(const SeenRecord& record) {
    if (fixed_id_ == 0) fixed_id_ = find_event(channel_, "stress:fixed");
    if (varying_id_ == 0) varying_id_ = find_event(channel_, "stress:varying");
    newest_timestamp_ = std::max(newest_timestamp_, record.header.timestamp);
    record_count_++;
    const unsigned char* at = record.payload;
    const bool varies = record.header.event_id == varying_id_;
    if (!varies && record.header.event_id != fixed_id_)
        return complain("event id " + std::to_string(record.header.event_id));
    if (record.payload_bytes < (varies ? 22u : 20u)) return complain("payload is too short");
    const auto writer = take<uint32_t>(at);
    const auto sequence = take<uint64_t>(at);
    const uint64_t count = varies ? take<uint16_t>(at) : 0;
    if (record.payload_bytes != (varies ? 22 + count : 20) || writer >= board_writers_max)
        return complain("payload of " + std::to_string(record.payload_bytes) + " bytes does not fit");
    const unsigned char* bytes = at;
    at += count;
    if (take<uint64_t>(at) != stress_checksum(writer, sequence, bytes, count))
        return complain("torn: writer " + std::to_string(writer) + " sequence " + std::to_string(sequence));
    threads_[writer].insert(record.header.thread_id);
    seen_[writer].push_back({record.header.timestamp, sequence});
}

std::string StressChecker::check() {
    for (uint32_t writer = 0; writer < seen_.size(); writer++) {
        auto& seen = seen_[writer];
        std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
            return a.timestamp != b.timestamp ? a.timestamp < b.timestamp : a.sequence < b.sequence;
        });
        for (size_t i = 1; i < seen.size(); i++) {
            if (seen[i].sequence > seen[i - 1].sequence) continue;
            complain("writer " + std::to_string(writer) + ": " + std::to_string(seen[i].sequence) +
                     " after " + std::to_string(seen[i - 1].sequence) +
                     (seen[i].sequence == seen[i - 1].sequence ? " (doubled)" : " (out of order)"));
            break;
        }
    }
    return joined(reader_.complaints()) + joined(complaints_);
}

std::string StressChecker::check_complete(const Board& board, const std::vector<uint32_t>& killed_processes) {
    std::string text;
    for (uint32_t writer = 0; writer < seen_.size(); writer++) {
        const bool killed = std::find(killed_processes.begin(), killed_processes.end(), writer / 64) !=
                            killed_processes.end();
        const uint64_t finished = board.writers[writer].finished.load();
        const uint64_t started = board.writers[writer].started.load();
        const uint64_t seen = seen_[writer].size();
        if (!killed && started != finished) text += "writer " + std::to_string(writer) + " did not finish\n";
        if (seen < finished || seen > started)
            text += "writer " + std::to_string(writer) + ": " + std::to_string(seen) + " records of " +
                    std::to_string(finished) + ".." + std::to_string(started) + " events\n";
    }
    return text;
}

std::string StressChecker::check_counted(const Board& board) {
    uint64_t started = 0;
    uint64_t finished = 0;
    for (const BoardWriter& writer : board.writers) {
        started += writer.started.load();
        finished += writer.finished.load();
    }
    const uint64_t accounted = record_count_ + channel_.lost_events();
    if (accounted >= finished && accounted <= started) return "";
    return std::to_string(record_count_) + " records + " + std::to_string(channel_.lost_events()) +
           " lost = " + std::to_string(accounted) + ", but " + std::to_string(finished) + ".." +
           std::to_string(started) + " events\n";
}

} // namespace plumb::test
