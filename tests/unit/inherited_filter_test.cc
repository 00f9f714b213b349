// cmake-once
/* Whether a process has a seccomp filter from the start: what /proc says, and which sessions may have it then. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/inherited_filter.cc"

namespace plumb {
namespace {

Status status_of(const std::string& text) {
    const int file = ::memfd_create("status", MFD_CLOEXEC);
    EXPECT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(::lseek(file, 0, SEEK_SET), 0);
    Status status;
    read_lines(file, status);
    ::close(file);
    return status;
}

const std::string last_line = "nonvoluntary_ctxt_switches:\t7\n";

TEST(StatusFile, IsReadLineByLine) {
    const Status status =
        status_of("Name:\tshop\nFDSize:\t256\nSeccomp:\t2\nSeccomp_filters:\t13\n" + last_line);
    EXPECT_EQ(status.descriptor_slots, 256u);
    EXPECT_EQ(status.seccomp_mode, 2u);
    EXPECT_EQ(status.filters, 13u);
    EXPECT_TRUE(status.has_last_line);
}

TEST(StatusFile, HasLinesOfAnyLength) {
    for (size_t length = 900; length < 4200; length++) {
        const Status status =
            status_of("Groups:\t" + std::string(length, '1') + "\nSeccomp:\t1\n" + last_line);
        ASSERT_EQ(status.seccomp_mode, 1u) << length;
        ASSERT_TRUE(status.has_last_line) << length;
    }
}

TEST(StatusFile, HasNoLineInAnother) {
    for (size_t length = 0; length < 1100; length++) {
        const Status status = status_of("Name:\t" + std::string(length, 'n') + "Seccomp:\t2\n" + last_line);
        ASSERT_EQ(status.seccomp_mode, UINT32_MAX) << length;
    }
    EXPECT_EQ(status_of("Seccomp:\t\n").seccomp_mode, UINT32_MAX) << "no number";
    EXPECT_EQ(status_of("Seccomp:\t2").seccomp_mode, UINT32_MAX) << "no end";
    EXPECT_FALSE(status_of("voluntary_ctxt_switches:\t7\n").has_last_line);
}

TEST(Filters, AreCounted) {
    EXPECT_EQ(filters_in(status_of("Seccomp:\t0\nSeccomp_filters:\t0\n" + last_line)), 0u);
    EXPECT_EQ(filters_in(status_of("Seccomp:\t2\nSeccomp_filters:\t3\n" + last_line)), 3u);
    EXPECT_EQ(filters_in(status_of("Seccomp:\t2\n" + last_line)), UINT32_MAX) << "an older kernel";
    EXPECT_EQ(filters_in(status_of(last_line)), 0u) << "a kernel without filters";
    EXPECT_EQ(filters_in(status_of("Name:\tshop\n")), UINT32_MAX) << "not all could be read";
    EXPECT_EQ(filters_in(status_of("")), UINT32_MAX);
}

class FilteredProcess : public testing::Test {
protected:
    void has(uint32_t filters) {
        runtime.filters_known = 1;
        runtime.filters = filters;
    }
    ~FilteredProcess() override {
        runtime.filters_known = 0;
        runtime.filters = 0;
        filters_error = 0;
    }
    plumb_session session_{};
};

TEST_F(FilteredProcess, IsOfSessionsWhoseControllerHasTheSame) {
    session_.controller_filters = 2;
    has(0);
    EXPECT_EQ(why_forbidden_by_filters(session_), 0);
    has(2);
    EXPECT_EQ(why_forbidden_by_filters(session_), 0);
    for (const uint32_t filters : {1u, 3u, UINT32_MAX}) {
        has(filters);
        EXPECT_EQ(why_forbidden_by_filters(session_), PLUMB_ERROR_FILTERED) << filters;
    }
    session_.controller_filters = UINT32_MAX;
    EXPECT_EQ(why_forbidden_by_filters(session_), PLUMB_ERROR_FILTERED) << "nobody knows how many these are";
}

TEST_F(FilteredProcess, IsOfSessionsThatInsist) {
    has(5);
    session_.flags = PLUMB_SESSION_FILTERED_TOO;
    EXPECT_EQ(why_forbidden_by_filters(session_), 0);
}

TEST_F(FilteredProcess, SaysWhyItDoesNotKnow) {
    has(UINT32_MAX);
    filters_error = EMFILE;
    EXPECT_EQ(why_forbidden_by_filters(session_), PLUMB_ERROR_FILTERS_UNKNOWN(EMFILE));
    EXPECT_FALSE(may_be_told_of_filters());
    runtime.filters_known = 0;
    EXPECT_FALSE(may_be_told_of_filters());
    filters_error = ENOENT;
    EXPECT_TRUE(may_be_told_of_filters());
}

TEST_F(FilteredProcess, AsksOnce) {
    const uint32_t filters = inherited_filters();
    EXPECT_EQ(runtime.filters_known, 1u);
    EXPECT_EQ(runtime.filters, filters);
    runtime.filters = 77;
    EXPECT_EQ(inherited_filters(), 77u);
}

} // namespace
} // namespace plumb
