// cmake-once
// The pattern language: what matches, and what would match nothing for a reason that its writer did not mean.
#include "base/glob.h"

#include <gtest/gtest.h>

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
                                    "shop:[a-cz-x]"})
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
