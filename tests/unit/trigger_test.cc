// cmake-once
// Triggers of a session: as people write them, as they stand in the session's description, and as they are said; all causes and
// all that can be done, and why something is none.
#include "consumerd/daemon/trigger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/* Numbers as in a file: those that are not below 0 have no sign. */
Json as_read(const Json& object) {
    return Json::parse(object.dump());
}
std::string refusal(const Json& object) {
    const auto trigger = read_trigger(as_read(object));
    if (trigger) return "";
    EXPECT_EQ(trigger.error().number(), EINVAL) << trigger.error().message();
    return trigger.error().message();
}
std::string refusal(const char* name, const Json& value,
                    Json object = {{"name", "t"}, {"on", "death"}, {"do", {"stop"}}}) {
    object[name] = value;
    return refusal(object);
}

/* What is said of the cause, or why it is none. */
std::string cause(const std::string& words) {
    Trigger trigger;
    const Status read = read_cause(words, trigger);
    if (read) return cause_text(trigger);
    EXPECT_EQ(read.error().number(), EINVAL) << words;
    return "- " + read.error().message();
}
std::string action(const std::vector<std::string>& all) {
    Trigger trigger;
    for (const std::string& words : all)
        if (const Status read = read_action(words, trigger); !read) {
            EXPECT_EQ(read.error().number(), EINVAL) << words;
            return "- " + read.error().message();
        }
    return action_text(trigger);
}

TEST(TriggerTest, CausesAreReadAsTheyAreWritten) {
    const std::pair<const char*, const char*> cases[] = {
        {"event shop:order", "event shop:order"},
        {"event\tshop:order", "event shop:order"},
        {"event   shop:order if id > 7", "event shop:order if id > 7"},
        {"event shop:order if(id > 7)", "event shop:order if (id > 7)"},
        {"event shop:order if \n id > 7", "event shop:order if id > 7"},
        {"fill 1%", "fill 1%"},
        {"fill 80", "fill 80%"},
        {"fill 100%", "fill 100%"},
        {"signal USR1", "signal USR1"},
        {"signal SIGUSR2", "signal USR2"},
        {"signal RTMIN", "signal RTMIN"},
        {"signal SIGRTMIN+3", "signal RTMIN+3"},
        {"death", "death"},
        {"death  ", "death"},
        {"death SEGV", "death SIGSEGV"},
        {"death SIGHUP", "death SIGHUP"},
        {"death SYS", "death SIGSYS"},
    };
    for (const auto& [words, said] : cases)
        EXPECT_EQ(cause(words), said);
    EXPECT_EQ(cause(fmt::format("signal RTMIN+{}", SIGRTMAX - SIGRTMIN)),
              fmt::format("signal RTMIN+{}", SIGRTMAX - SIGRTMIN));
}

TEST(TriggerTest, WhatIsNoCauseIsTold) {
    const std::pair<const char*, const char*> cases[] = {
        {"", "- \"\" is no cause. It is 'event PATTERN'"},
        {"other", "- \"other\" is no cause. It is 'event PATTERN'"},
        {"events shop:order", "- \"events shop:order\" is no cause. It is"},
        {"event", "- \"event\" is no cause. Write it like 'event shop:order if price > 100'."},
        {"event ", "- \"event \" is no cause. Write it like 'event"},
        {"event shop:order if",
         "- \"event shop:order if\" is no cause. Behind \"if\" a condition is missing."},
        {"event shop:order if ",
         "- \"event shop:order if \" is no cause. Behind \"if\" a condition is missing."},
        {"event !shop:order", "- \"!shop:order\" leaves events out: a trigger waits for some."},
        {"event shop:order if id >", "- The filter of shop:order"},
        {"fill", "- \"fill\" is no cause. Write it like 'fill 80%'."},
        {"fill x", "- \"fill x\" is no cause. Write it"},
        {"fill 80%%", "- \"fill 80%%\" is no cause. Write it"},
        {"fill 80 %", "- \"fill 80 %\" is no cause. Write it"},
        {"fill -1", "- \"fill -1\" is no cause. Write it"},
        {"fill 0%", "- A buffer can not pass 0% of itself: 1% to 100% are possible."},
        {"fill 101%", "- A buffer can not pass 101% of itself"},
        {"fill 99999999999999999999", "- \"fill 99999999999999999999\" is no cause."},
        {"signal", "- \"signal\" is no cause. Write it like 'signal USR1'."},
        {"signal NONE", "- There is no signal \"NONE\": USR1, SEGV, RTMIN+3 and others."},
        {"signal usr1", "- There is no signal"},
        {"signal 0", "- There is no signal"},
        {"signal RTMIN+0", "- There is no signal"},
        {"signal RTMIN+99", "- There is no signal"},
        {"death NONE", "- There is no signal"},
    };
    for (const auto& [words, said] : cases)
        EXPECT_THAT(cause(words), StartsWith(said));
}

