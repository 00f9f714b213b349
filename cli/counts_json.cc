#include "base/output_buffer.h"
#include "cli/counts_shown.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace plumb {
namespace {

/* Exact also where it is beyond 64 bits. */
std::string integer_json(__int128 value) {
    const bool is_negative = value < 0;
    unsigned __int128 left =
        is_negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
    std::string digits;
    do {
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(left % 10)));
        left /= 10;
    } while (left != 0);
    return is_negative ? "-" + digits : digits;
}

/* A key of null is none: what is no number is a text, as for plumb view. */
std::string float_key_json(double value) {
    if (std::isfinite(value)) return fmt::format("{}", value);
    return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

std::string double_json(double value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string sum_json(const CountsOfEvent& event, const CountSum& sum) {
    return event.sums_floats() ? double_json(sum.floating) : integer_json(sum.integer);
}

std::string count_and_sum(const CountsOfEvent& event, std::uint64_t count, const CountSum& sum) {
    std::string json = fmt::format("\"count\":{}", count);
    if (event.sum_field != nullptr) json += fmt::format(",\"sum\":{}", sum_json(event, sum));
    return json;
}

/* A number, or a text; null: without a key. An enumeration's value is its number, and its label stands beside. */
std::string key_json(const CountKey& key, const EventField* field) {
    std::string json = "\"key\":";
    switch (key.kind) {
    case PLUMB_KEY_NONE:
        return json + "null";
    case PLUMB_KEY_TEXT:
        return json + json_string(key.text);
    case PLUMB_KEY_CUT_TEXT:
        return json + json_string(key.text) + ",\"cut\":true";
    case PLUMB_KEY_FLOAT:
        return json + float_key_json(std::bit_cast<double>(key.bits));
    case PLUMB_KEY_SIGNED:
        json += fmt::format("{}", static_cast<std::int64_t>(key.bits));
        break;
    default:
        json += fmt::format("{}", key.bits);
    }
    if (field != nullptr)
        if (const EventLabel* const label = field->label_of(static_cast<std::int64_t>(key.bits)))
            return json + ",\"label\":" + json_string(label->name);
    return json;
}

/* [from, to), as numbers where they are some. */
std::string bucket_json(std::size_t bucket, std::uint64_t count) {
    std::string limits;
    if (bucket == PLUMB_COUNT_BUCKET_NEGATIVE)
        limits = "\"from\":null,\"to\":0,";
    else if (bucket == PLUMB_COUNT_BUCKET_ZERO)
        limits = "\"from\":0,\"to\":1,";
    else if (bucket < PLUMB_COUNT_BUCKET_NO_VALUE)
        limits = fmt::format("\"from\":{},\"to\":{},", integer_json(static_cast<__int128>(1) << (bucket - 2)),
                             integer_json(static_cast<__int128>(1) << (bucket - 1)));
    else
        limits = "\"without_value\":true,";
    return fmt::format("{{{}\"count\":{}}}", limits, count);
}

std::string json_list(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts)
        text += (text.empty() ? "" : ",") + part;
    return "[" + text + "]";
}

std::string keys_json(const CountsOfEvent& event) {
    std::vector<std::pair<const CountKey*, const Counts*>> sorted;
    for (const auto& [key, counts] : event.by_key)
        sorted.emplace_back(&key, &counts);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second->count > b.second->count; });
    std::vector<std::string> keys;
    for (const auto& [key, counts] : sorted) {
        std::string json = fmt::format("{{{},{}", key_json(*key, event.key_field),
                                       count_and_sum(event, counts->count, counts->sum));
        std::vector<std::string> buckets;
        for (std::size_t i = 0; i < counts->buckets.size(); i++)
            if (counts->buckets[i] != 0) buckets.push_back(bucket_json(i, counts->buckets[i]));
        if (!counts->buckets.empty()) json += ",\"buckets\":" + json_list(buckets);
        keys.push_back(json + "}");
    }
    return json_list(keys);
}

std::string event_json(const CountsOfEvent& event, const CountsTaken& taken, const CountsSince& since,
                       double seconds, const StatOptions& options) {
    const std::string name = event.event->description.full_name();
    const std::uint64_t new_ones = event.count - std::min(event.count, since.counts.of(event));
    std::string json =
        fmt::format("{{\"event\":{},{}", json_string(name), count_and_sum(event, event.count, event.sum));
    if (const std::string fields = told_apart_by(event, taken); !fields.empty())
        json += ",\"fields\":" + json_string(fields);
    if (seconds > 0) json += ",\"per_second\":" + double_json(static_cast<double>(new_ones) / seconds);
    if (event.sum_field != nullptr) json += ",\"sum_of\":" + json_string(event.sum_field->name);
    if (event.hist_field != nullptr) json += ",\"hist_of\":" + json_string(event.hist_field->name);
    if (event.has_key) json += ",\"by\":" + json_string(options.by);
    if (event.has_key || event.hist_field != nullptr)
        json += ",\"keys\":" + keys_json(event) +
                fmt::format(",\"others\":{{{}}}", count_and_sum(event, event.others.count, event.others.sum));
    return json + "}";
}

} // namespace

std::string counted_json(const CountsTaken& taken, const CountsSince& since, const StatOptions& options,
                         const StatResult& result) {
    const double seconds = static_cast<double>(taken.elapsed_ns - since.elapsed_ns) / 1e9;
    std::vector<const CountsOfEvent*> sorted;
    for (const CountsOfEvent& event : taken.events)
        sorted.push_back(&event);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->count > b->count; });
    std::vector<std::string> events, problems, unreachable;
    for (const CountsOfEvent* event : sorted)
        events.push_back(event_json(*event, taken, since, seconds, options));
    for (const std::string& problem : result.problems)
        problems.push_back(json_string(problem));
    for (const Unreachable& each : result.unreachable)
        unreachable.push_back(
            fmt::format("{{\"process_id\":{},\"reason\":{}}}", each.process_id, json_string(each.reason)));
    std::string json =
        fmt::format("{{\"version\":1,\"final\":{},\"duration_ns\":{},\"events\":{},\"not_counted\":{},"
                    "\"damaged_slots\":{},\"problems\":{},\"unreachable\":{}",
                    result.is_final, taken.elapsed_ns, json_list(events), taken.not_counted,
                    taken.damaged_slots, json_list(problems), json_list(unreachable));
    if (!taken.unknown_providers.empty()) {
        std::vector<std::string> unknown;
        for (const UnknownProvider& each : taken.unknown_providers)
            unknown.push_back(
                fmt::format("{{\"provider\":{},\"major\":{}}}", json_string(each.name), each.major));
        json += fmt::format(",\"unknown_providers\":{}", json_list(unknown));
    }
    if (result.exit_status) json += fmt::format(",\"exit_status\":{}", *result.exit_status);
    return json + "}\n";
}

} // namespace plumb
