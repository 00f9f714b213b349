// cmake-once
// The picture of a call tree: every box lies on the one that called it and is as wide as its weight; names stay what they are
// where XML can have them, whatever bytes a program calls its functions by.
#include "trace/answers/call_tree.h"
#include "trace/show/flame_svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using testing::HasSubstr;

struct Node {
    std::string name;
    double weight;
    std::vector<Node> callees = {};
};
FlameNode drawn(const Node& node) {
    return {node.name, node.weight, fmt::format("{}", node.weight),
            [&node](const std::function<void(const FlameNode&)>& see) {
                for (const Node& callee : node.callees)
                    see(drawn(callee));
            }};
}

struct Box {
    std::string title, fill, text;
    double x, y, width, height;
};
std::string between(const std::string& line, const std::string& begin, const std::string& end) {
    const std::size_t at = line.find(begin);
    EXPECT_NE(at, std::string::npos) << line;
    const std::size_t first = at + begin.size();
    return line.substr(first, line.find(end, first) - first);
}
std::vector<Box> boxes(const std::string& svg) {
    std::vector<Box> found;
    std::istringstream lines(svg);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("<g class=\"f\">")) continue;
        EXPECT_EQ(std::count(line.begin(), line.end(), '<'), 7)
            << line; /* g, title, rect and text, and their ends */
        const auto number = [&](const char* name) {
            return std::stod(between(line, std::string(" ") + name + "=\"", "\""));
        };
        const std::string text = line.substr(line.find("<text "));
        found.push_back({between(line, "<title>", "</title>"), between(line, "fill=\"", "\""),
                         between(text, ">", "</text>"), number("x"), number("y"), number("width"),
                         number("height")});
    }
    return found;
}
std::vector<Box> boxes(const Node& root) {
    return boxes(flame_svg(drawn(root), {"title", "events"}));
}

TEST(FlameSvg, BoxesAreAsWideAsTheirWeightAboveTheirCaller) {
    const Node root{"all", 200, {{"main", 150, {{"run", 100}, {"work", 25}}}, {"other", 50}}};
    const std::string svg = flame_svg(drawn(root), {"title", "events"});
    const std::vector<Box> all = boxes(svg);
    ASSERT_EQ(all.size(), 5U);
    const struct {
        const char* name;
        double x, width;
        int row;
        const char* title;
    } expected[] = {{"all", 10, 1180, 0, "all (200 events, 100.00%)"},
                    {"main", 10, 885, 1, "main (150 events, 75.00%)"},
                    {"run", 10, 590, 2, "run (100 events, 50.00%)"},
                    {"work", 600, 147.5, 2, "work (25 events, 12.50%)"},
                    {"other", 895, 295, 1, "other (50 events, 25.00%)"}};
    for (std::size_t i = 0; i < all.size(); i++) {
        EXPECT_EQ(all[i].text, expected[i].name);
        EXPECT_NEAR(all[i].x, expected[i].x, 0.06) << expected[i].name;
        EXPECT_NEAR(all[i].width, expected[i].width, 0.06) << expected[i].name;
        EXPECT_EQ(all[i].y, all[0].y - 17 * expected[i].row) << expected[i].name;
        EXPECT_EQ(all[i].height, 16);
    }
    /* As high as three rows, and what stands above and below them. */
    EXPECT_THAT(svg, HasSubstr("width=\"1200\" height=\"123\" viewBox=\"0 0 1200 123\""));
    EXPECT_EQ(all[0].y, 123 - 26 - 17);
}

/* Too narrow to be seen: neither it nor what is above it, but its place stays. */
TEST(FlameSvg, WhatIsTooNarrowIsLeftOut) {
    const Node root{"all", 11800, {{"none", 0.99, {{"above", 0.99}}}, {"seen", 1.01}, {"rest", 1000}}};
    const std::vector<Box> all = boxes(root);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_THAT(all[1].title, HasSubstr("seen"));
    EXPECT_NEAR(all[2].x, 10 + 0.2, 0.06);
    EXPECT_EQ(boxes(Node{"all", 0, {{"none", 0}}}).size(), 0U) << "nothing to draw";
}