/* A worker ends by some, and ignores others. */
TEST(TriggerTest, OfAllSignalsThoseOfUsersCanBeWaitedFor) {
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number > SIGSYS && number < SIGRTMIN) continue; /* the C library's */
        const std::string name = signal_text(number);
        const bool is_users = number == SIGUSR1 || number == SIGUSR2 || number >= SIGRTMIN;
        EXPECT_THAT(cause("signal " + name),
                    StartsWith(is_users ? "signal " + name : "- A trigger can not wait for " + name));
        EXPECT_EQ(cause("death " + name), "death SIG" + name);
    }
    EXPECT_EQ(signal_text(SIGTERM), "TERM");
    EXPECT_EQ(signal_text(0), "0");
    EXPECT_EQ(signal_text(SIGRTMAX + 1), std::to_string(SIGRTMAX + 1));
}

TEST(TriggerTest, ActionsAreDoneInOneOrder) {
    EXPECT_EQ(action({"stop", "rotate", "run true", "snapshot"}), "snapshot, rotate, stop, run true");
    EXPECT_EQ(action({"snapshot"}), "snapshot");
    EXPECT_EQ(action({"rotate"}), "rotate");
    EXPECT_EQ(action({"stop"}), "stop");
    EXPECT_EQ(action({"run a", "run b"}), "- A trigger runs one command.");
    for (const char* const none : {"", "snap", "snapshots", "runs x", "RUN x"})
        EXPECT_EQ(action({none}),
                  fmt::format("- \"{}\" can not be done: snapshot, rotate, stop or 'run CMD ARG'.", none));
}

std::vector<std::string> words(const std::string& command) {
    Trigger trigger;
    const Status read = read_action("run " + command, trigger);
    return read ? trigger.command : std::vector<std::string>{"- " + read.error().message()};
}

