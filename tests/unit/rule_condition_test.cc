// cmake-once
/* Conditions of rules, from their text to a payload's answer: what the runtime makes of the code in the state file says what the
 * language means, for random events and conditions; what no controller would write harms nobody; and what never can hold. */
#include "consumerd/control/rule_condition.h"
#include "libtrace/condition/tests.h"
#include "libtrace/sanitizers.h"
#include "tests/support/random_condition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

namespace plumb {
namespace {

using condition::Answer, condition::Code, condition::Linked, condition::Program;
using test::Random, test::RandomCondition, test::RandomEvent, test::RandomPayload;

struct ProgramPlace {
    explicit ProgramPlace(uint32_t bytes) : memory(new (std::align_val_t{64}) unsigned char[bytes]()) {
        program().bytes = bytes;
    }
    Program& program() { return *reinterpret_cast<Program*>(memory.get()); }
    struct Delete {
        void operator()(unsigned char* at) const { ::operator delete[](at, std::align_val_t{64}); }
    };
    std::unique_ptr<unsigned char[], Delete> memory;
};

Linked link(const std::vector<std::vector<std::uint8_t>>& codes, const plumb_event_info& info,
            ProgramPlace& place) {
    std::vector<Code> all;
    for (const auto& code : codes)
        all.push_back({code.data(), static_cast<uint32_t>(code.size())});
    return condition::link_conditions(all.data(), static_cast<uint32_t>(all.size()), info, place.program());
}

bool holds(ProgramPlace& place, const plumb_event_info& info, const void* payload, std::size_t bytes) {
    const Answer answer =
        condition::ask(place.program(), place.program().version, info, payload, static_cast<uint32_t>(bytes));
    EXPECT_NE(answer, Answer::changed);
    EXPECT_EQ(answer, condition::ask_steps(place.program(), place.program().version, info, payload,
                                           static_cast<uint32_t>(bytes)))
        << "its tests say something else than its steps";
    return answer == Answer::holds;
}

EventDescription described(const RandomEvent& event) {
    EventDescription description{"shop", "order", PLUMB_DEBUG_LINE, {}, "", 0};
    for (const plumb_event_field& field : event.fields) {
        EventField one{};
        one.name = field.name;
        one.type = static_cast<plumb_field_type>(field.type);
        one.size = field.size;
        one.is_signed = (field.flags & PLUMB_FIELD_SIGNED) != 0;
        one.array_length = field.array_length;
        description.fields.push_back(one);
    }
    return description;
}

using MakeText = std::function<std::string(Random&, const RandomEvent&)>;

/* One condition, or several of which one must hold, over some payloads. How often it held. */
unsigned compare(Random& random, ProgramPlace& place, const MakeText& make_text) {
    RandomEvent event(random);
    std::vector<ConditionTree> trees;
    std::vector<std::vector<std::uint8_t>> codes;
    bool can = false;
    for (uint64_t count = random.chance(80) ? 1 : 1 + random.below(3); count != 0; count--) {
        const std::string text = make_text(random, event);
        auto tree = parse_condition(text);
        if (!tree) ADD_FAILURE() << text << ": " << tree.error().message();
        auto code = encode_condition(*tree);
        if (!code) ADD_FAILURE() << text << ": " << code.error().message();
        can |= can_hold(*tree, described(event));
        trees.push_back(std::move(*tree));
        codes.push_back(std::move(*code));
    }
    const Linked linked = link(codes, event.info, place);
    EXPECT_NE(linked, Linked::no_room);
    EXPECT_TRUE(linked == Linked::done || !can) << trees[0].source;
    unsigned held = 0;
    for (int i = 0; i < 3; i++) {
        const RandomPayload payload(random, event);
        bool expected = false;
        for (const ConditionTree& tree : trees)
            expected |= truth_of(test::value_by_tree(tree, payload.values)).value_or(false);
        const bool held_here =
            linked == Linked::done && holds(place, event.info, payload.bytes.data(), payload.length);
        EXPECT_EQ(held_here, expected) << trees[0].source;
        EXPECT_TRUE(can || !expected) << trees[0].source;
        held += expected;
    }
    return held;
}

#ifdef PLUMB_SANITIZED
constexpr unsigned slower = 6;
#else
constexpr unsigned slower = 1;
#endif

TEST(RuleCondition, SaysWhatTheLanguageMeans) {
    constexpr unsigned conditions = 120'000 / slower;
    Random random(20261127);
    ProgramPlace place(16384);
    unsigned held = 0;
    for (unsigned i = 0; i < conditions && !HasFailure(); i++)
        held += compare(random, place,
                        [](Random& from, const RandomEvent&) { return RandomCondition(from).make(); });
    EXPECT_GT(held, conditions / 4) << "or little was compared";
    EXPECT_LT(held, 3 * conditions * 3 / 4);
}

/* Fields compared with what is written there, joined. */
std::string simple_condition(Random& random, const RandomEvent& event, unsigned depth) {
    constexpr const char* signs[] = {" == ", " != ", " < ", " <= ", " > ", " >= "};
    constexpr const char* patterns[] = {"a*",     "*",  "/api/*", "x\\\\*", "caf\xc3\xa9*", "caf\xc3*", "?b*",
                                        "[a-c]*", "*1", "",       "ab"};
    if (depth != 0 && random.chance(70)) {
        if (random.chance(15)) return "!(" + simple_condition(random, event, depth - 1) + ")";
        return "(" + simple_condition(random, event, depth - 1) + (random.chance(50) ? ") && (" : ") || (") +
               simple_condition(random, event, depth - 1) + ")";
    }
    std::vector<const plumb_event_field*> fields;
    for (const plumb_event_field& field : event.fields)
        if (field.type == PLUMB_FIELD_INTEGER || field.type == PLUMB_FIELD_STRING ||
            field.type == PLUMB_FIELD_TEXT)
            fields.push_back(&field);
    if (fields.empty()) return "f0 > 0";
    const plumb_event_field& field = *fields[random.below(fields.size())];
    const std::string name = field.name;
    if (field.type == PLUMB_FIELD_INTEGER) {
        if (random.chance(10)) return name;
        return name + random.one_of(signs) + (random.chance(30) ? "-" : "") + std::to_string(random.number());
    }
    if (random.chance(60))
        return name + (random.chance(70) ? " ~ \"" : " !~ \"") + random.one_of(patterns) + "\"";
    return name + (random.chance(60) ? " == \"" : " != \"") + (random.chance(50) ? "/api/v1" : "ab") + "\"";
}

TEST(RuleCondition, IsTheSameAsARowOfTests) {
    constexpr unsigned conditions = 60'000 / slower;
    Random random(271126);
    ProgramPlace place(16384);
    unsigned held = 0, rows = 0;
    for (unsigned i = 0; i < conditions && !HasFailure(); i++) {
        held += compare(random, place, [](Random& from, const RandomEvent& event) {
            return simple_condition(from, event, 3);
        });
        rows += place.program().test_count != 0;
    }
    EXPECT_GT(held, conditions / 4);
    EXPECT_GT(rows, conditions / 2) << "or little of it was a row of tests";
}

/* Of each float that the shortest text of a float means. */
TEST(RuleCondition, TakesFloatsAsTheyAreShown) {
    Random random(7);
    constexpr uint32_t ends[] = {1, 0x7fffff, 0x800000, 0x7f7fffff, 0x80000001, 0xff7fffff};
    for (int i = 0; i < 200'000; i++) {
        const uint32_t bits = i < 6 ? ends[i] : static_cast<uint32_t>(random.bits());
        float number;
        std::memcpy(&number, &bits, sizeof(number));
        if (!std::isfinite(number)) continue;
        char text[40];
        double shown = 0;
        const char* const end = std::to_chars(text, text + sizeof(text), number).ptr;
        std::from_chars(text, end, shown);
        ASSERT_EQ(condition::as_shown(number), shown) << std::string(static_cast<const char*>(text), end);
    }
}

class OneEvent : public testing::Test {
protected:
    static constexpr plumb_event_label labels[] = {{0, "new"}, {1, "sent"}};
    plumb_event_field fields[3] = {{"id", nullptr, 0, 0, PLUMB_FIELD_INTEGER, 4, 0, 0},
                                   {"path", nullptr, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0},
                                   {"status", labels, 2, 0, PLUMB_FIELD_ENUM, 1, 0, 0}};
    plumb_event_info info = {
        "shop", "order", nullptr, nullptr, fields, 0, 3, PLUMB_DEBUG_LINE, PLUMB_RUNTIME_VERSION};
    ProgramPlace place{16384};
    const char payload[16] = {7, 0, 0, 0, '/', 'a', 0, 1};

