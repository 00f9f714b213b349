// Compares a trace with the board: each record whole, known, once, in order, by whom it says; and, of what had to be
// recorded, all that was not counted as lost. Prints what it found as one JSON object.
//
//   storm_check BOARD TRACE [OPTION...]
//     begin=FILE end=FILE   an observer's notes; without them all that the board says counts
//     except=PID,PID        processes that could not be told to trace: what they did need not be there
//     without-nobody        what user 65534 did need not be there
//     names-may-miss        a record need not say of which process it is
//     seen-only             who could not be told to trace is not known: of a writer who has no record there need be none
//     partial               the recorder was killed: only what is there is looked at
#include "tests/fixtures/stress_board.h"
#include "tests/stress/storm/acts.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

namespace plumb::storm {

namespace {

struct Seen {
    std::vector<uint64_t> sequences;
    int64_t last_ns = 0;
    uint64_t highest = 0;
    uint32_t copies = 0;
};

// The values of stress:fixed and stress:varying, as they come.
struct Values {
    std::vector<uint64_t> numbers;
    std::vector<uint8_t> bytes;
    uint32_t depth = 0;
    void integer(const Step& step, uint64_t bits) {
        if (depth > 0)
            bytes.push_back(static_cast<uint8_t>(bits));
        else if (!step.is_length)
            numbers.push_back(bits);
    }
    void floating(const Step&, double) {}
    void text(const Step&, std::string_view) {}
    void begin(const Step& step, uint64_t) { depth += step.kind == StepKind::array; }
    void end(const Step& step) { depth -= step.kind == StepKind::array; }
};

class Check {
public:
    Check(const Board& board, uint32_t writer_count) : board_(board), seen_(writer_count) {}

    // The disk was full when the names were to be written.
    bool names_may_miss = false;
    // Only what is behind a writer's first record has to be there.
    bool seen_only = false;

    void use(TraceReader& reader, const Event& event);
    // Of what had to be there; `from` and `to` of each writer.
    void compare(const std::vector<uint64_t>& from, const std::vector<uint64_t>& to,
                 const std::set<uint32_t>& except, uint32_t excepted_flags);
    nlohmann::ordered_json result() const;

private:
    void complain(const std::string& what) {
        if (++complaint_count_ <= 20) complaints_.push_back(what);
    }
    // Whether the record that was just visited has less of its bytes than its writer gave, and those right.
    bool is_cut(uint32_t writer, uint64_t sequence) const;
    void check_writer(TraceReader& reader, const Event& event, uint32_t number, uint64_t sequence);
    std::string name_of(uint32_t number) const {
        const Writer& writer = board_.writers[number];
        return fmt::format("{} (process {}, thread {}, writer {})", all_acts()[writer.act].name,
                           writer.process, writer.thread, number);
    }

