// How a condition over fields is read: what binds what, what numbers and texts are, where a mistake is, and that no text
// is too odd to be read.
#include "base/condition_parser.h"

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

/* What is wrong, and at which column. */
TEST(ConditionParser, SaysWhatIsWrongAndWhere) {
    const struct {
        const char* text;
        const char* what;
        std::size_t column;
    } cases[] = {
        {"a b", "there is no operation here", 2},
        {"a )", "there is no operation here", 2},
        {"a = 5", "there is no operation here: == is one", 2},
        {"b && (a=5)", "there is no operation here: == is one", 7},
        {"a and b", "there is no operation here: && is one", 2},
        {"(a or(b))", "there is no operation here: || is one", 3},
        {"a orb", "there is no operation here", 2},
        {"(a", "this parenthesis is not closed", 0},
        {"b + (a b)", "this parenthesis is not closed", 4},
        {"()", "this is no field, number or text in quotation marks", 1},
        {"a +", "something is missing here", 3},
        {"a + ]", "this is no field, number or text in quotation marks", 4},
        {"a == b == c", "comparisons do not follow each other: join them by &&", 7},
        {"a < b ~ c", "comparisons do not follow each other: join them by &&", 6},
        {"a == 'x", "this text has no end", 5},
        {"a == \"x'", "this text has no end", 5},
        {"a == 'x\\", "nothing is quoted by this", 7},
        {"a == '\\x1'", "two hexadecimal digits follow \\x", 6},
        {"a == '\\x1g'", "two hexadecimal digits follow \\x", 6},
        {"a == '\\x", "two hexadecimal digits follow \\x", 6},
        {"a == '\\q'", "a text has no such escape: a backslash itself is written \\\\", 6},
        {"a == 18446744073709551616", "no number has more than 64 bits", 5},
        {"a == 0x10000000000000000", "no number has more than 64 bits", 5},
        {"a == 02000000000000000000000", "no number has more than 64 bits", 5},
        {"a == 0x", "this number has no digits", 5},
        {"a == 0b2", "this number has no digits", 5},
        {"a == 0xg", "this number has no digits", 5},
        {"a == 1e999", "this is no number", 5},
        {"a == 08", "a number that begins with 0 is octal, and has no such digit", 6},
        {"a == 0789", "a number that begins with 0 is octal, and has no such digit", 7},
        {"a == 01.5", "a number that begins with 0 is octal, and has no such digit", 7},
        {"a == 5ms", "a number has no such digit, and no unit", 6},
        {"a == 0x5g", "a number has no such digit, and no unit", 8},
        {"a == 0b12", "a number has no such digit, and no unit", 8},
        {"a == 1.5.5", "a number has no such digit, and no unit", 8},
        {"a == 1.5x", "a number has no such digit, and no unit", 8},
        {"a == 0x1.5", "a number has no such digit, and no unit", 8},
        {"a.", "the name of a part is missing", 2},
        {"a.5", "the name of a part is missing", 2},
        {"a..b", "the name of a part is missing", 2},
        {"a[]", "an element has a number in brackets: [0]", 1},
        {"a[b]", "an element has a number in brackets: [0]", 1},
        {"a[-1]", "an element has a number in brackets: [0]", 1},
        {"a[1", "an element has a number in brackets: [0]", 1},
        {"a[1 ]", "an element has a number in brackets: [0]", 1},
        {"a[18446744073709551616]", "an element has a number in brackets: [0]", 1},
        {"a[1].b", "there is no operation here", 4},
    };
    for (const auto& [text, what, column] : cases)
        EXPECT_EQ(shape(text),
                  std::string(what) + ":\n    " + text + "\n    " + std::string(column, ' ') + "^");
    EXPECT_EQ(shape("a\n\t&& \xc3\xa4"),
              "this is no field, number or text in quotation marks:\n    a  && \xc3\xa4\n          ^");
    EXPECT_EQ(shape(" \t\n"), "The condition is empty.");
}

TEST(ConditionParser, ReadsTheWidestThereIs) {
    EXPECT_EQ(shape("0xffffffffffffffff"), "18446744073709551615");
    EXPECT_EQ(shape("0XAbCdEf"), "11259375");
    EXPECT_EQ(shape("a[18446744073709551615]"), "a[18446744073709551615]");
    EXPECT_EQ(shape("1e3 + 1E3 + 2.5E-1"), "((1000.000000+1000.000000)+0.250000)");
    EXPECT_EQ(shape("azAZ_09.azAZ_09"), "azAZ_09.azAZ_09");
    EXPECT_EQ(shape("\ta\n==\t1 \n"), "(a==1)");
    EXPECT_EQ(shape("a==b&&c==d"), "((a==b)&&(c==d))");
    EXPECT_EQ(shape("(a == b) == c"), "((a==b)==c)");
    EXPECT_EQ(shape("a ~ '\\x2a\\x3f\\x5b\\x5c\\x61'"), "(a~'\\*\\?\\[\\\\a')");
    EXPECT_EQ(shape("a == '\\x2a\\xfF'"), "(a=='*\xff')");
    EXPECT_EQ(shape("(a ~ 'x') == ('\\\\')"), "((a~'x')=='\\')") << "no pattern any more";
}

TEST(ConditionParser, BoundsWhatItReads) {
    const auto nested = [](int depth) {
        return std::string(static_cast<std::size_t>(depth), '(') + "a" +
               std::string(static_cast<std::size_t>(depth), ')');
    };
    EXPECT_EQ(shape(nested(199)), "a");
    EXPECT_TRUE(shape(nested(200)).starts_with("this is nested too deeply:"));
    EXPECT_TRUE(shape(std::string(200, '!') + "a").starts_with("this is nested too deeply:"));
    EXPECT_EQ(shape(std::string(199, '!') + "a"), std::string(199, '!') + "a");
    std::string long_one = "a", one_more = "!a";
    for (int i = 0; i < 2047; i++)
        long_one += "+a", one_more += "+a";
    EXPECT_TRUE(parse_condition(long_one));
    const auto tree = parse_condition(one_more);
    ASSERT_TRUE(tree);
    EXPECT_EQ(tree->nodes.size(), 4096u);
    EXPECT_TRUE(shape("!" + one_more).starts_with("the condition is too long:"));
}

TEST(ConditionParser, KnowsTextsThatLookLikePatterns) {
    const auto lines = [](std::string_view text) { return texts_like_patterns(*parse_condition(text)); };
    EXPECT_EQ(
        lines(R"(path == "/api/*" && ("*" != comm || size == 3))"),
        (std::vector<std::string>{R"(== takes the star in "/api/*" for itself: ~ compares with a pattern)",
                                  R"(!= takes the star in "*" for itself: !~ compares with a pattern)"}));
    EXPECT_TRUE(lines(R"(path ~ "/api/*" && path == "/api/?" && a * b == 4 && path < "*")").empty());
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
