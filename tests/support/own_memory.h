/*
 * How much memory the test has taken.
 */
#ifndef PLUMB_TESTS_SUPPORT_OWN_MEMORY_H
#define PLUMB_TESTS_SUPPORT_OWN_MEMORY_H

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace plumb::test {

/* By the pages that are there. */
inline std::uint64_t own_memory_bytes() {
    std::ifstream status("/proc/self/statm");
    std::uint64_t all_pages = 0, pages = 0;
    status >> all_pages >> pages;
    return pages * static_cast<std::uint64_t>(::getpagesize());
}

} // namespace plumb::test

#endif
