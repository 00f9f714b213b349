#include "base/output_buffer.h"
#include "cli/counts_shown.h"

#include "cli/status_line.h"
#include "consumerd/event/log_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace plumb {
namespace {

/* One line of a table. */
struct Row {
    std::uint64_t count;
    std::optional<std::uint64_t> before; /* none: no rate is shown */
    CountSum sum;
    bool has_sum, sums_floats;
    std::string name;
};

double value_of(const CountSum& sum, bool is_floating) {
    return is_floating ? sum.floating : static_cast<double>(sum.integer);
}

double in_seconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e9;
}

std::string rate_text(std::uint64_t count, double seconds) {
    if (seconds <= 0) return "-";
    const double rate = static_cast<double>(count) / seconds;
    return rate >= 100 ? with_commas(static_cast<std::uint64_t>(rate + 0.5)) : fmt::format("{:.1f}", rate);
}

class Text {
public:
    Text(const CountsTaken& taken, const CountsSince& since, const StatOptions& options, std::size_t columns)
        : taken_(taken),
          columns_(columns),
          since_(since),
          options_(options),
          seconds_(in_seconds(taken.elapsed_ns - since.elapsed_ns)),
          summed_(options.sum.empty() ? options.hist : options.sum) {}

    std::string make() {
        std::vector<const CountsOfEvent*> events;
        for (const CountsOfEvent& event : taken_.events)
            if (event.count != 0) events.push_back(&event);
        std::stable_sort(events.begin(), events.end(),
                         [](const auto* a, const auto* b) { return a->count > b->count; });
        std::vector<Row> rows;
        for (const CountsOfEvent* event : events)
            rows.push_back(row_of(*event));
        table(rows, "event");
        for (const CountsOfEvent* event : events)
            if (!event->by_key.empty()) keys(*event);
        return std::move(text_);
    }

private:
    Row row_of(const CountsOfEvent& event) const {
        return {event.count,         since_.counts.of(event), event.sum, event.sum_field != nullptr,
                event.sums_floats(), name_of(event)};
    }
    std::string name_of(const CountsOfEvent& event) const {
        const std::string fields = told_apart_by(event, taken_);
        return escaped(event.event->description.full_name() +
                       (fields.empty() ? "" : fmt::format(" {{ {} }}", fields)));
    }

    std::string sum_text(const Row& row, bool is_average) const {
        if (!row.has_sum) return "";
        double value = value_of(row.sum, row.sums_floats);
        if (is_average) value = row.count == 0 ? 0 : value / static_cast<double>(row.count);
        if (is_average && value_text(0, summed_).find(' ') == std::string::npos)
            return fmt::format("{:.2f}", value);
        return value_text(value, summed_);
    }

    void table(const std::vector<Row>& rows, const std::string& what) {
        std::vector<std::vector<std::string>> lines = {{"count", "/s"}};
        if (!summed_.empty()) lines[0].insert(lines[0].end(), {"average", "sum"});
        for (const Row& row : rows) {
            std::vector<std::string> line = {with_commas(row.count), ""};
            if (row.before) line[1] = rate_text(row.count - std::min(row.count, *row.before), seconds_);
            if (!summed_.empty()) line.insert(line.end(), {sum_text(row, true), sum_text(row, false)});
            lines.push_back(std::move(line));
        }
        std::vector<std::size_t> widths(lines[0].size(), 10);
        for (const auto& line : lines)
            for (std::size_t i = 0; i < line.size(); i++)
                widths[i] = std::max(widths[i], line[i].size());
        for (std::size_t number = 0; number < lines.size(); number++) {
            for (std::size_t i = 0; i < widths.size(); i++)
                text_ += fmt::format("{:>{}}  ", lines[number][i], widths[i]);
            text_ += (number == 0 ? what : rows[number - 1].name) + "\n";
        }
    }