/* As a shell takes words apart, and nothing else of it. */
TEST(TriggerTest, CommandsAreTakenApartIntoWords) {
    EXPECT_THAT(words("a"), ElementsAre("a"));
    EXPECT_THAT(words(" a \t b\n"), ElementsAre("a", "b"));
    EXPECT_THAT(words("a 'b c' \"d e\" f\\ g"), ElementsAre("a", "b c", "d e", "f g"));
    EXPECT_THAT(words("a '' \"\" b"), ElementsAre("a", "", "", "b"));
    EXPECT_THAT(words("a'b'\"c\"d"), ElementsAre("abcd"));
    EXPECT_THAT(words(R"(a '\' "\"" \')"), ElementsAre("a", "\\", "\"", "'"));
    EXPECT_THAT(words(R"(a '"' "'")"), ElementsAre("a", "\"", "'"));
    EXPECT_THAT(words("a $HOME *"), ElementsAre("a", "$HOME", "*"));
    EXPECT_THAT(words("a\\"), ElementsAre("a\\"));
    EXPECT_THAT(words("a 'b"), ElementsAre(HasSubstr("- The quote ' has no end")));
    EXPECT_THAT(words("a \"b'"), ElementsAre(HasSubstr("- The quote \" has no end")));
    for (const char* const none : {"", " ", "''", "'' a"})
        EXPECT_THAT(words(none), ElementsAre(StartsWith("- \"run\" needs a command"))) << none;
    EXPECT_THAT(words(std::string(4095, 'a')), ElementsAre(std::string(4095, 'a')));
    EXPECT_THAT(words(std::string(2000, 'a') + " " + std::string(2094, 'b')).size(), 2U);
    for (const std::string& longer :
         {std::string(4096, 'a'), std::string(2000, 'a') + " " + std::string(2095, 'b')})
        EXPECT_THAT(words(longer), ElementsAre("- The command is too long: 4096 bytes are possible."));
}

/* ---- in a description ---- */

const char* const full[] = {
    R"({"name": "a", "on": "event", "event": "shop:order", "filter": "id > 7", "do": ["rotate", "stop", "run"],
        "command": ["/bin/x", "", "a b"], "at_most": 1, "every_ns": 5, "causes_before": 1, "causes": 2, "served": 3,
        "fired": 4, "left_out": 5, "interrupted": 6, "fired_ns": 7, "cookie": "00000000feedc0de", "firing": true,
        "above": true})",
    R"({"name": "b", "on": "fill", "percent": 100, "do": ["snapshot"]})",
    R"({"name": "c", "on": "signal", "signal": "RTMIN+3", "do": ["run"], "command": ["x"]})",
    R"({"name": "d", "on": "death", "signal": "SEGV", "do": ["stop"], "at_most": 18446744073709551615,
        "causes": 3, "served": 1, "dead": "2:77:11 3:78:0 "})",
    R"({"name": "e", "on": "death", "do": ["stop"]})"};

TEST(TriggerTest, ComesBackAsItWas) {
    for (const char* const text : full) {
        const Json object = Json::parse(text);
        const auto trigger = read_trigger(object);
        ASSERT_TRUE(trigger) << trigger.error().message();
        EXPECT_EQ(nlohmann::json::parse(trigger_as_json(*trigger, true).dump()), nlohmann::json::parse(text));
    }
    auto saved = nlohmann::json::parse(full[0]);
    for (const char* const own : {"causes_before", "causes", "served", "fired", "left_out", "interrupted",
                                  "fired_ns", "cookie", "firing", "above"})
        saved.erase(own);
    EXPECT_EQ(nlohmann::json::parse(trigger_as_json(*read_trigger(Json::parse(full[0])), false).dump()),
              saved);
}

TEST(TriggerTest, EachMemberIsOfItsType) {
    const Json values[] = {1,      -1, 0.5, true, "text", Json::array({nullptr}), Json::object({{"x", 1}}),
                           nullptr};
    for (const char* const text : full) {
        const Json object = Json::parse(text);
        for (const auto& [name, good] : object.items())
            for (const Json& value : values) {
                const Json read = as_read(value);
                const bool is_same_kind =
                    read.type() == good.type() && read.is_number_unsigned() == good.is_number_unsigned();
                if (!is_same_kind) {
                    EXPECT_NE(refusal(name.c_str(), value, object), "") << name << " " << value;
                }
            }
    }
    for (const char* const needed : {"name", "on", "do"}) {
        Json object = Json::parse(full[4]);
        object.erase(needed);
        EXPECT_THAT(refusal(object), HasSubstr(fmt::format("\"{}\"", needed)));
    }
}

TEST(TriggerTest, WhoHasDiedIsReadAsItIsWritten) {
    for (const char* const dead :
         {"1", "1 ", "1:2 ", "1:2:3", "1:2:3:4 ", "1:2:-1 ", "1:2:x ", "1:-2:3 ", " ", "1:2:3 4"})
        EXPECT_THAT(refusal("dead", dead), HasSubstr("is not what a worker writes")) << dead;
    EXPECT_EQ(refusal("dead", ""), "");
}

