// Names of C++ are shown as people write them; whatever else a symbol table holds stays as it is.
#include "base/demangle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace plumb {
namespace {

using namespace std::string_view_literals;

TEST(Demangle, ShowsNamesOfCpp) {
    EXPECT_EQ(demangled("_ZN4shop4Cart3addEi"), "shop::Cart::add(int)");
    EXPECT_EQ(demangled("_ZN4shop10cart_mutexE"), "shop::cart_mutex");
    EXPECT_EQ(demangled("_ZZ4mainE4lock"), "main::lock");
    EXPECT_EQ(demangled("_ZNSt6vectorIiSaIiEE9push_backEOi"),
              "std::vector<int, std::allocator<int> >::push_back(int&&)");
}

TEST(Demangle, LeavesOthersAlone) {
    for (const std::string_view name : {""sv, "main"sv, "i"sv, "_Z"sv, "_Znosuch"sv, "_ZN4shop"sv,
                                        "__libc_start_main"sv, "_RNvCs1_4rust4main"sv, "_ZN4sh\0p"sv})
        EXPECT_EQ(demangled(name), name);
    const std::string long_one = "_ZN" + std::string(1 << 20, 'x');
    EXPECT_EQ(demangled(long_one), long_one);
}

TEST(Demangle, FindsTheNameInWhatIsMoreThanAName) {
    EXPECT_EQ(without_parameters("void shop::each<int>(char)"), "shop::each<int>");
    EXPECT_EQ(without_parameters("std::pair<int, char (*)[3]> shop::all<int>(char)"), "shop::all<int>");
    EXPECT_EQ(without_parameters("shop::Cart::operator std::string() const"),
              "shop::Cart::operator std::string");
    EXPECT_EQ(without_parameters("f(int)::{lambda(char)#1}::operator()(char) const"),
              "f(int)::{lambda(char)#1}::operator()");
    EXPECT_EQ(without_parameters("a b[c d] e(int)"), "e");
    EXPECT_EQ(without_parameters("(int)"), "(int)");
    EXPECT_EQ(without_parameters("x(int)"), "x");
    EXPECT_EQ(without_parameters(""), "");
    EXPECT_EQ(without_parameters("f(g(int), h())"), "f");
}

/* "_Z1f3xxx1aIS_S_S_E1bIS1_S1_S1_E..": each of so many levels says the one below it three times. */
std::string nested_name(int base_bytes, int levels) {
    std::string name =
        fmt::format("_Z1f{}{}", base_bytes, std::string(static_cast<std::size_t>(base_bytes), 'x'));
    for (int level = 0; level < levels; level++) {
        const int below = 2 * level - 1; /* S_ is the first, S0_ the second */
        const std::string it = below < 0    ? "S_"
                               : below < 10 ? fmt::format("S{}_", below)
                                            : fmt::format("S{}_", static_cast<char>('A' + below - 10));
        name += fmt::format("1{}I{}{}{}E", static_cast<char>('a' + level), it, it, it);
    }
    return name;
}

TEST(Demangle, MakesNoGigabytesOfAShortName) {
    constexpr std::size_t bytes_max = std::size_t{256} << 20;
    EXPECT_EQ(demangled(nested_name(3, 2)),
              "f(xxx, a<xxx, xxx, xxx>, b<a<xxx, xxx, xxx>, a<xxx, xxx, xxx>, a<xxx, xxx, xxx> >)");
    for (const int base_bytes : {1, 10, 100, 300, 800})
        for (const int levels : {5, 9, 11, 12, 13})
            EXPECT_LT(demangled(nested_name(base_bytes, levels)).size(), bytes_max)
                << base_bytes << " " << levels;
    EXPECT_GT(demangled(nested_name(10, 9)).size(), 100'000u) << "much is not too much";
}

} // namespace
} // namespace plumb
