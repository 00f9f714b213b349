// cmake-once
/* How many functions of the kernel have a name. */
#include "consumerd/kernel/kernel_functions.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace plumb {
namespace {

class KernelFunctions : public testing::Test {
protected:
    KernelFunctions() { std::ofstream(file_) << symbols; }
    ~KernelFunctions() override { (void)std::remove(file_.c_str()); }
    std::size_t count(const char* name) const {
        return count_kernel_functions({"vfs_read", name}, file_).at(name);
    }

    static constexpr const char* symbols = "ffffffff81000000 T _text\n"
                                           "ffffffff81000010 T vfs_read\n"
                                           "ffffffff81000020 t show\n"
                                           "ffffffff81000030 t show\n"
                                           "ffffffff81000040 D show\n"
                                           "ffffffff81000050 W weak\n"
                                           "0000000000000000 w weaker\n"
                                           "ffffffff81000060 t vfs_readv\n"
                                           "line\n"
                                           "a b\n"
                                           "\n"
                                           "ffffffffc0000000 t show\t[one]\n"
                                           "ffffffffc0000010 t show\t[one_more]\n"
                                           "ffffffffc0000020 t own\t[one]\n"
                                           "ffffffffc0000030 t own2\tone\n";
    std::string file_ = testing::TempDir() + "/plumb_kernel_functions_test";
};

TEST_F(KernelFunctions, AreThoseOfThatVeryName) {
    EXPECT_EQ(count("vfs_read"), 1u);
    EXPECT_EQ(count("vfs_rea"), 0u);
    EXPECT_EQ(count("fs_read"), 0u);
    EXPECT_EQ(count("show"), 4u) << "data is no function";
    EXPECT_EQ(count("weak"), 1u);
    EXPECT_EQ(count("weaker"), 1u);
    EXPECT_EQ(count(""), 0u);
    EXPECT_EQ(count("_text"), 1u);
}

TEST_F(KernelFunctions, OfAModuleAreCountedThere) {
    EXPECT_EQ(count("own"), 1u);
    EXPECT_EQ(count("one:own"), 1u);
    EXPECT_EQ(count("one:show"), 1u);
    EXPECT_EQ(count("one_more:show"), 1u);
    EXPECT_EQ(count("on:show"), 0u);
    EXPECT_EQ(count("two:show"), 0u);
    EXPECT_EQ(count("one:vfs_read"), 0u);
    EXPECT_EQ(count("one:own2"), 0u);
}

TEST_F(KernelFunctions, MayNotBeKnown) {
    EXPECT_TRUE(count_kernel_functions({"vfs_read"}, "/nowhere").empty());
}

} // namespace
} // namespace plumb
