// cmake-once
// `-k 'EVENT if FILTER'` as the tests that plumb.ko makes of a payload: what they let through is what the filter says, followed here by
// the description of <plumb/abi/kernel_filter.h>; and what can not be tested is refused, at its column.
#include "base/glob.h"
#include "consumerd/kernel/module_filter.h"
#include "tests/support/random_condition.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EventField field(const std::string& name, plumb_field_type type, std::uint8_t size, bool is_signed = false,
                 std::uint16_t length = 0) {
    EventField made{};
    made.name = name;
    made.type = type;
    made.size = size;
    made.is_signed = is_signed;
    made.array_length = length;
    return made;
}

struct Payload {
    std::int32_t before = -5;
    std::string name = "shop";
    std::vector<std::uint16_t> list = {1, 2, 3};
    std::uint64_t flags = 0x41;
    std::uint8_t small = 200;
    std::int64_t large = -1;
    std::string text = "R";

    std::string bytes() const {
        std::string all;
        const auto add = [&all](const auto& value) {
            all.append(reinterpret_cast<const char*>(&value), sizeof(value));
        };
        add(before);
        all += name + '\0';
        add(static_cast<std::uint16_t>(list.size()));
        for (const std::uint16_t each : list)
            add(each);
        add(std::uint64_t{7}); /* an array of 4 */
        add(flags);
        add(small);
        add(large);
        add(std::uint32_t{3}); /* rwbs */
        return all + text + '\0';
    }
};

EventDescription description() {
    EventDescription made;
    made.provider = "sched";
    made.name = "sched_event";
    made.fields = {
        field("before", PLUMB_FIELD_INTEGER, 4, true), field("name", PLUMB_FIELD_STRING, 1),
        field("list", PLUMB_FIELD_SEQUENCE, 2),        field("four", PLUMB_FIELD_ARRAY, 2, false, 4),
        field("flags", PLUMB_FIELD_ENUM, 8),           field("small", PLUMB_FIELD_INTEGER, 1),
        field("large", PLUMB_FIELD_INTEGER, 8, true),  field("rwbs", PLUMB_FIELD_INTEGER, 4),
        field("rwbs_text", PLUMB_FIELD_STRING, 1)};
    return made;
}

/* A thread "shop", 11 of process 10, on processor 3. */
bool holds(const plumb_kernel_filter& filter, const plumb_filter_test& test, const std::string& payload,
           const std::vector<std::size_t>& at) {
    const std::string wanted = filter.texts + test.value * (test.mask == 0);
    const auto text_holds = [&](const std::string& text) {
        switch (test.operation) {
        case PLUMB_FILTER_EQUAL:
            return text == wanted;
        case PLUMB_FILTER_UNEQUAL:
            return text != wanted;
        case PLUMB_FILTER_MATCHES:
            return glob_matches(wanted, text);
        default:
            return !glob_matches(wanted, text);
        }
    };
    __int128 value = test.field == PLUMB_FILTER_CPU ? 3 : test.field == PLUMB_FILTER_TID ? 11 : 10;
    if (test.field == PLUMB_FILTER_COMM) return text_holds("shop");
    if (test.field < PLUMB_FILTER_COMM) {
        const plumb_filter_field& its = filter.fields[test.field];
        if (its.type == PLUMB_FIELD_STRING) return text_holds(payload.c_str() + at[test.field]);
        std::uint64_t bits = 0;
        std::memcpy(&bits, payload.data() + at[test.field], its.size);
        value = bits;
        if (its.flags != 0 && (bits >> (8u * its.size - 1) & 1) != 0) value -= __int128{1} << 8 * its.size;
    }
    /* A mask without bits beyond its own leaves no sign. */
    if ((test.mask == UINT64_MAX) == (test.turns_sign != 0))
        value = static_cast<std::uint64_t>(value) & test.mask;
    else
        value &= static_cast<std::int64_t>(test.mask);
    const __int128 number =
        test.is_negative != 0 ? __int128{static_cast<std::int64_t>(test.value)} : __int128{test.value};
    const bool results[] = {value == number, value != number, value<number, value <= number, value> number,
                            value >= number};
    return results[test.operation];
}

