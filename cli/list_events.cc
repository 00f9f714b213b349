#include "cli/list_events.h"

#include "consumerd/event/log_levels.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const EventField& field) {
    Json json = {{"name", field.name}, {"type", field.type_name()}};
    if (field.type != PLUMB_FIELD_ENUM && !field.has_flags) return json;
    json["type"] = field.has_flags ? "flags" : "enum";
    json["size_bytes"] = field.size;
    Json labels = Json::array();
    const auto number = [&](std::int64_t value) {
        return field.is_signed ? Json(value) : Json(static_cast<std::uint64_t>(value));
    };
    for (const EventLabel& label : field.labels)
        labels.push_back(
            label.is_range()
                ? Json{{"first", number(label.first)}, {"last", number(label.last)}, {"name", label.name}}
                : Json{{"value", number(label.first)}, {"name", label.name}});
    json["labels"] = std::move(labels);
    return json;
}

} // namespace

nlohmann::ordered_json json_of(const EventDescription& event) {
    Json fields = Json::array();
    for (const EventField& field : event.fields)
        fields.push_back(json_of(field));
    return {{"event", event.full_name()},
            {"log_level", log_level_name(event.log_level)},
            {"fields", std::move(fields)},
            {"source_file", event.source_file},
            {"source_line", event.source_line}};
}

} // namespace plumb
