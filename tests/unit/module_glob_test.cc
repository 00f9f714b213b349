// cmake-once
// The patterns of plumb.ko's filters are those of all other rules.
#include "base/glob.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

using u8 = std::uint8_t;
using u32 = std::uint32_t;
#include "kmod/glob.h"

namespace plumb {
namespace {

TEST(ModuleGlob, IsThatOfRules) {
    const char* const pieces[] = {"a",   "b",        "c",    "*",    "?",        "[",
                                  "]",   "!",        "^",    "-",    "\\",       "[a",
                                  "[!a", "\xc3\xa9", "\xc3", "\xa9", "[a-c]",    "[^b]",
                                  "[]",  "**",       "[[",   "]]",   "\xf0\x9f", "\xf0\x9f\x90\x88"};
    constexpr std::size_t count = sizeof(pieces) / sizeof(pieces[0]);
    std::mt19937_64 random(3011);
    const auto text = [&](std::size_t from, std::size_t most) {
        std::string made;
        for (std::size_t left = random() % most; left != 0; left--)
            made += pieces[random() % 100 < 30 ? random() % count : random() % from];
        return made;
    };
    std::size_t matching = 0;
    for (int i = 0; i < 400'000; i++) {
        const std::string pattern = text(5, 8), whole = text(3, 8);
        const bool matches = glob_matches(pattern, whole);
        matching += matches;
        ASSERT_EQ(plumb_glob_matches(pattern.c_str(), whole.c_str()), matches) << pattern << " and " << whole;
    }
    EXPECT_GT(matching, 20'000u);
}

} // namespace
} // namespace plumb