bool passes(const plumb_kernel_filter& filter, const std::string& payload) {
    std::vector<std::size_t> at;
    std::size_t next = 0;
    for (std::size_t i = 0; i < filter.field_count; i++) {
        const plumb_filter_field& its = filter.fields[i];
        at.push_back(next);
        std::uint16_t count = 0;
        std::memcpy(&count, payload.data() + next, sizeof(count));
        next += its.type == PLUMB_FIELD_STRING     ? std::strlen(payload.c_str() + next) + 1
                : its.type == PLUMB_FIELD_ARRAY    ? std::size_t{its.size} * its.array_length
                : its.type == PLUMB_FIELD_SEQUENCE ? 2 + std::size_t{its.size} * count
                                                   : its.size;
    }
    std::uint16_t test = 0;
    while (test < filter.test_count) {
        const plumb_filter_test& each = filter.tests[test];
        const std::uint16_t goal = holds(filter, each, payload, at) ? each.if_true : each.if_false;
        EXPECT_GT(goal, test) << "it goes forward";
        test = goal;
    }
    EXPECT_GE(test, PLUMB_FILTER_LEAVE);
    return test == PLUMB_FILTER_TAKE;
}

class ModuleFilter : public testing::Test {
protected:
    Result<plumb_kernel_filter> made(const std::vector<std::string>& texts) const {
        std::vector<ConditionTree> trees;
        for (const std::string& text : texts)
            trees.push_back(*parse_condition(text));
        return module_filter(trees, {event, kernel_names});
    }
    bool lets_through(const std::vector<std::string>& texts) const {
        const auto filter = made(texts);
        EXPECT_TRUE(filter) << filter.error().message();
        return filter && passes(*filter, payload.bytes());
    }
    std::string why_not(const std::string& text) const {
        const auto filter = made({text});
        return filter ? "" : filter.error().message();
    }

    EventDescription event = description();
    std::vector<std::string> kernel_names = {"before", "name",  "list", "four",     "flags",
                                             "small",  "large", "rwbs", "rwbs_text"};
    Payload payload;
};

TEST_F(ModuleFilter, MeansWhatItSays) {
    for (const char* const text : {"before == -5",
                                   "-5 == before",
                                   "before < 0",
                                   "before < 1",
                                   "before > -6",
                                   "before <= -5",
                                   "before != 5",
                                   "small == 200",
                                   "small > -1",
                                   "-1 < small",
                                   "200 <= small",
                                   "large == -1",
                                   "large < 0",
                                   "large != 0xffffffffffffffff",
                                   "flags & 0x40",
                                   "0x40 & flags",
                                   "(flags & 0x3f) == 1",
                                   "!(flags & 2)",
                                   "flags == 65",
                                   "name == \"shop\"",
                                   "\"shop\" == name",
                                   "name ~ \"sh*\"",
                                   "name !~ \"b*\"",
                                   "name != \"sho\"",
                                   "rwbs == 3",
                                   "rwbs ~ \"R*\"",
                                   "rwbs_text == \"R\"",
                                   "before",
                                   "!(before > 0)",
                                   "COMM == \"shop\"",
                                   "comm ~ \"s??p\"",
                                   "CPU == 3",
                                   "cpu < 4",
                                   "common_pid == 11",
                                   "tid == 11",
                                   "pid == 10",
                                   "before == 7 || small == 200",
                                   "(before == 7 || small == 200) && (name == \"x\" || large < 0)",
                                   "!(before == 7 && small == 200)",
                                   "1",
                                   "0 || small == 200",
                                   "!(0 && small == 1)",
                                   "0 || (1 && small > 3)",
                                   "(large & 0xff) == 0xff",
                                   "large & 0xff == 0xff",
                                   "(before & -4096) == -4096",
                                   "(-4 & before) == -8",
                                   "(before & -2) < 0",
                                   "(before & -1) == -5",
                                   "(before & 0xffffffffffffffff) > 100",
                                   "(0xffffffffffffffff & before) == 0xfffffffffffffffb",
                                   "(large & 0x8000000000000000) == 0x8000000000000000",
                                   "(flags & -64) == 0x40",
                                   "(flags & 0xffffffffffffffff) == 0x41",
                                   "(small & -8) == 200",
                                   "(pid & -1) == 10",
                                   "before & -2",
                                   "before & 0xffffffffffffffff"})
        EXPECT_TRUE(lets_through({text})) << text;
    for (const char* const text : {"before == 5",
                                   "before > 0",
                                   "small < -1",
                                   "small == -56",
                                   "large == 0xffffffffffffffff",
                                   "flags & 2",
                                   "(flags & 0x3f) == 2",
                                   "(before & -4096) == 0xfffffffffffff000",
                                   "(before & -2) > 0",
                                   "(before & 0xffffffffffffffff) < 0",
                                   "(before & 0xffffffffffffffff) == -5",
                                   "(small & -8) < 0",
                                   "(before & 0xff) < 0",
                                   "name == \"sho\"",
                                   "name == \"shopp\"",
                                   "name ~ \"sho\"",
                                   "rwbs ~ \"W*\"",
                                   "!before",
                                   "COMM != \"shop\"",
                                   "CPU != 3",
                                   "0",
                                   "!1",
                                   "small == 200 && before == 7",
                                   "!(small == 200 || before == 7)",
                                   "0 && small == 200",
                                   "(0 && small == 200) || before == 7"})
        EXPECT_FALSE(lets_through({text})) << text;
}

