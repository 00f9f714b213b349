/* Tracepoints of LTTng-UST providers that no probe knows are told apart from events that are recorded, and named. */
#include "consumerd/event/unknown_providers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace plumb;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

namespace {

EventField field_of(const std::string& name, plumb_field_type type, std::vector<EventLabel> labels = {}) {
    return {name, type, 4, false, false, 0, std::move(labels)};
}

EventDescription of_unknown(const std::string& provider, const std::string& name, std::int64_t major) {
    EventDescription event{};
    event.provider = provider;
    event.name = name;
    event.fields.push_back(field_of(PLUMB_UNKNOWN_PROVIDER_FIELD, PLUMB_FIELD_ENUM, {{major, "not known"}}));
    return event;
}

} // namespace

TEST(UnknownProviders, are_told_by_name_and_version) {
    EventDescription known{};
    known.provider = "shop";
    known.name = "known";
    const auto found = unknown_providers_of({of_unknown("web", "b", 5), known, of_unknown("shop", "a", 5),
                                             of_unknown("web", "a", 5), of_unknown("web", "b", 5),
                                             of_unknown("web", "a", 6)});
    ASSERT_THAT(found, SizeIs(3));
    EXPECT_EQ(found[0].name, "shop");
    EXPECT_THAT(found[0].events, ElementsAre("shop:a"));
    EXPECT_EQ(found[1].major, 5);
    EXPECT_THAT(found[1].events, ElementsAre("web:a", "web:b"));
    EXPECT_EQ(found[2].major, 6);
    EXPECT_THAT(unknown_providers_of({known}), IsEmpty());
}

TEST(UnknownProviders, may_have_context_and_nothing_else) {
    EventDescription event = of_unknown("shop", "order", 5);
    EventField context = field_of("vpid", PLUMB_FIELD_INTEGER);
    context.is_context = true;
    event.fields.insert(event.fields.begin(), context);
    EXPECT_TRUE(is_of_unknown_provider(event));
    event.fields.push_back(field_of("id", PLUMB_FIELD_INTEGER));
    EXPECT_FALSE(is_of_unknown_provider(event));

    EventDescription other = of_unknown("shop", "order", 5);
    other.fields[0].name = "state";
    EXPECT_FALSE(is_of_unknown_provider(other));
    other = of_unknown("shop", "order", 5);
    other.fields[0].type = PLUMB_FIELD_INTEGER;
    EXPECT_FALSE(is_of_unknown_provider(other));
    other = of_unknown("shop", "order", 5);
    other.fields[0].labels.clear();
    EXPECT_FALSE(is_of_unknown_provider(other));
}

TEST(UnknownProviders, have_a_line_each) {
    UnknownProvider provider{"shop", 7, {"shop:order"}};
    EXPECT_THAT(unknown_provider_text(provider),
                StartsWith("shop:order was not recorded: the provider shop "));
    EXPECT_THAT(unknown_provider_text(provider), HasSubstr("provider major 7;"));
    EXPECT_THAT(unknown_provider_text(provider), EndsWith("."));
    provider.events.clear();
    for (int i = 1; i <= 8; i++)
        provider.events.push_back("shop:" + std::to_string(i));
    EXPECT_THAT(unknown_provider_text(provider), HasSubstr("shop:7, shop:8 were not recorded"));
    provider.events.push_back("shop:9");
    provider.events.push_back("shop:10");
    EXPECT_THAT(unknown_provider_text(provider), HasSubstr("shop:8 and 2 more were not recorded"));
}
