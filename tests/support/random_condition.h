// Random events, payloads and conditions, and an evaluator of conditions that has nothing in common with the runtime's: it walks
// the tree, over the values that a payload was made of, with the operations of `plumb view --where`.
#pragma once

#include "base/condition_parser.h"
#include "trace/show/condition_values.h"

#include <plumb/runtime.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plumb::test {

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint64_t below(uint64_t count) { return engine_() % count; }
    bool chance(unsigned percent) { return below(100) < percent; }
    uint64_t bits() { return engine_(); }
    template <typename T, std::size_t Count>
    const T& one_of(const T (&all)[Count]) {
        return all[below(Count)];
    }
    /* Small numbers and those at the ends of types meet often. */
    uint64_t number() {
        constexpr uint64_t often[] = {0,    1,          2,   3,          5,          7,     8,
                                      64,   127,        128, 255,        256,        32767, 65535,
                                      1000, 0x7fffffff, ~0u, 1ull << 32, 1ull << 63, ~0ull, (1ull << 63) - 1,
                                      10,   100,        63};
        return chance(85) ? one_of(often) : bits() >> below(64);
    }
    std::string text() {
        constexpr const char* often[] = {"",        "a",       "b",           "ab",   "abc",
                                         "/api/v1", "/api/v2", "/static",     "new",  "sent",
                                         "x*",      "[",       "caf\xc3\xa9", "\xff", "a\\b"};
        if (chance(90)) return one_of(often);
        std::string made;
        for (uint64_t left = below(40); left != 0; left--)
            made += static_cast<char>('a' + below(26));
        return made;
    }

private:
    std::mt19937_64 engine_;
};

/* An event of the compiler's, made at run time. */
struct RandomEvent {
    std::deque<std::string> names;
    std::vector<plumb_event_field> fields;
    plumb_event_info info = {};

    explicit RandomEvent(Random& random) {
        static const plumb_event_label labels[] = {{0, "new"}, {1, "sent"}, {255, "a"}, {-1, "none"}};
        /* That hold by either sign. */
        static const plumb_event_label ranges[] = {{2, "few"},     {5, "few"},   {4, "more"}, {100, "more"},
                                                   {-100, "less"}, {-1, "less"}, {7, "one"},  {7, "one"}};
        const uint64_t count = random.below(9);
        for (uint64_t i = 0; i < count; i++) {
            constexpr uint8_t sizes[] = {1, 2, 4, 8};
            names.push_back("f" + std::to_string(i));
            plumb_event_field field = {};
            field.name = names.back().c_str();
            field.type = static_cast<uint8_t>(1 + random.below(7));
            field.size = field.type == PLUMB_FIELD_FLOAT ? (random.chance(50) ? 4 : 8)
                         : field.type == PLUMB_FIELD_STRING || field.type == PLUMB_FIELD_TEXT
                             ? 1
                             : random.one_of(sizes);
            if (random.chance(40)) field.flags = PLUMB_FIELD_SIGNED;
            if (field.type == PLUMB_FIELD_ARRAY)
                field.array_length = static_cast<uint16_t>(1 + random.below(4));
            if (field.type == PLUMB_FIELD_ENUM) {
                field.labels = labels;
                field.label_count = static_cast<uint16_t>(random.below(5));
                if (random.chance(50)) {
                    field.labels = ranges;
                    field.label_count = static_cast<uint16_t>(field.label_count * 2);
                    field.flags |= PLUMB_FIELD_RANGES;
                }
            }
            fields.push_back(field);
        }
        info.provider = "shop";
        info.name = "order";
        info.fields = fields.data();
        info.field_count = static_cast<uint16_t>(count);
        info.version = PLUMB_RUNTIME_VERSION;
    }
    RandomEvent(const RandomEvent&) = delete;
    RandomEvent& operator=(const RandomEvent&) = delete;
};