TEST_F(ModuleFilter, AnyOfSeveralIsEnough) {
    EXPECT_TRUE(lets_through({"before == 7", "small == 200"}));
    EXPECT_TRUE(lets_through({"small == 200", "before == 7"}));
    EXPECT_TRUE(lets_through({"0 && small == 1", "small == 200"}));
    EXPECT_FALSE(lets_through({"before == 7", "small == 201", "0"}));
    EXPECT_FALSE(lets_through({"1 && small == 1", "0 && small == 200"}));
}

/* The kernel's word for a thread is the trace's for a process: where the event has both, nobody knows which is meant. */
TEST_F(ModuleFilter, NamesAreTheKernelsFirst) {
    event.fields[5].name = "tid";
    event.fields[6].name = "pid";
    kernel_names[5] = "pid";
    kernel_names[6] = "process";
    EXPECT_THAT(
        why_not("pid == 200"),
        HasSubstr(
            "pid is two fields: the kernel's is tid in the trace, and the trace's is process to the kernel"));
    EXPECT_THAT(why_not("1 && \"a\" == pid"), HasSubstr("pid is two fields"));
    event.fields[6].name = "other";
    EXPECT_TRUE(lets_through({"pid == 200"}));
    event.fields[6].name = "pid";
    EXPECT_TRUE(lets_through({"tid == 200"}));
    EXPECT_TRUE(lets_through({"process == -1"}));
    kernel_names.clear();
    EXPECT_TRUE(lets_through({"pid == -1"}));
    EXPECT_THAT(
        lacking_fields(*parse_condition("pid == 1 || no == 2 && no < 3 || (other & 1) || COMM == \"a\""),
                       {event, {}}),
        ElementsAre("no", "other"));
    EXPECT_THAT(lacking_fields(*parse_condition("process == 1"), {event, {"process"}}), IsEmpty());
}

TEST_F(ModuleFilter, OnlyWhatIsTestedIsLaidOut) {
    EXPECT_EQ(made({"COMM == \"a\""})->field_count, 0);
    EXPECT_EQ(made({"before == 1"})->field_count, 1);
    EXPECT_EQ(made({"before == 1 || large == 1"})->field_count, 7);
    EXPECT_EQ(made({"name == \"a\" || COMM == \"a\" || name ~ \"b\""})->text_bytes, 4) << "each text once";
}

