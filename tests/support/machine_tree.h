/* A folder that stands in for a machine's root, with the files of /proc and /sys that a test puts there: for what takes a `root`. */
#ifndef PLUMB_TESTS_SUPPORT_MACHINE_TREE_H
#define PLUMB_TESTS_SUPPORT_MACHINE_TREE_H

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace plumb::test {

class MachineTreeTest : public testing::Test {
protected:
    MachineTreeTest() { std::filesystem::remove_all(root_); }
    ~MachineTreeTest() override { std::filesystem::remove_all(root_); }

    void file(const std::string& path, const std::string& content) const {
        std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << content;
    }

    const std::string root_ = testing::TempDir() + "machine-tree-" + std::to_string(::getpid());
};

} // namespace plumb::test

#endif
