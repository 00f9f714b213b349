// cmake-once
// What a session is, written down and read again: all that a worker knows of it comes back as it was; what somebody writes by hand
// has to be of the type and within the limits that it has, or the error names it.
#include "consumerd/daemon/session_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::HasSubstr;

/* Everything that a discarding session of root's may have; each value is not that of one that has nothing. */
Json whole() {
    return Json::parse(R"({
        "format": 1, "name": "web_1.a-b", "output": "/var/traces/web", "context": "vpid,callstack:32",
        "mode": "discard", "subbuf_bytes": 65536, "subbuf_count": 8, "rings_on_demand": true, "buffers": "global",
        "clock": "mono", "plain": true, "seccomp": true, "users": [1000, 4294967294], "all_users": true,
        "kernel": {"events": ["sched:*", "syscalls:sys_enter_openat"], "buffer_bytes": 1048576,
                   "file_names": false, "open_files": true, "made": true},
        "rotate_period_ns": 100000000, "rotate_bytes": 65536, "keep_chunks": 0, "keep_bytes": 18446744073709551615,
        "rules": [{"event": "shop:*"}, {"event": "!shop:noise"},
                  {"event": "a:b", "filter": "id > 7", "log_level": "warning", "process": 42, "process_start_ns": 99},
                  {"event": "c:d", "executable": "*shop", "log_level": "err..warning"}],
        "triggers": [{"name": "t", "on": "fill", "percent": 80, "do": ["rotate"]}],
        "started": true, "cookie": "00000000feedc0de", "snapshots": 3,
        "directory": {"inode": 1, "device": 2, "made_ns": 3}, "ending": true,
        "rules_off_since": [{"event": "old:*"}],
        "ring_places": [{"position": 4096, "told": [1]}, {"position": 18446744073709551615, "told": [5]}],
        "places": [{"folder": "ust-1000", "user": 1000, "user_there": 0, "keeper": "module", "memory": 7,
                    "mount_namespace": 8},
                   {"folder": "ust-2", "user": 2, "user_there": 2, "keeper": "shm"}]})");
}

/* As it comes from a file: what is not below 0 is a number without a sign there. */
Json as_read(const Json& object) {
    return Json::parse(object.dump());
}
Result<SessionDescription> described(const Json& object) {
    return read_description(as_read(object));
}
/* In any order. */
nlohmann::json sorted(const Json& object) {
    return nlohmann::json::parse(object.dump());
}

std::string refusal(const Json& object) {
    const auto read = described(object);
    if (read) return "";
    EXPECT_EQ(read.error().number(), EINVAL) << read.error().message();
    return read.error().message();
}
std::string refusal(const char* name, const Json& value, Json object = whole()) {
    object[name] = value;
    return refusal(object);
}

class SessionDescriptionTest : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "root alone has sessions of all kinds";
    }
};

TEST_F(SessionDescriptionTest, ComesBackAsItWas) {
    Json object = whole();
    for (Json& place : object["ring_places"]) /* as many kinds of losses as there are */
        while (place["told"].size() < RingPlace().told.size())
            place["told"].push_back(9);
    const auto read = described(object);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(sorted(description_as_json(*read, true)), sorted(object));
    const auto again = described(description_as_json(*read, true));
    ASSERT_TRUE(again);
    EXPECT_EQ(sorted(description_as_json(*again, true)), sorted(object));
}

/* What `plumb save` prints, and `plumb load` takes, is what was asked for. */
TEST_F(SessionDescriptionTest, IsSavedWithoutWhatIsTheWorkers) {
    Json object = whole();
    object.erase("ring_places");
    const auto read = described(object);
    ASSERT_TRUE(read) << read.error().message();
    for (const char* const own : {"cookie", "snapshots", "directory", "ending", "rules_off_since", "places"})
        object.erase(own);
    object["kernel"].erase("made");
    object["rules"][2].erase("process_start_ns");
    EXPECT_EQ(sorted(description_as_json(*read, false)), sorted(object));
}