    bool holds_of_text(const std::string& text) {
        const auto tree = parse_rule_condition(text);
        EXPECT_TRUE(tree) << tree.error().message();
        const auto code = encode_condition(*tree);
        return link({*code}, info, place) == Linked::done && holds(place, info, payload, 8);
    }
    Linked linked(std::vector<std::uint8_t> code) { return link({std::move(code)}, info, place); }
    static std::vector<std::uint8_t> code_of(const std::string& text) {
        return *encode_condition(*parse_condition(text));
    }
};

TEST_F(OneEvent, IsAskedByItsFieldsAndWhoWritesIt) {
    EXPECT_TRUE(holds_of_text("id == 7 && path == \"/a\" && status == \"sent\" && status == 1"));
    EXPECT_TRUE(holds_of_text("event ~ \"shop:*\" && tid > 0 && cpu >= 0"));
    EXPECT_FALSE(holds_of_text("path == \"/b\" || id > 7"));
    EXPECT_FALSE(holds_of_text("other == 1"));
    EXPECT_FALSE(holds_of_text("!(other == 1)"));
    EXPECT_TRUE(holds_of_text("other == 1 || id"));
    EXPECT_FALSE(holds_of_text("id / 0 == 1")) << "which has no value";
}

/* They are compared some at a time. */
TEST(RuleCondition, ComparesTextsByEachOfTheirBytes) {
    const plumb_event_field path{"path", nullptr, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0};
    const plumb_event_info info = {
        "shop", "order", nullptr, nullptr, &path, 0, 1, PLUMB_DEBUG_LINE, PLUMB_RUNTIME_VERSION};
    ProgramPlace is(16384), begins(16384);
    std::string wanted;
    for (std::size_t count = 0; count <= 40; count++) {
        const auto linked = [&](const std::string& text, ProgramPlace& place) {
            return link({*encode_condition(*parse_condition(text))}, info, place);
        };
        ASSERT_EQ(linked("path == \"" + wanted + "\"", is), Linked::done);
        ASSERT_EQ(linked("path ~ \"" + wanted + "*\"", begins), Linked::done);
        const auto expect = [&](const std::string& text, bool that_it_is, bool that_it_begins) {
            const auto bytes = static_cast<uint32_t>(text.size()) + 1;
            EXPECT_EQ(holds(is, info, text.c_str(), bytes), that_it_is) << wanted << " of " << text;
            EXPECT_EQ(holds(begins, info, text.c_str(), bytes), that_it_begins) << wanted << " of " << text;
        };
        expect(wanted, true, true);
        expect(wanted + "/", false, true);
        for (std::size_t at = 0; at < count; at++) {
            std::string other = wanted;
            other[at]++;
            expect(other, false, false);
            expect(wanted.substr(0, at), false, false);
        }
        wanted += static_cast<char>('a' + count % 20);
    }
}

/* What is written anew while it is asked means nothing. */
TEST_F(OneEvent, NoticesThatItWasChanged) {
    ASSERT_EQ(linked(code_of("id == 7")), Linked::done);
    place.program().version = 6;
    EXPECT_EQ(condition::ask(place.program(), 4, info, payload, 8), Answer::changed);
    EXPECT_EQ(condition::ask(place.program(), 6, info, payload, 8), Answer::holds);
}

TEST_F(OneEvent, OfWhatIsNoCodeNothingHolds) {
    EXPECT_EQ(linked({}), Linked::never_holds);
    EXPECT_EQ(linked({99}), Linked::never_holds);
    EXPECT_EQ(linked({PLUMB_CONDITION_EQUAL}), Linked::never_holds) << "without operands";
    auto two = code_of("id");
    const auto one = two;
    two.insert(two.end(), one.begin(), one.end());
    EXPECT_EQ(linked(two), Linked::never_holds) << "two values";
    auto cut = code_of("id == 7 && path == \"/a\"");
    for (; cut.size() > 1; cut.pop_back()) {
        const Linked so_far = linked(cut);
        if (so_far == Linked::done) (void)holds(place, info, payload, 8);
    }
    std::vector<std::uint8_t> deep;
    for (uint32_t i = 0; i <= PLUMB_CONDITION_DEPTH; i++)
        deep.insert(deep.end(), one.begin(), one.end());
    deep.insert(deep.end(), PLUMB_CONDITION_DEPTH, PLUMB_CONDITION_ADD);
    EXPECT_EQ(linked(deep), Linked::never_holds);
    EXPECT_EQ(linked({PLUMB_CONDITION_FIELD, 0, 0, 1, 'x', PLUMB_CONDITION_AND_THEN, 9, 0}),
              Linked::never_holds)
        << "it leaves out what is not there";
}

TEST_F(OneEvent, TakesALargerPlaceWhereItHasNoRoom) {
    ProgramPlace small(512);
    std::string text = "id == 1";
    for (int i = 0; i < 30; i++)
        text += " || path == \"a text that takes some room " + std::to_string(i) + "\"";
    EXPECT_EQ(link({code_of(text)}, info, small), Linked::no_room);
    EXPECT_EQ(link({code_of(text)}, info, place), Linked::done);
}

TEST_F(OneEvent, ErrorsPointAtTheColumn) {
    const EventDescription order{
        "shop",
        "order",
        13,
        {{"id", PLUMB_FIELD_INTEGER, 4, false, false, 0, {}, false},
         {"path", PLUMB_FIELD_STRING, 1, false, false, 0, {}, false},
         {"prices", PLUMB_FIELD_SEQUENCE, 8, false, false, 0, {}, false, false, true}},
        "",
        0};
    const auto wrong = [&](const std::string& text) {
        const Status sensible = check_condition_for(*parse_condition(text), {order});
        return sensible ? std::string("sensible") : sensible.error().message();
    };
    EXPECT_EQ(wrong("id > 3 && path ~ \"/a*\" && cpu == 0 && comm == \"shop\""), "sensible");
    EXPECT_EQ(wrong("idd > 3"),
              "no event that is recorded has a field idd, but some have id:\n    idd > 3\n    ^");
    EXPECT_EQ(wrong("id > \"3\""),
              "id is a number, and \"3\" is a text: they can not be compared:\n    id > \"3\"\n       ^");
    EXPECT_EQ(wrong("duration > 1"), "shop:order has no field duration:\n    duration > 1\n    ^");
    EXPECT_EQ(wrong("prices[0] > 1.5"),
              "the elements of prices are floating-point numbers, which no filter compares:\n    "
              "prices[0] > 1.5\n    ^");
    const auto long_text = parse_rule_condition("path == \"" + std::string(300, 'a') + "\"");
    ASSERT_FALSE(long_text);
    EXPECT_NE(long_text.error().message().find("at most 255 bytes"), std::string::npos);
}

} // namespace
} // namespace plumb