/* By what a condition calls them: "f3", "f4[1]". */
class RandomPayload {
public:
    RandomPayload(Random& random, const RandomEvent& event) {
        for (const plumb_event_field& field : event.fields)
            add(random, field);
        values["event"] = of_text("shop:order");
        length = bytes.size();
        bytes.resize(length + 8); /* as readable as a tracepoint's */
    }
    std::vector<unsigned char> bytes;
    std::size_t length = 0;
    std::map<std::string, ConditionValue> values;

private:
    void put(const void* from, std::size_t count) {
        const auto* const at = static_cast<const unsigned char*>(from);
        bytes.insert(bytes.end(), at, at + count);
    }
    ConditionValue integer(Random& random, const plumb_event_field& field) {
        const uint64_t number = random.chance(20) ? ~random.number() : random.number();
        put(&number, field.size);
        const unsigned unused = 64 - 8u * field.size;
        const uint64_t cut = number << unused >> unused;
        const auto extended = static_cast<int64_t>(number << unused) >> unused;
        ConditionValue value = (field.flags & PLUMB_FIELD_SIGNED) != 0
                                   ? of_integer(extended)
                                   : of_integer(static_cast<__int128>(cut));
        if (field.type != PLUMB_FIELD_ENUM) return value;
        value.lacks_label = true;
        const uint32_t ends = (field.flags & PLUMB_FIELD_RANGES) != 0 ? 2 : 1;
        const bool is_signed = (field.flags & PLUMB_FIELD_SIGNED) != 0;
        const auto as_stored = [&](int64_t end) {
            return is_signed ? static_cast<__int128>(end) : static_cast<__int128>(static_cast<uint64_t>(end));
        };
        for (uint32_t i = 0; i < field.label_count && value.lacks_label; i += ends)
            if (value.integer >= as_stored(field.labels[i].value) &&
                value.integer <= as_stored(field.labels[i + ends - 1].value)) {
                value.has_label = true;
                value.lacks_label = false;
                value.text = field.labels[i].name;
            }
        return value;
    }
    ConditionValue floating(Random& random, const plumb_event_field& field) {
        constexpr double often[] = {0, 0.1, -0.1, 1.5, 2, 100, 1e10, 99.2, 3.25, 0.30000001, 7, -7};
        const double number = random.one_of(often);
        if (field.size == 8) {
            put(&number, 8);
            return of_floating(number);
        }
        const auto narrow = static_cast<float>(number);
        put(&narrow, 4);
        char text[40];
        double shown = 0;
        const char* const end = std::to_chars(text, text + sizeof(text), narrow).ptr;
        std::from_chars(text, end, shown);
        return of_floating(shown);
    }
    void add(Random& random, const plumb_event_field& field) {
        const std::string name = field.name;
        switch (field.type) {
        case PLUMB_FIELD_FLOAT:
            values[name] = floating(random, field);
            return;
        case PLUMB_FIELD_STRING: {
            texts_.push_back(random.text());
            put(texts_.back().c_str(), texts_.back().size() + 1);
            values[name] = of_text(texts_.back());
            return;
        }
        case PLUMB_FIELD_TEXT: {
            texts_.push_back(random.text());
            const auto count = static_cast<uint16_t>(texts_.back().size());
            put(&count, 2);
            put(texts_.back().data(), count);
            values[name] = of_text(texts_.back());
            return;
        }
        case PLUMB_FIELD_ARRAY:
        case PLUMB_FIELD_SEQUENCE: {
            uint16_t count = field.array_length;
            if (field.type == PLUMB_FIELD_SEQUENCE) {
                count = static_cast<uint16_t>(random.below(5));
                put(&count, 2);
            }
            for (uint16_t i = 0; i < count; i++)
                values[name + "[" + std::to_string(i) + "]"] = integer(random, field);
            return;
        }
        default:
            values[name] = integer(random, field);
        }
    }
    std::deque<std::string> texts_;
};

/* Mostly something that makes sense, and now and then not. */
class RandomCondition {
public:
    explicit RandomCondition(Random& random) : random_(random) {}
    std::string make() { return truth(3); }

private:
    std::string truth(unsigned depth) {
        constexpr const char* signs[] = {" == ", " != ", " < ", " <= ", " > ", " >= "};
        if (depth == 0 || random_.chance(40)) {
            if (random_.chance(30)) return text() + random_.one_of(signs) + text();
            if (random_.chance(25)) return text() + (random_.chance(70) ? " ~ " : " !~ ") + pattern();
            return number(1) + random_.one_of(signs) + number(2);
        }
        if (random_.chance(15)) return "!(" + truth(depth - 1) + ")";
        if (random_.chance(5)) return "(" + truth(depth - 1) + ")" + random_.one_of(signs) + number(1);
        return "(" + truth(depth - 1) + (random_.chance(50) ? ") && (" : ") || (") + truth(depth - 1) + ")";
    }
    std::string number(unsigned depth) {
        constexpr const char* signs[] = {" + ", " - ", " * ", " / ",  " % ",
                                         " & ", " | ", " ^ ", " << ", " >> "};
        if (depth == 0 || random_.chance(65)) {
            if (random_.chance(55)) return field();
            if (random_.chance(10)) return std::to_string(random_.below(1000)) + ".5";
            if (random_.chance(5)) return "0.1";
            return std::to_string(random_.number());
        }
        if (random_.chance(15)) return "-" + number(0);
        if (random_.chance(10)) return "~" + number(0);
        return "(" + number(depth - 1) + random_.one_of(signs) + number(depth - 1) + ")";
    }
    std::string field() {
        std::string name = "f" + std::to_string(random_.below(9));
        if (random_.chance(25)) name += "[" + std::to_string(random_.below(5)) + "]";
        return name;
    }
    std::string text() {
        if (random_.chance(60)) return field();
        if (random_.chance(10)) return "event";
        return quoted(random_.text());
    }
    std::string pattern() {
        constexpr const char* often[] = {"*",    "/api/*", "a*",   "?",      "[ab]*",  "*b",
                                         "sen?", "n[!x]w", "caf?", "shop:*", "*v[0-1]"};
        return random_.chance(85) ? quoted(random_.one_of(often)) : text();
    }
    static std::string quoted(const std::string& text) {
        std::string made = "\"";
        for (const char c : text)
            made += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        return made + "\"";
    }
    Random& random_;
};

inline ConditionValue value_by_tree(const ConditionTree& tree,
                                    const std::map<std::string, ConditionValue>& values) {
    std::vector<ConditionValue> of_node(tree.nodes.size());
    for (std::size_t i = 0; i < tree.nodes.size(); i++) {
        const ConditionNode& node = tree.nodes[i];
        switch (node.kind) {
        case ConditionKind::integer:
            of_node[i] = of_integer(node.integer);
            break;
        case ConditionKind::floating:
            of_node[i] = of_floating(node.floating);
            break;
        case ConditionKind::text:
            of_node[i] = of_text(node.text);
            break;
        case ConditionKind::field: {
            const auto known = values.find(node.field.text());
            of_node[i] = known == values.end() ? ConditionValue{} : known->second;
            break;
        }
        case ConditionKind::unary:
            of_node[i] = of_one(node.op, of_node[node.left]);
            break;
        case ConditionKind::binary:
            of_node[i] = of_two(node.op, of_node[node.left], of_node[node.right]);
        }
    }
    return of_node.back();
}

} // namespace plumb::test
