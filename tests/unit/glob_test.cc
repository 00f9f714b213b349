// cmake-once
// The pattern language: what matches, and what would match nothing for a reason that its writer did not mean.
#include "base/glob.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace plumb {
namespace {

TEST(Glob, MatchesWholeNames) {
    EXPECT_TRUE(glob_matches("shop:*", "shop:order"));
    EXPECT_FALSE(glob_matches("shop", "shop:order"));
    EXPECT_TRUE(glob_matches("a?c", "abc"));
    EXPECT_TRUE(glob_matches("[a-c]x", "bx"));
    EXPECT_FALSE(glob_matches("[!a-c]x", "bx"));
    EXPECT_TRUE(glob_matches("\\*", "*"));
    EXPECT_FALSE(glob_matches("\\*", "a"));
}

/* "\xc3\xa9" is an e with an accent, "\xf0\x9f\x90\x88" a cat. */
TEST(Glob, TakesCharactersAndNotBytes) {
    EXPECT_TRUE(glob_matches("?t?", "\xc3\xa9t\xc3\xa9"));
    EXPECT_TRUE(glob_matches("[\xc3\xa9\x61]t*", "\xc3\xa9t\xc3\xa9"));
    EXPECT_FALSE(glob_matches("[\xc3\xa9]", "\xc3"));
    EXPECT_FALSE(glob_matches("[\xc3\xa9]", "\xc3\xa8")) << "which begins alike";
    EXPECT_TRUE(glob_matches("[!a-z]", "\xf0\x9f\x90\x88"));
    EXPECT_TRUE(glob_matches("[\xc3\xa0-\xc3\xbf]", "\xc3\xa9"));
    EXPECT_FALSE(glob_matches("[\xc3\xa0-\xc3\xbf]", "\xc2\xa9"));
    EXPECT_FALSE(glob_matches("??", "\xc3\xa9"));
    EXPECT_TRUE(glob_matches("*?", "\xc3\xa9"));
    EXPECT_FALSE(glob_matches("*[\xa9]", "\xc3\xa9")) << "no part of a character";
    EXPECT_TRUE(glob_matches("\\\xc3\xa9", "\xc3\xa9"));
}

TEST(Glob, TakesBytesThatAreNoUtf8OneByOne) {
    EXPECT_TRUE(glob_matches("?", "\xa9"));
    EXPECT_TRUE(glob_matches("??", "\xc3\xff"));
    EXPECT_TRUE(glob_matches("?x", "\xe2x"));
    EXPECT_TRUE(glob_matches("[\xff]", "\xff"));
    EXPECT_FALSE(glob_matches("[\xe9]", "\xc3\xa9")) << "the character of that number";
    EXPECT_TRUE(glob_matches("a\xc3", "a\xc3"));
}

TEST(Glob, IsQuickWhateverThePattern) {
    std::string pattern;
    for (int i = 0; i < 60; i++)
        pattern += "*[a\xc3\xa9]";
    pattern += "b";
    const std::string text(100'000, 'a');
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(glob_matches(pattern, text));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Glob, FindsMistakesWhereverTheyStand) {
    for (const char* const wrong : {"",
                                    "\\",
                                    "[",
                                    "[]",
                                    "[!",
                                    "[!]",
                                    "[^]",
                                    "a[",
                                    "ab[c",
                                    "abc\\",
                                    "[a]b[",
                                    "\\[a[",
                                    "[[:alpha:]]",
                                    "shop:[[:alpha:]]rder",
                                    "[![:digit:]]",
                                    "[a[.b.]]",
                                    "[[=a=]]",
                                    "[\\]]",
                                    "[a\\-z]",
                                    "[z-a]",
                                    "shop:[a-cz-x]",
                                    "[\xc3\xa9-\xc3\xa0]"})
        EXPECT_NE(glob_mistake(wrong), nullptr) << wrong;
}

TEST(Glob, FindsNoneInSoundPatterns) {
    for (const char* const sound :
         {"*", "a",       "\\\\", "\\[",  "[]]",  "[!]]", "[^]a]",  "[a]",  "a[b]", "x[!y]z",
          "]", "[a]b[c]", "[[]",  "[:a]", "[a:]", "[.]",  "[a-z-]", "[-a]", "[a-]", "[!-a]"})
        EXPECT_EQ(glob_mistake(sound), nullptr) << sound;
}

} // namespace
} // namespace plumb
