// How a condition over fields is read: what binds what, what numbers and texts are, where a mistake is, and that no text
// is too odd to be read.
#include "trace/show/condition_parser.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace plumb {
namespace {

constexpr const char* names[] = {"",  "||", "&&", "==", "!=", "<", "<=", ">", ">=", "~", "!~", "|",
                                 "^", "&",  "<<", ">>", "+",  "-", "*",  "/", "%",  "!", "-",  "~"};

/* With every parenthesis. */
std::string shape(const ConditionTree& tree, uint32_t place) {
    const ConditionNode& node = tree.nodes[place];
    switch (node.kind) {
    case ConditionKind::integer:
        return std::to_string(static_cast<uint64_t>(node.integer));
    case ConditionKind::floating:
        return std::to_string(node.floating);
    case ConditionKind::text:
        return "'" + node.text + "'";
    case ConditionKind::field:
        return node.field.text();
    case ConditionKind::unary:
        return names[static_cast<int>(node.op)] + shape(tree, node.left);
    default:
        return "(" + shape(tree, node.left) + names[static_cast<int>(node.op)] + shape(tree, node.right) +
               ")";
    }
}

std::string shape(std::string_view text) {
    const auto tree = parse_condition(text);
    return tree ? shape(*tree, static_cast<uint32_t>(tree->nodes.size() - 1)) : tree.error().message();
}

/* By how tight they bind. Comparisons of one level can not follow each other. */
TEST(ConditionParser, BindsEachOperatorAsTight) {
    const std::vector<std::vector<std::string>> levels = {
        {"||"},     {"&&"},         {"==", "!=", "<", "<=", ">", ">="}, {"|"}, {"^"}, {"&"}, {"<<", ">>"},
        {"+", "-"}, {"*", "/", "%"}};
    for (size_t level = 0; level < levels.size(); level++)
        for (const std::string& one : levels[level]) {
            for (size_t tighter = level + 1; tighter < levels.size(); tighter++)
                for (const std::string& other : levels[tighter]) {
                    EXPECT_EQ(shape("a " + one + " b " + other + " c"), "(a" + one + "(b" + other + "c))");
                    EXPECT_EQ(shape("a " + other + " b " + one + " c"), "((a" + other + "b)" + one + "c)");
                }
            for (const std::string& other : levels[level])
                if (level != 2) {
                    EXPECT_EQ(shape("a " + one + " b " + other + " c"), "((a" + one + "b)" + other + "c)");
                } else {
                    EXPECT_FALSE(shape("a " + one + " b " + other + " c").starts_with("(")) << one << other;
                }
        }
    for (const std::string match : {"~", "=~", "!~"})
        EXPECT_EQ(shape("a && b " + match + " 'x' || c"),
                  "((a&&(b" + (match == "=~" ? "~" : match) + "'x'))||c)");
}

TEST(ConditionParser, BindsAsOneMeansIt) {
    EXPECT_EQ(shape("a || b && c == d | e ^ f & g << h + i * -j"),
              "(a||(b&&(c==(d|(e^(f&(g<<(h+(i*-j)))))))))");
    EXPECT_EQ(shape("i*j+h<<g&f^e|d==c&&b||a"), "(((((((((i*j)+h)<<g)&f)^e)|d)==c)&&b)||a)");
    EXPECT_EQ(shape("a - b - c"), "((a-b)-c)");
    EXPECT_EQ(shape("a - (b - c)"), "(a-(b-c))");
    EXPECT_EQ(shape("flags & 0x40 == 0"), "((flags&64)==0)");
    EXPECT_EQ(shape("!a == b"), "(!a==b)");
    EXPECT_EQ(shape("!!a"), "!!a");
    EXPECT_EQ(shape("a ~ 'x' && b !~ \"y\""), "((a~'x')&&(b!~'y'))");
    EXPECT_EQ(shape("a & ~b"), "(a&~b)");
}

TEST(ConditionParser, ReadsNumbersTextsAndFields) {
    EXPECT_EQ(shape("18446744073709551615"), "18446744073709551615");
    EXPECT_EQ(shape("0xFf"), "255");
    EXPECT_EQ(shape("0b101"), "5");
    EXPECT_EQ(shape("1.5e3"), "1500.000000");
    EXPECT_EQ(shape("mode == 0644"), "(mode==420)");
    EXPECT_EQ(shape("0 + 00 + 01777777777777777777777"), "((0+0)+18446744073709551615)");
    EXPECT_EQ(shape("0.5"), "0.500000");
    EXPECT_EQ(shape("a.b.c[12]"), "a.b.c[12]");
    EXPECT_EQ(shape("_a1"), "_a1");
}

/* As view prints it. */
TEST(ConditionParser, UndoesEscapes) {
    EXPECT_EQ(shape(R"(a == "a\"\'\n\r\t\x41\\*\x1b")"), "(a=='a\"'\n\r\tA\\*\x1b')");
    EXPECT_EQ(shape(R"(a == '\\\\\x5c')"), R"((a=='\\\'))");
    EXPECT_EQ(
        shape(R"(a == "\*")"),
        "a text has no such escape: a backslash itself is written \\\\:\n    a == \"\\*\"\n          ^");
    EXPECT_TRUE(shape(R"(a == "C:\dir")").starts_with("a text has no such escape"));
    EXPECT_TRUE(shape(R"(a == "\x4")").starts_with("two hexadecimal digits"));
}

/* A glob quotes by the backslash, too. */
TEST(ConditionParser, LeavesTheBackslashToAGlob) {
    EXPECT_EQ(shape(R"(a ~ "\*\\\[\n\x41\x2a*")"), "(a~'\\*\\\\\\[\nA\\**')");
    EXPECT_EQ(shape(R"(a !~ ('\?') && b == "\\")"), R"(((a!~'\?')&&(b=='\')))");
    EXPECT_TRUE(shape(R"(a ~ "\*" && b == "\*")").starts_with("a text has no such escape"));
}

TEST(ConditionParser, PointsAtMistakes) {
    EXPECT_TRUE(shape("a == 08").ends_with("a == 08\n          ^")) << shape("a == 08");
    EXPECT_TRUE(shape("07.5").starts_with("a number that begins with 0 is octal"));
    EXPECT_EQ(shape("a == "), "something is missing here:\n    a == \n         ^");
    EXPECT_EQ(shape("gr\xc3\xbcn"), "there is no operation here:\n    gr\xc3\xbcn\n      ^");
    EXPECT_EQ(shape("'\xc3\xbc' == #"),
              "this is no field, number or text in quotation marks:\n    '\xc3\xbc' == #\n           ^");
    EXPECT_NE(shape(""), "");
    EXPECT_NE(shape("  "), "");
}

TEST(ConditionParser, ReadsWhateverThereIs) {
    constexpr std::string_view pieces[] = {
        "a",  "a.b", "[3]", "(",  ")",  "||", "&&", "==", "~", "!", "-", "0x",
        "1e", "9",   "\"",  "\\", "\n", " ",  "'",  ".",  "[", "]", "^", "\xff"};
    std::mt19937 chance(1);
    for (int i = 0; i < 20000; i++) {
        std::string text;
        for (auto left = chance() % 30; left > 0; left--)
            text += pieces[chance() % std::size(pieces)];
        const auto tree = parse_condition(text);
        if (!tree) {
            EXPECT_TRUE(tree.error().message().ends_with('^') ||
                        tree.error().message().ends_with("is empty."))
                << text;
            continue;
        }
        /* Operands stand before what is made of them. */
        for (uint32_t at = 0; at < tree->nodes.size(); at++)
            if (tree->nodes[at].kind == ConditionKind::binary) {
                EXPECT_LT(tree->nodes[at].left, at);
                EXPECT_LT(tree->nodes[at].right, at);
            }
    }
}

} // namespace
} // namespace plumb