    const Board& board_;
    std::vector<Seen> seen_;
    Values values_;
    uint64_t records_ = 0, others_ = 0, required_ = 0, missing_ = 0;
    std::map<std::string, uint64_t> missing_by_act_;
    std::vector<std::string> missing_examples_;
    std::vector<std::string> complaints_;
    uint64_t complaint_count_ = 0;
    uint64_t cut_ = 0;
};

void Check::use(TraceReader& reader, const Event& event) {
    const bool varies = event.info->name == "stress:varying";
    if (!varies && event.info->name != "stress:fixed") {
        others_++;
        return;
    }
    records_++;
    values_.numbers.clear();
    values_.bytes.clear();
    values_.depth = 0;
    if (!visit_fields(event, values_) || values_.numbers.size() != 3) return complain("a record that is cut");
    const uint64_t number = values_.numbers[0];
    const uint64_t sequence = values_.numbers[1];
    const auto writer = static_cast<uint32_t>(number);
    if (number >= seen_.size()) return complain(fmt::format("there is no writer {}", number));
    if (is_cut(writer, sequence))
        cut_++; // where jumps out of handlers have left no room for it: counted by the writer, and said
    else if (values_.numbers[2] !=
             test::stress_checksum(writer, sequence, values_.bytes.data(), values_.bytes.size()))
        return complain(fmt::format("torn: {}, sequence {}", name_of(writer), sequence));
    check_writer(reader, event, writer, sequence);
}

bool Check::is_cut(uint32_t writer, uint64_t sequence) const {
    if (values_.bytes.size() >= test::stress_length(writer, sequence)) return false;
    for (uint64_t i = 0; i < values_.bytes.size(); i++)
        if (values_.bytes[i] != test::stress_byte(writer, sequence, i)) return false;
    return !values_.bytes.empty();
}

void Check::check_writer(TraceReader& reader, const Event& event, uint32_t number, uint64_t sequence) {
    const Writer& writer = board_.writers[number];
    Seen& seen = seen_[number];
    if (sequence >= writer.started.load())
        return complain(fmt::format("never begun: {}, sequence {}", name_of(number), sequence));
    const uint32_t flags = writer.flags.load();
    // Parent and child both finish the event in whose middle the fork was, its last one.
    const bool is_last = sequence + 1 == writer.started.load();
    if ((flags & writer_was_copied) != 0 && is_last && !seen.sequences.empty() && seen.highest == sequence) {
        if (++seen.copies > 1)
            complain(fmt::format("three times: {}, sequence {}", name_of(number), sequence));
        return;
    }
    if ((flags & writer_is_inside) == 0) {
        const bool may_be_childs = (flags & writer_was_copied) != 0 && is_last;
        if (event.thread_id != writer.thread && !may_be_childs)
            complain(fmt::format("{} sequence {} is recorded as of thread {}", name_of(number), sequence,
                                 event.thread_id));
        else if (const uint32_t process = reader.process_id_of(event);
                 process != writer.process && !may_be_childs && !(process == 0 && names_may_miss))
            complain(fmt::format("{} sequence {} is recorded as of process {}", name_of(number), sequence,
                                 process));
    }
    if (!seen.sequences.empty() && sequence <= seen.highest && event.time_ns > seen.last_ns)
        complain(fmt::format("{}: sequence {} behind {}", name_of(number), sequence, seen.highest));
    seen.highest = std::max(seen.highest, sequence);
    seen.last_ns = event.time_ns;
    seen.sequences.push_back(sequence);
}

uint64_t first_missing(const std::vector<uint64_t>& sorted, uint64_t first) {
    for (auto at = std::lower_bound(sorted.begin(), sorted.end(), first); at != sorted.end() && *at == first;
         ++at)
        first++;
    return first;
}

void Check::compare(const std::vector<uint64_t>& from, const std::vector<uint64_t>& to,
                    const std::set<uint32_t>& except, uint32_t excepted_flags) {
    for (uint32_t number = 0; number < seen_.size(); number++) {
        std::vector<uint64_t>& sequences = seen_[number].sequences;
        std::sort(sequences.begin(), sequences.end());
        if (std::adjacent_find(sequences.begin(), sequences.end()) != sequences.end())
            complain(fmt::format("twice: an event of {}", name_of(number)));
        uint64_t first = number < from.size() ? from[number] : 0;
        if (seen_only) first = sequences.empty() ? UINT64_MAX : std::max(first, sequences.front());
        const uint64_t end = number < to.size() ? to[number] : 0;
        const Writer& writer = board_.writers[number];
        if (end <= first || except.count(writer.process) != 0 || (writer.flags.load() & excepted_flags) != 0)
            continue;
        required_ += end - first;
        const auto there = std::lower_bound(sequences.begin(), sequences.end(), end) -
                           std::lower_bound(sequences.begin(), sequences.end(), first);
        const uint64_t missing = end - first - std::min<uint64_t>(end - first, static_cast<uint64_t>(there));
        if (missing == 0) continue;
        missing_ += missing;
        missing_by_act_[all_acts()[writer.act].name] += missing;
        if (missing_examples_.size() < 12)
            missing_examples_.push_back(fmt::format(
                "{}: {} of sequences {} to {}, first of them {}; there are {}, from {} to {}",
                name_of(number), missing, first, end - 1, first_missing(sequences, first), sequences.size(),
                sequences.empty() ? 0 : sequences.front(), sequences.empty() ? 0 : sequences.back()));
    }
}

nlohmann::ordered_json Check::result() const {
    return {{"records", records_},
            {"cut", cut_},
            {"other_records", others_},
            {"required", required_},
            {"missing", missing_},
            {"missing_by_act", missing_by_act_},
            {"missing_examples", missing_examples_},
            {"complaint_count", complaint_count_},
            {"complaints", complaints_}};
}

// Which acts they did, the last one of each.
std::map<std::string, std::string> acts_of(const std::set<uint32_t>& processes, const Board& board,
                                           uint32_t writer_count) {
    std::map<std::string, std::string> acts;
    for (uint32_t i = 0; i < writer_count; i++)
        if (const Writer& writer = board.writers[i]; processes.count(writer.process) != 0)
            acts[std::to_string(writer.process)] = all_acts()[writer.act].name;
    return acts;
}

std::vector<uint64_t> read_note(const std::string& path) {
    FILE* file = fopen(path.c_str(), "r");
    SnapshotHeader header = {};
    if (file == nullptr || fread(&header, sizeof(header), 1, file) != 1) exit(3);
    std::vector<uint64_t> numbers(header.writer_count);
    if (fread(numbers.data(), sizeof(uint64_t), numbers.size(), file) != numbers.size()) exit(3);
    fclose(file);
    return numbers;
}

std::set<uint32_t> numbers_in(const std::string& text) {
    std::set<uint32_t> numbers;
    for (size_t at = 0; at < text.size(); at = text.find(',', at) + 1) {
        numbers.insert(static_cast<uint32_t>(std::stoul(text.substr(at))));
        if (text.find(',', at) == std::string::npos) break;
    }
    return numbers;
}

} // namespace

} // namespace plumb::storm

