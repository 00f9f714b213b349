/*
 * Dumps of memory as files, which only the test has.
 */
#ifndef PLUMB_TESTS_SUPPORT_DUMP_FILE_H
#define PLUMB_TESTS_SUPPORT_DUMP_FILE_H

#include "consumerd/dump/memory_dump.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

namespace plumb::test {

inline FileDescriptor file_of(std::span<const std::byte> content) {
    FileDescriptor file(::memfd_create("dump", MFD_CLOEXEC));
    EXPECT_EQ(::pwrite(file.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    return file;
}

inline Result<MemoryDump> dump_of(std::span<const std::byte> content) {
    return MemoryDump::open(file_of(content), "dump");
}

/* Why it is none; nothing if it is one. */
inline std::string complaint_of(std::span<const std::byte> content) {
    const auto dump = dump_of(content);
    return dump ? "" : dump.error().message();
}

} // namespace plumb::test

#endif
