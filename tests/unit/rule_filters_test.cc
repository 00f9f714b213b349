// cmake-once
// The filters of a recording's rules beside the events that are known: how they are written, what makes no sense of them, and which
// events none of them can ever be true of.
#include "consumerd/control/rule_filters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EventDescription event(const std::string& name, const std::vector<std::string>& numbers,
                       std::uint8_t log_level = 6) {
    EventDescription made{"shop", name, log_level, {}, "", 0};
    for (const std::string& field : numbers)
        made.fields.push_back({field, PLUMB_FIELD_INTEGER, 8, false, false, 0, {}});
    EventField text{"text", PLUMB_FIELD_STRING, 1, false, false, 0, {}};
    made.fields.push_back(text);
    return made;
}
const std::vector<EventDescription> shop = {event("order", {"id", "price"}), event("start", {"id"}, 4),
                                            event("stop", {}, 7)};

Rule rule(const std::string& pattern, const std::string& condition = "", LogLevels levels = {}) {
    return {pattern, {}, levels, condition};
}

TEST(RuleFilters, AreSplitFromTheirPattern) {
    const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
        {"", {"", ""}},
        {"shop:*", {"shop:*", ""}},
        {"shop:* ", {"shop:* ", ""}}, /* no name of an event, as its check says */
        {"shop:* if id > 7", {"shop:*", " id > 7"}},
        {"shop:*\t\n if\tid", {"shop:*", "\tid"}},
        {"shop:* if(id > 7)", {"shop:*", "(id > 7)"}},
        {"shop:* if", {"shop:*", " "}}, /* a condition that is missing */
        {"shop:* if ", {"shop:*", " "}},
        {"shop:* iffy", {"shop:* iffy", ""}},
        {"shop:* of id", {"shop:* of id", ""}},
        {"shop:* i", {"shop:* i", ""}},
        {"if if if", {"if", " if"}},
    };
    for (const auto& [words, parts] : cases) {
        const FilteredPattern split = split_filter(words);
        EXPECT_EQ(split.pattern, parts.first) << words;
        EXPECT_EQ(split.condition, parts.second) << words;
    }
}

TEST(RuleFilters, BothMustHold) {
    EXPECT_EQ(both_conditions("", ""), "");
    EXPECT_EQ(both_conditions("a", ""), "a");
    EXPECT_EQ(both_conditions("", "b"), "b");
    EXPECT_EQ(both_conditions("a", "a"), "a");
    EXPECT_EQ(both_conditions("a || c", "b"), "(a || c) && (b)");
}

TEST(RuleFilters, AreSaidAsTheyWereAskedFor) {
    EXPECT_EQ(filtered_patterns({}), "");
    EXPECT_EQ(filtered_patterns({rule("shop:*"), rule("other:*")}), "") << "none has a filter";
    EXPECT_EQ(filtered_patterns({rule("shop:*", " \tid > 7"), rule("shop:start"), rule("shop:*", "id > 7")}),
              "shop:* if id > 7, shop:start");
    EXPECT_EQ(filtered_patterns({rule("shop:start"), rule("shop:*", "id")}), "shop:start, shop:* if id");
}

std::string nonsense(const std::vector<Rule>& rules) {
    const Status sensible = check_filters(rules, shop);
    return sensible ? "" : sensible.error().message();
}

/* Of events that are wanted, and that a rule is for: only of these is anything asked. */
TEST(RuleFilters, MakeSenseOfTheEventsThatTheyAreFor) {
    EXPECT_EQ(nonsense({rule("shop:*", "id > 7")}), "") << "one that has no id does not fulfil it";
    EXPECT_THAT(nonsense({rule("shop:*", "nothing > 7")}), HasSubstr("nothing"));
    EXPECT_THAT(nonsense({rule("shop", "nothing > 7")}), HasSubstr("nothing")) << "as shop:*";
    EXPECT_THAT(nonsense({rule("*", "nothing > 7")}), HasSubstr("nothing"));
    EXPECT_THAT(nonsense({rule("shop:stop", "id > 7")}), HasSubstr("id"));
    EXPECT_EQ(nonsense({rule("shopping:*", "nothing > 7")}), "") << "of whose events nothing is known";
    EXPECT_EQ(nonsense({rule("shop:stop", "id > 7"), rule("!shop:stop")}), "");
    EXPECT_THAT(nonsense({rule("shop:stop", "id > 7"), rule("!shop:start")}), HasSubstr("id"));
    EXPECT_EQ(nonsense({rule("shop:*", "price > 7", LogLevels(6))}), "");
    EXPECT_THAT(nonsense({rule("shop:*", "price > 7", LogLevels(4))}), HasSubstr("price"))
        << "of shop:start alone";
    EXPECT_THAT(nonsense({rule("shop:*"), rule("shop:start", "price > 7")}), HasSubstr("price"));
}

std::vector<std::string> left_out(const std::vector<Rule>& rules) {
    std::vector<std::string> all;
    for (const LeftOut& each : left_out_by_filters(rules, shop))
        all.push_back(fmt::format("{} for {}", each.event, fmt::join(each.missing, " ")));
    return all;
}

TEST(RuleFilters, LeaveOutWhatDoesNotHaveTheirFields) {
    EXPECT_THAT(left_out({rule("shop:*")}), IsEmpty());
    EXPECT_THAT(left_out({rule("shop:*", "id > 7")}), ElementsAre("shop:stop for id"));
    EXPECT_THAT(left_out({rule("shop:*", "id > 7 && price > 1")}),
                ElementsAre("shop:start for price", "shop:stop for id price"));
    EXPECT_THAT(left_out({rule("shop:*", "id > 7 || text == 'x'")}), IsEmpty());
    EXPECT_THAT(left_out({rule("shop:*", "id > 7"), rule("shop:stop", "text == 'x'")}), IsEmpty())
        << "one of them can";
    EXPECT_THAT(left_out({rule("shop:*", "id > 7"), rule("shop:stop")}), IsEmpty());
    EXPECT_THAT(left_out({rule("shop:*", "id > 7"), rule("shop:stop", "price > 1")}),
                ElementsAre("shop:stop for id"));
    EXPECT_THAT(left_out({rule("shop:*", "id > 7"), rule("!shop:stop")}), IsEmpty()) << "nobody wanted it";
    EXPECT_THAT(left_out({rule("shop:start", "price > 7")}), ElementsAre("shop:start for price"));
    EXPECT_THAT(left_out({}), IsEmpty());
}

} // namespace
} // namespace plumb
