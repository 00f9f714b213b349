#include "consumerd/event/unknown_providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace plumb {

bool is_of_unknown_provider(const EventDescription& event) {
    const auto own = std::find_if(event.fields.begin(), event.fields.end(),
                                  [](const auto& field) { return !field.is_context; });
    return event.fields.end() - own == 1 && own->type == PLUMB_FIELD_ENUM &&
           own->name == PLUMB_UNKNOWN_PROVIDER_FIELD && own->labels.size() == 1;
}

std::vector<UnknownProvider> unknown_providers_of(const std::vector<EventDescription>& events) {
    std::map<std::pair<std::string, std::int64_t>, std::set<std::string>> names;
    for (const EventDescription& event : events)
        if (is_of_unknown_provider(event))
            names[{event.provider, event.fields.back().labels[0].first}].insert(event.full_name());
    std::vector<UnknownProvider> providers;
    for (const auto& [key, full_names] : names)
        providers.push_back({key.first, key.second, {full_names.begin(), full_names.end()}});
    return providers;
}

std::string unknown_provider_text(const UnknownProvider& provider) {
    constexpr std::size_t names_max = 8;
    const std::size_t named = std::min(provider.events.size(), names_max);
    std::string names =
        fmt::format("{}", fmt::join(provider.events.begin(),
                                    provider.events.begin() + static_cast<std::ptrdiff_t>(named), ", "));
    if (named < provider.events.size()) names += fmt::format(" and {} more", provider.events.size() - named);
    return fmt::format(
        "{} {} not recorded: the provider {} was built with headers of a version of LTTng-UST "
        "that Plumb does not know (provider major {}; it knows 3 and 4, of LTTng-UST 2.13 to 2.16).",
        names, provider.events.size() == 1 ? "was" : "were", provider.name, provider.major);
}

} // namespace plumb