/* Of one that asks for nothing nothing is said but what it is. */
TEST_F(SessionDescriptionTest, SaysNothingOfWhatItDoesNotHave) {
    const Json least = {{"format", 1}, {"name", "s"}, {"output", "/o"}};
    const auto read = described(least);
    ASSERT_TRUE(read) << read.error().message();
    for (const bool is_whole : {false, true})
        EXPECT_EQ(
            description_as_json(*read, is_whole),
            Json::parse(
                R"({"format": 1, "name": "s", "output": "/o", "mode": "discard", "rules": [], "started": false})"));
    EXPECT_FALSE(read->kernel.is_recorded());
    const auto kernel =
        described({{"format", 1}, {"name", "s"}, {"output", "/o"}, {"kernel", {{"events", {"sched:*"}}}}});
    ASSERT_TRUE(kernel) << kernel.error().message();
    EXPECT_EQ(kernel->kernel.buffer_bytes, std::uint64_t{8} << 20);
    EXPECT_TRUE(kernel->kernel.file_names);
    EXPECT_FALSE(kernel->kernel.open_files || kernel->kernel.is_made);
}

TEST_F(SessionDescriptionTest, OfEachModeHasWhatThatTakes) {
    for (const char* const mode : {"discard", "overwrite", "block"}) {
        const auto read = described(
            {{"format", 1}, {"name", "s"}, {"output", "/o"}, {"mode", mode}, {"block_timeout_ns", 7}});
        ASSERT_TRUE(read) << read.error().message();
        const Json object = description_as_json(*read, true);
        EXPECT_EQ(object["mode"], mode);
        EXPECT_EQ(object.contains("block_timeout_ns"), mode == std::string("block"));
        EXPECT_EQ(read->is_flight_recorder(), mode == std::string("overwrite"));
        const ChannelConfig config = read->channel_config();
        EXPECT_EQ(config.block_timeout_ns == 7, mode == std::string("block")) << mode;
        EXPECT_EQ(config.mode, read->mode);
    }
    EXPECT_EQ(refusal("mode", "other"), "There is no mode \"other\": discard, overwrite or block.");
}

TEST_F(SessionDescriptionTest, ItsChannelIsAsItSays) {
    Json object = whole();
    object.erase("ring_places");
    const auto read = described(object);
    ASSERT_TRUE(read) << read.error().message();
    const ChannelConfig config = read->channel_config(), ordinary;
    EXPECT_EQ(config.session_name, "web_1.a-b");
    EXPECT_EQ(config.subbuf_bytes, 65536U);
    EXPECT_EQ(config.subbuf_count, 8U);
    EXPECT_EQ(config.clock_mode, PLUMB_CLOCK_MONOTONIC);
    EXPECT_EQ(config.callstack_depth, 32);
    EXPECT_NE(config.context, 0U);
    EXPECT_TRUE(config.rings_on_demand && config.is_global);
    EXPECT_EQ(config.block_timeout_ns, ordinary.block_timeout_ns);
    const ChannelConfig least = described({{"format", 1}, {"name", "s"}, {"output", "/o"}})->channel_config();
    EXPECT_EQ(least.subbuf_bytes, ordinary.subbuf_bytes);
    EXPECT_EQ(least.subbuf_count, ordinary.subbuf_count);
    EXPECT_EQ(least.context, 0U);
    EXPECT_FALSE(least.rings_on_demand || least.is_global);
}

TEST_F(SessionDescriptionTest, ClocksHaveNames) {
    const std::pair<plumb_clock_mode, const char*> all[] = {{PLUMB_CLOCK_NONE, ""},
                                                            {PLUMB_CLOCK_TSC, "tsc"},
                                                            {PLUMB_CLOCK_MONOTONIC, "mono"},
                                                            {PLUMB_CLOCK_BOOTTIME, "boot"},
                                                            {PLUMB_CLOCK_REALTIME, "real"}};
    for (const auto& [clock, name] : all) {
        EXPECT_STREQ(clock_name(clock), name);
        EXPECT_EQ(clock_of_name(name), clock);
    }
    EXPECT_FALSE(clock_of_name("TSC"));
}

