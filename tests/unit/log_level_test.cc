// cmake-once
//
// A log level means itself and all that is more severe, whether it was named or numbered; a range, what is between its ends.
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
    EXPECT_EQ(*parse_log_level("TRACE_DEBUG_LINE"), PLUMB_DEBUG_LINE);
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

TEST(LogLevel, RangesHaveTheMoreSevereEndFirst) {
    const struct {
        const char* text;
        LogLevels levels;
        const char* written;
    } cases[] = {
        {"warning", {PLUMB_WARNING}, "warning"},
        {"..warning", {PLUMB_WARNING}, "warning"},
        {"ERR..PLUMB_WARNING", {PLUMB_WARNING, PLUMB_ERR}, "err..warning"},
        {"3..4", {PLUMB_WARNING, PLUMB_ERR}, "err..warning"},
        {"notice..notice", {PLUMB_NOTICE, PLUMB_NOTICE}, "notice..notice"},
        {"emerg..emerg", {PLUMB_EMERG}, "emerg"},
        {"notice..", {every_log_level, PLUMB_NOTICE}, "notice.."},
        {"emerg..", {}, "emerg.."},
    };
    for (const auto& [text, levels, written] : cases) {
        const Result<LogLevels> parsed = parse_log_levels(text);
        ASSERT_TRUE(parsed) << text;
        EXPECT_EQ(*parsed, levels) << text;
        EXPECT_EQ(log_levels_text(levels), written);
        EXPECT_EQ(*parse_log_levels(written), levels) << written;
    }
    EXPECT_TRUE(LogLevels().are_all());
    EXPECT_FALSE(LogLevels(PLUMB_DEBUG).are_all());
}

TEST(LogLevel, RangesThatAreNoneAreRefused) {
    const auto refusal = [](const std::string& text) {
        const Result<LogLevels> parsed = parse_log_levels(text);
        return parsed ? std::string() : parsed.error().message();
    };
    EXPECT_THAT(refusal("warning..err"), HasSubstr("The more severe one comes first: err..warning."));
    EXPECT_THAT(refusal(".."), HasSubstr("as err..warning"));
    EXPECT_THAT(refusal(""), HasSubstr("as err..warning"));
    EXPECT_THAT(refusal("err..warn"), HasSubstr("no log level 'warn'"));
    EXPECT_THAT(refusal("err...warning"), HasSubstr("no log level '.warning'"));
    EXPECT_THAT(refusal("err..warning..info"), HasSubstr("no log level 'warning..info'"));
}

/* The sessions that a rule with `rule_level` for everybody puts an event of `event_level` on in. */
std::vector<std::string> listed(std::uint8_t rule_level, std::uint8_t event_level, std::uint8_t from = 0) {
    plumb_rule_set rules{};
    rules.sessions[0].cookie = 7;
    std::strcpy(rules.sessions[0].name, "one");
    rules.rule_count = 1;
    rules.rules[0].log_level = rule_level;
    rules.rules[0].log_level_from = from;
    if (from != 0) rules.rules[0].who = PLUMB_WHO_ALL | PLUMB_WHO_LEVELS;
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

TEST(LogLevel, OfARuleMayHaveAMostSevereOne) {
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_CRIT, PLUMB_ERR), IsEmpty());
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_ERR, PLUMB_ERR), ElementsAre("one"));
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_WARNING, PLUMB_ERR), ElementsAre("one"));
    EXPECT_THAT(listed(PLUMB_WARNING, PLUMB_NOTICE, PLUMB_ERR), IsEmpty());
}

/* Who does not look at `log_level_from` would take more than is meant. */
TEST(LogLevel, OfARuleWithAMostSevereOneIsForNobodyWhoDoesNotKnowThat) {
    Rule rule{"shop:*", Who::all(), {PLUMB_WARNING, PLUMB_ERR}};
    const auto encoded = encode_rule(rule, 0);
    ASSERT_TRUE(encoded);
    EXPECT_EQ(encoded->who, PLUMB_WHO_LEVELS);
    EXPECT_EQ(encoded->log_level_from, PLUMB_ERR);
    EXPECT_EQ(encoded->log_level, PLUMB_WARNING);
    rule.levels = {PLUMB_WARNING};
    EXPECT_EQ(encode_rule(rule, 0)->who, PLUMB_WHO_ALL);
}

} // namespace
} // namespace plumb
