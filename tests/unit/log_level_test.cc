// cmake-once
//
// A log level means itself and all that is more severe, whether it was named or numbered.
#include "consumerd/control/session.h"
#include "consumerd/control/traced_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LogLevel, IsKnownByItsNameAndByItsNumber) {
    for (std::uint8_t level = PLUMB_EMERG; level <= PLUMB_DEBUG; level++) {
        const std::string name = log_level_name(level);
        std::string constant = "PLUMB_" + name;
        for (const std::string& text : {name, constant, std::to_string(level)}) {
            const Result<std::uint8_t> parsed = parse_log_level(text);
            ASSERT_TRUE(parsed) << text;
            EXPECT_EQ(*parsed, level) << text;
        }
    }
    EXPECT_EQ(*parse_log_level("Warning"), PLUMB_WARNING);
    EXPECT_EQ(*parse_log_level("plumb_debug_line"), PLUMB_DEBUG_LINE);
}

TEST(LogLevel, ThatDoesNotExistIsNamedWithThoseThatDo) {
    for (const char* const text : {"", "warn", "15", "-1", "plumb_", "warning "}) {
        const Result<std::uint8_t> parsed = parse_log_level(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_THAT(parsed.error().message(), HasSubstr("'" + std::string(text) + "'"));
        EXPECT_THAT(parsed.error().message(), HasSubstr("warning"));
        EXPECT_THAT(parsed.error().message(), HasSubstr("0 to 14"));
    }
    EXPECT_EQ(log_level_name(PLUMB_DEBUG + 1), "level 15");
}

/* The sessions that a rule with `rule_level` for everybody puts an event of `event_level` on in. */
std::vector<std::string> listed(std::uint8_t rule_level, std::uint8_t event_level) {
    plumb_rule_set rules{};
    rules.sessions[0].cookie = 7;
    std::strcpy(rules.sessions[0].name, "one");
    rules.rule_count = 1;
    rules.rules[0].log_level = rule_level;
    std::strcpy(rules.rules[0].pattern, "shop:*");
    EventDescription event;
    event.provider = "shop";
    event.name = "order";
    event.log_level = event_level;
    return sessions_with(rules, TracedProcess{}, event);
}

TEST(LogLevel, OfARuleIsTheLeastSevereThatIsListedAsOn) {
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_EMERG), ElementsAre("one"));
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_ERR), ElementsAre("one"));
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_WARNING), ElementsAre("one"));
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_NOTICE), IsEmpty());
    EXPECT_THAT(listed(PLUMB_EMERG, PLUMB_EMERG), ElementsAre("one"));
    EXPECT_THAT(listed(255, PLUMB_DEBUG), ElementsAre("one"));
}

} // namespace
} // namespace plumb