/* Every member, of every type but its own. */
TEST_F(SessionDescriptionTest, EachMemberIsOfItsType) {
    const Json object = whole();
    const Json values[] = {1,      -1, 0.5, true, "text", Json::array({nullptr}), Json::object({{"x", 1}}),
                           nullptr};
    const auto kind = [](const Json& value) {
        return value.is_number_unsigned() ? 1 : 100 + static_cast<int>(value.type());
    };
    const auto holds = [&](const Json& part, const auto& with) {
        for (const auto& [name, good] : part.items())
            for (const Json& value : values)
                if (kind(value) != kind(good)) {
                    EXPECT_NE(refusal(with(name, value)), "") << name << " " << value;
                }
    };
    holds(object, [&](const std::string& name, const Json& value) {
        Json other = object;
        other[name] = value;
        return other;
    });
    holds(object["kernel"], [&](const std::string& name, const Json& value) {
        Json other = object;
        other["kernel"][name] = value;
        return other;
    });
    holds(object["places"][0], [&](const std::string& name, const Json& value) {
        Json other = object;
        other["places"][0][name] = value;
        return other;
    });
    for (const char* const needed : {"format", "name", "output"}) {
        Json less = object;
        less.erase(needed);
        EXPECT_EQ(refusal(less), fmt::format("\"{}\" is missing.", needed));
    }
    EXPECT_EQ(refusal(Json::array()), "The description of a session is no object.");
    EXPECT_THAT(refusal("other", 1), HasSubstr("\"other\" is not known here."));
    EXPECT_THAT(refusal("kernel", {{"events", {"sched:*"}}, {"other", 1}}),
                HasSubstr("\"other\" is not known here."));
}

