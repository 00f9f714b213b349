// cmake-once
// A program that exec()s may leave its slot behind: its next image takes another one if that is nearer to where it looks
// first. Of two slots of one process with different images the older one is nobody's: it is freed, and never signalled.
#include "base/processes.h"
#include "consumerd/control/quiescence.h"
#include "consumerd/control/state.h"
#include "tests/support/claims.h"
#include "tests/support/scratch_shm.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace plumb;
using plumb::test::ScratchShm;

namespace {

constexpr std::uint32_t ready = PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC;

class LeftByExec : public ::testing::Test {
protected:
    LeftByExec() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    void SetUp() override {
        ASSERT_TRUE(directory_) << directory_.error().message();
        Result<StateFile> opened = StateFile::open_or_create(*directory_);
        ASSERT_TRUE(opened) << opened.error().message();
        state_.emplace(std::move(*opened));
        const int fd = ::open(directory_->path_of_file("state").c_str(), O_RDWR | O_CLOEXEC);
        raw_ = ::mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ::close(fd);
        ASSERT_NE(raw_, MAP_FAILED);
    }
    void TearDown() override { ::munmap(raw_, PLUMB_STATE_TOTAL_BYTES); }

    plumb_process& slot(std::uint32_t index) {
        auto* base = static_cast<std::byte*>(raw_) + PLUMB_STATE_PROCESSES_OFFSET;
        return reinterpret_cast<plumb_process*>(base)[index];
    }
    /* As this process, which began `age_ns` ago as the program `image`. */
    void claim(std::uint32_t index, std::uint32_t image, std::uint64_t age_ns) {
        const std::uint64_t claim = test::claim_here(static_cast<std::uint32_t>(::getpid()), index);
        slot(index) = {};
        slot(index).registered_boottime_ns = boottime_now_ns() - age_ns;
        slot(index).flags = PLUMB_FLAGS(claim, ready);
        slot(index).image = image;
        slot(index).signal_number = SIGURG; /* which this process ignores */
        slot(index).claim = claim;
    }
    std::uint64_t publish() {
        const auto generation = state_->edit([](plumb_rule_set&) { return ok(); });
        return generation ? *generation : 0;
    }

    ScratchShm scratch_;
    Result<UserDirectory> directory_;
    std::optional<StateFile> state_;
    void* raw_ = nullptr;
};

TEST_F(LeftByExec, the_older_slot_is_freed_and_not_signalled) {
    claim(7, 1, 2000);
    claim(3, 2, 1000);
    const std::uint64_t generation = publish();
    slot(3).acknowledged = generation;
    QuiescenceOptions options;
    options.timeout_ns = 2'000'000'000;
    const auto report = wait_until_quiescent(*state_, generation, options);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->complete());
    EXPECT_EQ(slot(7).claim, 0u);
    EXPECT_EQ(slot(7).unanswered, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

TEST_F(LeftByExec, a_clean_up_frees_it_too) {
    claim(7, 1, 2000);
    claim(3, 2, 1000);
    const auto removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 1u);
    EXPECT_EQ(slot(7).claim, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

TEST_F(LeftByExec, two_runtimes_of_one_program_keep_theirs) {
    claim(7, 1, 2000);
    claim(3, 1, 1000);
    const auto removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 0u);
    EXPECT_NE(slot(7).claim, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

} // namespace