TEST_F(ModuleFilter, WhatCanNotBeTestedIsRefusedAtItsPlace) {
    EXPECT_THAT(why_not("no == 1"), HasSubstr("sched:sched_event has no field no"));
    EXPECT_THAT(why_not("name == shop"), HasSubstr("texts are in quotes: \"shop\""));
    EXPECT_THAT(why_not("small == 1.5"), HasSubstr("a whole number is wanted here"));
    EXPECT_THAT(why_not("name > 5"), HasSubstr("name is a text, and no number"));
    EXPECT_THAT(why_not("small == \"5\""), HasSubstr("small is a number, and no text"));
    EXPECT_THAT(why_not("name < \"5\""), HasSubstr("texts are compared by ==, !=, ~ and !~"));
    EXPECT_THAT(why_not("name ~ \"[a\""), HasSubstr("[a"));
    EXPECT_THAT(why_not("list == 1"), HasSubstr("list is u16[]"));
    EXPECT_THAT(why_not("small == -0xffffffffffffffff"), HasSubstr("so large a number"));
    EXPECT_THAT(why_not("small & -0xffffffffffffffff"), HasSubstr("so many bits"));
    for (const char* const text :
         {"small + 1 == 5", "small == before", "name", "small & before", "-small == 3", "small ~ 3"})
        EXPECT_NE(why_not(text), "") << text;
    std::string many = "small == 0", texts = "name == \"0\"";
    for (int i = 1; i < 65; i++) {
        many += fmt::format(" || small == {}", i);
        texts += fmt::format(" || name == \"{}{}\"", std::string(20, 'x'), i);
    }
    EXPECT_THAT(why_not(many), HasSubstr("makes 64 comparisons for an event, and these are 65"));
    EXPECT_THAT(why_not(texts.substr(0, texts.rfind(" ||"))), HasSubstr("have 1024 bytes"));
    std::string patterns = "name ~ \"*16_characters_!\"";
    for (int i = 1; i < 64; i++)
        patterns += " || name !~ \"*16_characters_!\"";
    EXPECT_EQ(why_not(patterns), "") << "1024 bytes of patterns, of one text";
    EXPECT_THAT(why_not(patterns + " || name ~ \"*\""), HasSubstr("64 comparisons"));
    EXPECT_THAT(why_not(patterns.replace(patterns.find('!'), 1, "!!")), HasSubstr("and these have 1025"));
}

/* Beside what the filter's own words come to. */
TEST_F(ModuleFilter, IsTheSameForRandomOnes) {
    test::Random random(30112026);
    struct Made {
        std::string text;
        bool value;
    };
    const auto leaf = [&]() -> Made {
        const auto limit = static_cast<std::int64_t>(random.below(7)) - 3;
        switch (random.below(5)) {
        case 0:
            return {fmt::format("before < {}", limit), payload.before < limit};
        case 1:
            return {fmt::format("large >= {}", limit), payload.large >= limit};
        case 2:
            return {fmt::format("flags & {}", limit + 3),
                    (payload.flags & static_cast<std::uint64_t>(limit + 3)) != 0};
        case 3:
            return {fmt::format("(before & {}) > {}", limit, -limit), (payload.before & limit) > -limit};
        default:
            return {fmt::format("name == \"{}\"", random.chance(50) ? "a" : "b"), false};
        }
    };
    for (int i = 0; i < 3000; i++) {
        payload.before = static_cast<std::int32_t>(random.below(7)) - 3;
        payload.large = static_cast<std::int64_t>(random.below(7)) - 3;
        payload.flags = random.below(8);
        payload.name = random.chance(50) ? "a" : "b";
        Made whole = leaf();
        for (std::uint64_t more = random.below(8); more != 0; more--) {
            Made other = leaf();
            if (other.text.starts_with("name"))
                other.value = other.text.find('"' + payload.name + '"') != std::string::npos;
            if (whole.text.starts_with("name"))
                whole.value = whole.text.find('"' + payload.name + '"') != std::string::npos;
            const bool is_and = random.chance(50), turns = random.chance(30);
            whole.text = fmt::format("{}(({}) {} ({}))", turns ? "!" : "", whole.text, is_and ? "&&" : "||",
                                     other.text);
            whole.value = (is_and ? whole.value && other.value : whole.value || other.value) != turns;
        }
        if (whole.text.starts_with("name"))
            whole.value = whole.text.find('"' + payload.name + '"') != std::string::npos;
        ASSERT_EQ(lets_through({whole.text}), whole.value) << whole.text;
    }
}

} // namespace
} // namespace plumb