    void keys(const CountsOfEvent& event) {
        std::vector<std::pair<const CountKey*, const Counts*>> sorted;
        for (const auto& [key, counts] : event.by_key)
            sorted.emplace_back(&key, &counts);
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const auto& a, const auto& b) { return a.second->count > b.second->count; });
        const std::size_t shown = std::min<std::size_t>(sorted.size(), options_.top);
        std::uint64_t hidden = 0;
        for (std::size_t i = shown; i < sorted.size(); i++)
            hidden += sorted[i].second->count;
        if (event.has_key) key_table(event, sorted, shown, hidden);
        if (event.hist_field != nullptr)
            for (std::size_t i = 0; i < shown; i++)
                histogram(event, *sorted[i].first, *sorted[i].second);
    }

    void key_table(const CountsOfEvent& event,
                   const std::vector<std::pair<const CountKey*, const Counts*>>& sorted, std::size_t shown,
                   std::uint64_t hidden) {
        std::vector<Row> rows;
        for (std::size_t i = 0; i < shown; i++) {
            const auto& [key, counts] = sorted[i];
            rows.push_back({counts->count, since_.counts.of(event, *key), counts->sum,
                            event.sum_field != nullptr, event.sums_floats(),
                            key->kind == PLUMB_KEY_NONE ? "(without one)" : key_text(*key, event.key_field)});
        }
        if (event.others.count != 0)
            rows.push_back({event.others.count,
                            {},
                            event.others.sum,
                            event.sum_field != nullptr,
                            event.sums_floats(),
                            "(others, for which there was no room: --keys)"});
        text_ += fmt::format("\n{} by {}\n", name_of(event), escaped(options_.by));
        table(rows, escaped(options_.by));
        if (hidden != 0)
            text_ += fmt::format("{:>10}  {:>10}  ({} not shown: --top)\n", with_commas(hidden), "",
                                 counted(sorted.size() - shown, "further key"));
    }

    /* As others draw it: from the first bucket that has something to the last one. */
    void histogram(const CountsOfEvent& event, const CountKey& key, const Counts& counts) {
        constexpr std::size_t before_bar = 37, bar_least = 10, bar_most = 52;
        const std::size_t bar_width =
            std::clamp(columns_ - std::min(columns_, before_bar + 1), bar_least, bar_most);
        text_ += fmt::format("\n{} {}", name_of(event), escaped(event.hist_field->name));
        if (key.kind != PLUMB_KEY_NONE)
            text_ += fmt::format(", {} {}", escaped(options_.by), key_text(key, event.key_field));
        text_ += "\n";
        std::size_t first = counts.buckets.size(), last = 0;
        std::uint64_t most = 1;
        for (std::size_t i = 0; i < counts.buckets.size(); i++) {
            if (counts.buckets[i] == 0) continue;
            first = std::min(first, i);
            last = i;
            most = std::max(most, counts.buckets[i]);
        }
        for (std::size_t i = first; i <= last && i < counts.buckets.size(); i++) {
            const auto bar =
                static_cast<std::size_t>(static_cast<double>(counts.buckets[i]) / static_cast<double>(most) *
                                         static_cast<double>(bar_width));
            text_ += fmt::format("{:<22} {:>12} |{:<{}}|\n", bucket_text(i, event.hist_field->name),
                                 with_commas(counts.buckets[i]), std::string(bar, '@'), bar_width);
        }
    }

    static std::string bucket_text(std::size_t bucket, const std::string& field) {
        if (bucket == PLUMB_COUNT_BUCKET_NEGATIVE) return "(..., 0)";
        if (bucket == PLUMB_COUNT_BUCKET_ZERO) return "[0]";
        if (bucket == PLUMB_COUNT_BUCKET_NO_VALUE) return "(without one)";
        const double from = std::ldexp(1.0, static_cast<int>(bucket) - 2);
        if (bucket == PLUMB_COUNT_BUCKET_ZERO + 1) return fmt::format("[{}]", value_text(1, field));
        return fmt::format("[{}, {})", limit_text(from, field), limit_text(2 * from, field));
    }
    /* Powers of two, in short where the field has no unit. */
    static std::string limit_text(double value, const std::string& field) {
        const std::string text = value_text(value, field);
        if (text.find(' ') != std::string::npos || value < 1024) return text;
        const char* unit = "K";
        value /= 1024;
        for (const char* larger : {"M", "G", "T", "P", "E"}) {
            if (value < 1024) break;
            value /= 1024;
            unit = larger;
        }
        return fmt::format("{:.0f}{}", value, unit);
    }

    const CountsTaken& taken_;
    const std::size_t columns_;
    const CountsSince& since_;
    const StatOptions& options_;
    const double seconds_;
    const std::string& summed_;
    std::string text_;
};