TEST(FlameSvg, IsDeepAsItsStacksUpToALimit) {
    const auto chain = [](unsigned depth) {
        Node node{"f", 1};
        for (unsigned i = 0; i < depth; i++) {
            Node caller{"f", 1};
            caller.callees.push_back(std::move(node));
            node = std::move(caller);
        }
        return node;
    };
    EXPECT_EQ(boxes(chain(100)).size(), 101U);
    const std::vector<Box> deepest = boxes(chain(1024));
    ASSERT_EQ(deepest.size(), 1025U);
    EXPECT_GE(deepest.back().y, 46);
    const std::vector<Box> more = boxes(chain(1100));
    EXPECT_EQ(more.size(), 1025U);
    EXPECT_GE(more.back().y, 46) << "below the words";
}

/* Seven points for a character; what does not fit ends with two dots, or is nothing. */
TEST(FlameSvg, NamesAreCutToTheirBox) {
    const std::string name = "function_name";
    const auto shown = [&](double width, const std::string& of) {
        return boxes(Node{"all", 1180, {{of, width}}}).at(1).text;
    };
    EXPECT_EQ(shown(6 + 7 * 13 + 0.5, name), name);
    EXPECT_EQ(shown(6 + 7 * 13 - 0.5, name), "function_n..");
    EXPECT_EQ(shown(6 + 7 * 3 + 0.5, name), "f..");
    EXPECT_EQ(shown(6 + 7 * 3 - 0.5, name), "");
    EXPECT_EQ(shown(5, name), "");
    EXPECT_EQ(shown(6 + 7 * 3 + 0.5, "ab"), "ab");
    EXPECT_EQ(shown(6 + 7 * 3 - 0.5, "ab"), "") << "not even two dots";
    const std::string wide = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                             "end"; /* 1, 2, 3 and 4 bytes */
    const std::pair<unsigned, const char*> cut[] = {
        {3, "a.."}, {4, "a.."}, {5, "a\xc3\xa4.."}, {7, "a\xc3\xa4.."}, {8, "a\xc3\xa4\xe2\x82\xac.."}};
    for (const auto& [fits, text] : cut) {
        const std::string found = shown(6 + 7 * fits + 0.5, wide);
        EXPECT_TRUE(std::string(text).starts_with(found.substr(0, found.size() - 2)) && found.ends_with(".."))
            << found;
        EXPECT_EQ(found.find('?'), std::string::npos) << "a part of a character";
    }
}

TEST(FlameSvg, ColoursAreOfTheName) {
    const std::vector<Box> all = boxes(Node{"all", 10, {{"f", 5, {{"g", 4}}}, {"g", 5}}});
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[2].fill, all[3].fill);
    EXPECT_NE(all[1].fill, all[2].fill);
    std::set<std::string> colours;
    for (int i = 0; i < 200; i++) {
        const std::string fill = boxes(Node{fmt::format("function_{}", i), 1}).at(0).fill;
        int red = 0, green = 0, blue = 0;
        ASSERT_EQ(std::sscanf(fill.c_str(), "rgb(%d,%d,%d)", &red, &green, &blue), 3) << fill;
        EXPECT_TRUE(red >= 205 && red < 255 && green >= 80 && green < 210 && blue >= 0 && blue < 60) << fill;
        colours.insert(fill);
    }
    EXPECT_GT(colours.size(), 190U);
}

std::string utf8(uint32_t code, unsigned bytes) {
    if (bytes == 1) return std::string(1, static_cast<char>(code));
    std::string made(1, static_cast<char>((0xf00u >> bytes & 0xff) | code >> 6 * (bytes - 1)));
    for (unsigned i = bytes - 1; i-- > 0;)
        made += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
    return made;
}
std::string title(const std::string& name) {
    const std::string svg = flame_svg(drawn(Node{"all", 1}), {name, "events"});
    const std::size_t begin = svg.find("bold\">") + 6;
    return svg.substr(begin, svg.find("</text>", begin) - begin);
}