TEST_F(SessionDescriptionTest, WhatIsBeyondALimitIsRefused) {
    Json least = {{"format", 1}, {"name", "s"}, {"output", "/o"}};
    const auto of_least = [&](const char* name, const Json& value) { return refusal(name, value, least); };
    const std::uint64_t word = std::uint64_t{1} << 32;
    EXPECT_EQ(of_least("format", 0), "It is of format 0, and 1 is known.");
    EXPECT_EQ(of_least("format", 2), "It is of format 2, and 1 is known.");
    EXPECT_EQ(of_least("output", "o"), "\"output\" is no path from the root on.");
    EXPECT_EQ(of_least("output", ""), "\"output\" is no path from the root on.");
    EXPECT_EQ(of_least("clock", "x"), "There is no clock \"x\": tsc, mono, boot or real.");
    EXPECT_EQ(of_least("buffers", "x"), "There are no buffers \"x\": cpu or global.");
    EXPECT_EQ(of_least("buffers", "cpu"), "");
    EXPECT_THAT(of_least("context", "nonsense"), HasSubstr("\"context\""));
    EXPECT_EQ(of_least("snapshots", word - 1), "");
    EXPECT_EQ(of_least("snapshots", word), "\"snapshots\" is too large.");
    EXPECT_EQ(of_least("subbuf_bytes", word), "\"subbuf_bytes\" is too large.");
    EXPECT_EQ(of_least("rotate_period_ns", 0), "");
    EXPECT_EQ(of_least("rotate_period_ns", 99'999'999), "A chunk lasts at least 100ms.");
    EXPECT_EQ(of_least("rotate_period_ns", 100'000'000), "");
    EXPECT_EQ(of_least("rotate_period_ns", std::uint64_t{1} << 61), "");
    EXPECT_EQ(of_least("rotate_period_ns", ~std::uint64_t{0}), "A chunk lasts at most 100 years.");
    EXPECT_EQ(of_least("rotate_bytes", 65535), "A chunk has at least 64K.");
    EXPECT_EQ(of_least("rotate_bytes", 65536), "");
    EXPECT_EQ(of_least("users", {4294967294}), "");
    EXPECT_EQ(of_least("users", {4294967295}), "\"users\" is no list of numbers of users.");
    EXPECT_EQ(of_least("cookie", "ffffffffffffffff"), "");
    for (const char* const wrong : {"10000000000000000", "", "xyz", "0x1", "1 ", "-1"})
        EXPECT_EQ(of_least("cookie", wrong), "\"cookie\" is no number in base 16.") << wrong;
    EXPECT_EQ(of_least("kernel", {{"events", Json::array()}}), "\"kernel\" has no list of \"events\".");
    EXPECT_EQ(of_least("kernel", {{"events", {1}}}), "\"events\" of the kernel is no list of texts.");
    EXPECT_NE(of_least("kernel", {{"events", {"sched:*"}}, {"buffer_bytes", 0}}), "");
    EXPECT_THAT(of_least("kernel", {{"events", {"kprobe:"}}}), HasSubstr("kprobe:"));
    for (const char* const folder : {"ust", "ust-1/x", "", "other", "../ust-1"})
        EXPECT_EQ(of_least("places", {{{"folder", folder}}}), "\"places\" is not what a worker writes.")
            << folder;
    EXPECT_EQ(of_least("places", {{{"folder", "ust-1"}}}), "");
    least["clock"] = "real";
    EXPECT_THAT(of_least("kernel", {{"events", {"sched:*"}}}),
                HasSubstr("-k: the kernel's tracer has no clock of real time."));
    const Json recorder = {{"format", 1}, {"name", "s"}, {"output", "/o"}, {"mode", "overwrite"}};
    const std::string no_chunks = "A flight recorder writes snapshots when it is asked, and no chunks.";
    for (const char* const chunks : {"rotate_period_ns", "rotate_bytes", "keep_chunks", "keep_bytes"})
        EXPECT_EQ(refusal(chunks, 1'000'000'000, recorder), no_chunks) << chunks;
    EXPECT_EQ(refusal("users", {1}, recorder), "--user: a flight recorder keeps events of one user alone.");
    EXPECT_EQ(refusal("all_users", true, recorder),
              "--all-users: a flight recorder keeps events of one user alone.");
    EXPECT_THAT(refusal("kernel", {{"events", {"sched:*"}}}, recorder),
                HasSubstr("-k: a flight recorder that is kept has no events of the kernel."));
    Json triggers = Json::array();
    for (int i = 0; i < 32; i++)
        triggers.push_back({{"name", fmt::format("t{}", i)}, {"on", "death"}, {"do", {"stop"}}});
    least.erase("clock");
    EXPECT_EQ(of_least("triggers", triggers), "");
    EXPECT_EQ(refusal("triggers", triggers, recorder), "");
    triggers.push_back({{"name", "one_more"}, {"on", "death"}, {"do", {"stop"}}});
    EXPECT_EQ(of_least("triggers", triggers), "\"triggers\" is no list of at most 32.");
    triggers = {triggers[0], triggers[1], triggers[0]};
    EXPECT_EQ(of_least("triggers", triggers), "There are two triggers t0.");
}

TEST_F(SessionDescriptionTest, PlacesInRingsAreWholeOrRefused) {
    const std::string wrong = "\"ring_places\" is not what a worker writes.";
    Json told = Json::array();
    for (std::size_t i = 0; i < RingPlace().told.size(); i++)
        told.push_back(i);
    const Json least = {{"format", 1}, {"name", "s"}, {"output", "/o"}};
    const auto with = [&](const Json& place) { return refusal("ring_places", Json::array({place}), least); };
    EXPECT_EQ(with({{"position", 1}, {"told", told}}), "");
    EXPECT_EQ(with({{"position", -1}, {"told", told}}), wrong);
    EXPECT_EQ(with({{"told", told}}), wrong);
    EXPECT_EQ(with({{"position", 1}}), wrong);
    EXPECT_EQ(with({{"position", 1}, {"told", 5}}), wrong);
    EXPECT_EQ(with(5), wrong);
    Json other = told;
    other[0] = -1;
    EXPECT_EQ(with({{"position", 1}, {"told", other}}), wrong);
    other = told;
    other.push_back(1);
    EXPECT_EQ(with({{"position", 1}, {"told", other}}), wrong);
    other = told;
    other.erase(0);
    EXPECT_EQ(with({{"position", 1}, {"told", other}}), wrong);
}

/* ---- rules ---- */

std::string rule_said(const Json& object) {
    const auto rule = read_rule(as_read(object));
    if (rule) {
        EXPECT_EQ(sorted(rule_as_json(*rule)), sorted(object));
        return rule_text(*rule);
    }
    EXPECT_EQ(rule.error().number(), EINVAL);
    return "- " + rule.error().message();
}

TEST_F(SessionDescriptionTest, RulesAreSaidAsPeopleSayThem) {
    const std::pair<Json, const char*> cases[] = {
        {{{"event", "shop:*"}}, "shop:*"},
        {{{"event", "!shop:noise"}}, "!shop:noise"},
        {{{"event", "a:b"}, {"filter", "id > 7"}}, "a:b if id > 7"},
        {{{"event", "a:b"}, {"log_level", "warning"}}, "a:b, warning and more severe"},
        {{{"event", "a:b"}, {"log_level", "warning.."}}, "a:b, warning and less severe"},
        {{{"event", "a:b"}, {"log_level", "err..warning"}}, "a:b, err to warning"},
        {{{"event", "a:b"}, {"log_level", "warning..warning"}}, "a:b, warning alone"},
        {{{"event", "a:b"}, {"process", 42}}, "a:b, of process 42"},
        {{{"event", "a:b"}, {"executable", "*shop"}}, "a:b, of *shop"},
        {{{"event", "a:b"}, {"filter", "id > 7"}, {"log_level", "err"}, {"process", 1}},
         "a:b if id > 7, err and more severe, of process 1"},
        {5, "- A rule is no object."},
        {{{"filter", "id > 7"}}, "- \"event\" is missing."},
        {{{"event", "a:b"}, {"process", 1}, {"executable", "x"}},
         "- A rule is for a process, for an executable or for a control group, and not for two of these."},
        {{{"event", "a:b"}, {"executable", "x"}, {"cgroup", "/"}},
         "- A rule is for a process, for an executable or for a control group, and not for two of these."},
        {{{"event", "a:b"}, {"process", 4294967296}}, "- \"process\" is too large."},
        {{{"event", "!a:b"}, {"filter", "id > 7"}},
         "- \"!a:b\" leaves events out, all of them, and has no filter."},
    };
    for (const auto& [object, text] : cases)
        EXPECT_EQ(rule_said(object), text) << object;
    EXPECT_THAT(rule_said({{"event", "a:b"}, {"filter", "id >"}}), HasSubstr("The filter of a:b"));
    EXPECT_THAT(rule_said({{"event", "a:b"}, {"log_level", "nonsense"}}), HasSubstr("nonsense"));
    EXPECT_THAT(rule_said({{"event", "a::b"}}), HasSubstr("a::b"));
    EXPECT_THAT(rule_said({{"event", "a:b"}, {"cgroup", "/no/such"}}), HasSubstr("/no/such"));
}

TEST_F(SessionDescriptionTest, AsManyRulesAsTheStateFileHas) {
    Json rules = Json::array();
    for (std::uint32_t i = 0; i < PLUMB_MAX_RULES; i++)
        rules.push_back({{"event", fmt::format("p{}:*", i)}});
    const auto all = read_rules(as_read({{"rules", rules}}), "rules");
    ASSERT_TRUE(all) << all.error().message();
    EXPECT_EQ(all->size(), PLUMB_MAX_RULES);
    EXPECT_EQ(all->back().pattern, fmt::format("p{}:*", PLUMB_MAX_RULES - 1));
    rules.push_back({{"event", "more:*"}});
    const auto more = read_rules(as_read({{"rules", rules}}), "rules");
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().number(), EINVAL);
    EXPECT_THAT(more.error().message(),
                HasSubstr(fmt::format("{} rules are asked for", PLUMB_MAX_RULES + 1)));
    EXPECT_TRUE(read_rules(as_read({{"rules", rules}}), "others")->empty());
    EXPECT_EQ(read_rules(as_read({{"rules", 5}}), "rules").error().message(), "\"rules\" is no list.");
}

} // namespace
} // namespace plumb