/* What of an event a field's name can not be used for; empty: it can, or the event has no such field. */
std::string why_not(const CountsOfEvent& event, const std::string& name, const EventField* used,
                    const char* option) {
    const auto& fields = event.event->description.fields;
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const EventField& each) { return each.name == name; });
    if (used != nullptr || field == fields.end()) return "";
    const std::string what =
        fmt::format("{} of {} is {}", name, event.event->description.full_name(), field->type_name());
    if (field->type == PLUMB_FIELD_FLOAT)
        return fmt::format(
            "{}: {} takes integers. --sum adds such numbers up, and --filter tells them apart.", what,
            option);
    if (field->type == PLUMB_FIELD_STRING || field->type == PLUMB_FIELD_TEXT)
        return fmt::format("{}: {} takes numbers. --by counts each text.", what, option);
    return fmt::format("{}: {} takes a field of one value.", what, option);
}

} // namespace

CountsBefore note_counts(const CountsTaken& taken) {
    CountsBefore before;
    for (const CountsOfEvent& event : taken.events) {
        before.of_event[event.event->id] = event.count;
        for (const auto& [key, counts] : event.by_key)
            before.of_key[{event.event->id, key}] = counts.count;
    }
    return before;
}

static std::string fields_text(const EventDescription& description) {
    std::string fields;
    for (const EventField& field : description.fields)
        fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", field.name, field.type_name());
    return fields.empty() ? "no fields" : fields;
}

std::string told_apart_by(const CountsOfEvent& event, const CountsTaken& taken) {
    const EventDescription& description = event.event->description;
    const std::string fields = fields_text(description);
    bool is_alone = true, has_twin = false;
    for (const CountsOfEvent& other : taken.events) {
        const EventDescription& its = other.event->description;
        if (other.event->id == event.event->id || its.name != description.name ||
            its.provider != description.provider)
            continue;
        is_alone = false;
        has_twin |= fields_text(its) == fields;
    }
    if (is_alone) return "";
    return has_twin ? fmt::format("{}; level {}", fields, log_level_name(description.log_level)) : fields;
}

std::string counted_text(const CountsTaken& taken, const CountsSince& since, const StatOptions& options,
                         std::size_t columns) {
    return Text(taken, since, options, columns).make();
}

std::vector<std::string> notes_on_fields(const CountsTaken& taken, const StatOptions& options) {
    std::vector<std::string> notes;
    const auto note = [&](const std::string& name, const char* option, const auto& used) {
        if (name.empty()) return;
        std::string lacking;
        std::size_t having = 0;
        for (const CountsOfEvent& event : taken.events) {
            if (event.count == 0) continue;
            const std::string why = why_not(event, name, used(event), option);
            if (!why.empty()) notes.push_back(why);
            if (used(event) != nullptr || !why.empty())
                having++;
            else
                lacking += (lacking.empty() ? "" : ", ") + event.event->description.full_name();
        }
        if (having == 0 && !lacking.empty())
            notes.push_back(
                fmt::format("No event that was counted has a field {} ({}): {}.", name, option, lacking));
        if (having == 0 || lacking.empty()) return;
        notes.push_back(
            fmt::format("Without a field {} ({}), and counted without it: {}.", name, option, lacking));
    };
    static const EventField of_writer{};
    note(options.by, "--by", [](const CountsOfEvent& event) {
        return event.has_key && event.key_field == nullptr ? &of_writer : event.key_field;
    });
    note(options.hist, "--hist", [](const CountsOfEvent& event) { return event.hist_field; });
    if (options.sum != options.hist)
        note(options.sum, "--sum", [](const CountsOfEvent& event) { return event.sum_field; });
    return notes;
}

bool is_field_nowhere(const CountsTaken& taken, const StatOptions& options) {
    const auto is_nowhere = [&](const std::string& name, const auto& has) {
        return !name.empty() &&
               std::none_of(taken.events.begin(), taken.events.end(),
                            [&](const auto& event) { return event.count != 0 && has(event); });
    };
    const bool is_any = std::any_of(taken.events.begin(), taken.events.end(),
                                    [](const CountsOfEvent& event) { return event.count != 0; });
    return is_any &&
           (is_nowhere(options.by, [](const CountsOfEvent& event) { return event.has_key; }) ||
            is_nowhere(options.hist, [](const auto& event) { return event.hist_field != nullptr; }) ||
            is_nowhere(options.sum, [](const auto& event) { return event.sum_field != nullptr; }));
}

} // namespace plumb