/* Char of XML 1.0, but for controls; in the shortest form alone. */
TEST(FlameSvg, NamesAreTheCharactersThatXmlMayHave) {
    EXPECT_EQ(title("a<b>&\"c'd"), "a&lt;b&gt;&amp;&quot;c'd");
    const auto least_bytes = [](uint32_t code) {
        return code < 0x80 ? 1U : code < 0x800 ? 2U : code < 0x10000 ? 3U : 4U;
    };
    const auto is_char = [](uint32_t code) {
        return (code >= 0x20 && code != 0x7f && code < 0xd800) || (code >= 0xe000 && code < 0xfffe) ||
               (code >= 0x10000 && code < 0x110000);
    };
    std::vector<uint32_t> codes;
    for (const uint32_t border : {0U, 0x20U, 0x7fU, 0x80U, 0x7c0U, 0x800U, 0xd7ffU, 0xdfffU, 0xe000U, 0xfffdU,
                                  0x10000U, 0x3ffffU, 0x40000U, 0xfffffU, 0x100000U, 0x10ffffU, 0x13ffffU})
        for (uint32_t code = border < 3 ? 0 : border - 3; code < border + 4; code++)
            codes.push_back(code);
    for (const uint32_t code : codes)
        for (unsigned bytes = least_bytes(code); bytes <= 4; bytes++) {
            if (code < 0x80 && bytes == 1 &&
                std::string_view("<>&\"").find(static_cast<char>(code)) != std::string_view::npos)
                continue;
            const std::string character = utf8(code, bytes);
            const std::string shown = title("a" + character + "z");
            if (is_char(code) && bytes == least_bytes(code))
                EXPECT_EQ(shown, "a" + character + "z") << code;
            else
                EXPECT_EQ(shown, "a" + std::string(bytes, '?') + "z") << code << " in " << bytes;
            for (unsigned there = 1; there < bytes; there++)
                EXPECT_EQ(title(character.substr(0, there)), std::string(there, '?'))
                    << code << ": its end is missing";
        }
    for (int byte = 0x80; byte < 0x100; byte++)
        EXPECT_EQ(title(std::string(1, static_cast<char>(byte)) + "a"), "?a") << byte;
}

/* ---- weights ---- */

std::string weight(uint64_t whole, double real) {
    return CallWeight{whole, real}.text();
}

/* Digits that mean something, without an exponent: not all that read folded stacks know one. */
TEST(FlameWeights, AreSaidWithFifteenDigits) {
    EXPECT_EQ(weight(0, 0), "0");
    EXPECT_EQ(weight(UINT64_MAX, 0), "18446744073709551615");
    EXPECT_EQ(weight(0, 0.5), "0.5");
    EXPECT_EQ(weight(3, 0.25), "3.25");
    EXPECT_EQ(weight(0, 2), "2");
    EXPECT_EQ(weight(0, 100), "100");
    EXPECT_EQ(weight(0, 1.0 / 3), "0.333333333333333");
    EXPECT_EQ(weight(0, 1000.0 / 3), "333.333333333333");
    EXPECT_EQ(weight(0, 0.1 + 0.2), "0.3") << "a sum of a few";
    EXPECT_EQ(weight(0, 123456789012345.5), "123456789012346");
    EXPECT_EQ(weight(0, 1e-5), "0.00001");
    EXPECT_EQ(weight(0, 1e19), "10000000000000000000");
    EXPECT_EQ(weight(0, 1e-300).size(), 302U);
    EXPECT_TRUE(CallWeight({0, 0}).empty());
    EXPECT_FALSE(CallWeight({1, 0}).empty() || CallWeight({0, 0.1}).empty());
    CallWeight sum{1, 0.5};
    sum += {2, 0.25};
    EXPECT_EQ(sum.whole, 3U);
    EXPECT_EQ(sum.number(), 3.75);
}

TEST(FlameWeights, ANodeHasEachCalleeOnce) {
    CallNode node{"f"};
    CallNode& first = node.callee("g");
    EXPECT_EQ(first.name, "g");
    EXPECT_EQ(&node.callee("g"), &first);
    EXPECT_NE(&node.callee("h"), &first);
    EXPECT_EQ(node.callees.size(), 2U);
}

} // namespace
} // namespace plumb