using namespace plumb::storm;

int main(int count, char** arguments) {
    if (count < 3) return 2;
    const Board& board = *open_board(arguments[1]);
    const uint32_t writer_count = std::min(board.writer_count.load(), writers_max);
    std::vector<uint64_t> from, to;
    for (uint32_t i = 0; i < writer_count; i++)
        to.push_back(board.writers[i].finished.load());
    std::set<uint32_t> except;
    bool is_partial = false;
    uint32_t excepted_flags = 0;
    bool names_may_miss = false, seen_only = false;
    for (int i = 3; i < count; i++) {
        const std::string option = arguments[i];
        const std::string value = option.substr(std::min(option.size(), option.find('=') + 1));
        if (option.rfind("begin=", 0) == 0)
            from = read_note(value);
        else if (option.rfind("end=", 0) == 0)
            to = read_note(value);
        else if (option.rfind("except=", 0) == 0)
            except = numbers_in(value);
        else if (option == "without-nobody")
            excepted_flags = writer_is_nobody;
        else if (option == "seen-only")
            seen_only = true;
        else if (option == "names-may-miss")
            names_may_miss = true;
        else if (option == "partial")
            is_partial = true;
        else
            return 2;
    }
    auto reader = plumb::TraceReader::open(arguments[2]);
    if (!reader) {
        printf("%s\n", nlohmann::ordered_json{{"unreadable", reader.error().message()}}.dump(1).c_str());
        return 0;
    }
    Check check(board, writer_count);
    check.names_may_miss = names_may_miss;
    check.seen_only = seen_only;
    while (const plumb::Event* event = reader->next())
        check.use(*reader, *event);
    if (is_partial) to.clear();
    check.compare(from, to, except, excepted_flags);
    nlohmann::ordered_json result = check.result();
    const plumb::StreamLosses losses = reader->losses();
    result["excepted"] = acts_of(except, board, writer_count);
    result["discarded"] = losses.events_discarded;
    result["packets_lost"] = losses.packets_lost;
    result["unknown_events"] = losses.unknown_events;
    result["damaged_packets"] = losses.damaged_packets;
    result["problems"] = reader->problems();
    printf("%s\n", result.dump(1).c_str());
    return 0;
}
