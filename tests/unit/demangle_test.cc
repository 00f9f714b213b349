// Names of C++ are shown as people write them; whatever else a symbol table holds stays as it is.
#include "base/demangle.h"

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

} // namespace
} // namespace plumb