TEST(TriggerTest, WhatMakesNoSenseIsNamed) {
    const Json with_command = {{"name", "t"}, {"on", "death"}, {"do", {"run"}}};
    EXPECT_EQ(refusal(Json::array()), "A trigger is no object.");
    EXPECT_THAT(refusal("other", 1), HasSubstr("\"other\" is not known of a trigger."));
    EXPECT_THAT(refusal("name", "-x"), HasSubstr("\"-x\" can not be the name of a trigger"));
    EXPECT_THAT(refusal("on", "x"), HasSubstr("There is no cause \"x\": event, fill, signal or death."));
    EXPECT_THAT(refusal("on", "event"), HasSubstr("\"event\" is missing"));
    EXPECT_THAT(refusal("on", "fill"), HasSubstr("\"percent\" is missing"));
    EXPECT_THAT(refusal("on", "signal"), HasSubstr("\"signal\" is missing"));
    EXPECT_THAT(refusal("signal", "NONE"), HasSubstr("Trigger t: There is no signal"));
    EXPECT_THAT(refusal("do", {"x"}), HasSubstr("\"x\" can not be done"));
    EXPECT_THAT(refusal("do", {1}), HasSubstr("\"snapshot\", \"rotate\", \"stop\" or \"run\""));
    EXPECT_THAT(refusal("do", Json::array()), HasSubstr("Trigger t does nothing"));
    EXPECT_THAT(refusal(with_command), HasSubstr("Trigger t does nothing"));
    EXPECT_EQ(refusal("command", {"x"}, with_command), "");
    EXPECT_THAT(refusal("command", Json::array(), with_command), HasSubstr("\"run\" needs a command"));
    EXPECT_THAT(refusal("command", {std::string("a\0b", 3)}), HasSubstr("has a NUL in it"));
    EXPECT_THAT(refusal("command", {1}), HasSubstr("A word of \"command\" is no text"));
    EXPECT_EQ(refusal("at_most", 1), "");
    EXPECT_EQ(refusal("at_most", 0), "A trigger that fires at most 0 times does nothing.");
    EXPECT_EQ(refusal("cookie", "ffffffffffffffff"), "");
    for (const char* const cookie : {"", "x", "10000000000000000", "1 "})
        EXPECT_EQ(refusal("cookie", cookie), "\"cookie\" is no number in base 16.") << cookie;
}

TEST(TriggerTest, IsForASessionThatCanDoIt) {
    const auto check = [](const Json& object, bool is_flight_recorder) {
        const auto trigger = read_trigger(as_read(object));
        EXPECT_TRUE(trigger);
        const Status sensible = check_trigger_for(*trigger, is_flight_recorder);
        return sensible ? "" : sensible.error().message();
    };
    const Json fill = {{"name", "t"}, {"on", "fill"}, {"percent", 1}, {"do", {"stop"}}};
    const auto does = [](const char* what) { return Json({{"name", "t"}, {"on", "death"}, {"do", {what}}}); };
    EXPECT_EQ(check(fill, false), "");
    EXPECT_EQ(check(fill, true), "The rings of a flight recorder are always full: no fill level is passed.");
    EXPECT_EQ(check(does("rotate"), false), "");
    EXPECT_THAT(check(does("rotate"), true), HasSubstr("A flight recorder writes no chunks."));
    EXPECT_EQ(check(does("snapshot"), true), "");
    EXPECT_THAT(check(does("snapshot"), false), HasSubstr("The session is no flight recorder"));
    EXPECT_EQ(check(does("stop"), true), "");
    EXPECT_EQ(check(does("stop"), false), "");
}

/* What is written serves all causes that have come by then; a command alone is run for each. */
TEST(TriggerTest, ACommandAloneIsForEachCause) {
    const auto is_for_each = [](const std::vector<std::string>& actions) {
        Trigger trigger;
        for (const std::string& each : actions)
            EXPECT_TRUE(read_action(each, trigger));
        return trigger.is_for_each();
    };
    EXPECT_TRUE(is_for_each({"run x"}));
    for (const char* const other : {"snapshot", "rotate", "stop"})
        EXPECT_FALSE(is_for_each({other, "run x"})) << other;
}

} // namespace
} // namespace plumb
