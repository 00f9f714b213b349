// cmake-once
// Names that threads have got since they were told of: some at a time, all in turn, and the ended are forgotten.
#include "base/file.h"
#include "base/processes.h"
#include "consumerd/channel/thread_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace plumb;

namespace {

/* Threads of this process with names of their own, which it told as "before". */
class ThreadNamesTest : public testing::Test {
protected:
    void SetUp() override {
        const Result<std::string> executable = read_link("/proc/self/exe");
        ASSERT_TRUE(executable) << executable.error().message();
        enter_process(*executable, boottime_now_ns());
    }
    void enter_process(const std::string& executable, uint64_t boottime_ns) {
        ChannelEntry process{};
        process.type = PLUMB_ENTRY_PROCESS;
        process.process_id = own_id;
        process.path = executable;
        names_.note(process, boottime_ns);
    }
    void TearDown() override { end_threads(); }

    void start_threads(size_t count) {
        for (size_t i = 0; i < count; i++) {
            std::atomic<uint32_t> id = 0;
            threads_.emplace_back([&, i] {
                ::prctl(PR_SET_NAME, ("after-" + std::to_string(i)).c_str());
                id = static_cast<uint32_t>(::gettid());
                id.notify_all();
                end_.wait(false);
            });
            id.wait(0);
            ChannelEntry entry{};
            entry.type = PLUMB_ENTRY_THREAD;
            entry.process_id = own_id;
            entry.thread_id = id;
            entry.name = "before";
            names_.note(entry, boottime_now_ns());
            ids_.insert(id);
        }
    }
    void end_threads() {
        end_ = true;
        end_.notify_all();
        for (std::thread& thread : threads_)
            thread.join();
        threads_.clear();
    }
    /* How many rounds of so many looks it takes until all have been looked at; who was told meanwhile. */
    size_t turns(size_t looks, std::set<uint32_t>& told) {
        for (size_t count = 1;; count++) {
            const ThreadNames::Round round = names_.changed([] { return uint64_t{77}; }, looks);
            EXPECT_LE(round.changed.size(), looks);
            for (const ChannelEntry& entry : round.changed) {
                EXPECT_EQ(entry.timestamp, 77u);
                EXPECT_TRUE(entry.name.starts_with("after-")) << entry.name;
                EXPECT_TRUE(told.insert(entry.thread_id).second) << "told twice: " << entry.thread_id;
            }
            if (round.is_done || count > 1000) return count;
        }
    }

    const uint32_t own_id = static_cast<uint32_t>(::getpid());
    ThreadNames names_;
    std::set<uint32_t> ids_;

private:
    std::atomic<bool> end_ = false;
    std::vector<std::thread> threads_;
};

TEST_F(ThreadNamesTest, AreToldOnceSomeAtATime) {
    start_threads(20);
    std::set<uint32_t> told;
    EXPECT_EQ(turns(7, told), 4u) << "a look in each turn is at the process: 6 + 6 + 6 + 2";
    EXPECT_EQ(told, ids_);
    told.clear();
    turns(7, told);
    EXPECT_THAT(told, testing::IsEmpty());
}

TEST_F(ThreadNamesTest, AreAllToldAtTheEndAlsoInTheMiddleOfARound) {
    start_threads(20);
    (void)names_.changed([] { return uint64_t{77}; }, 12);
    start_threads(3);
    const ThreadNames::Round last = names_.changed([] { return uint64_t{77}; }, SIZE_MAX);
    EXPECT_TRUE(last.is_done);
    EXPECT_GE(last.changed.size(), 9u + 3u);
    std::set<uint32_t> told;
    turns(100, told);
    EXPECT_THAT(told, testing::IsEmpty());
}

TEST_F(ThreadNamesTest, AreEachDatedWhenTheyWereFound) {
    start_threads(3);
    uint64_t time = 100;
    std::vector<uint64_t> dates;
    for (const ChannelEntry& entry : names_.changed([&] { return ++time; }, SIZE_MAX).changed)
        dates.push_back(entry.timestamp);
    EXPECT_THAT(dates, testing::ElementsAre(101, 102, 103));
}

TEST_F(ThreadNamesTest, ForgetsThreadsThatHaveEnded) {
    start_threads(50);
    end_threads();
    std::set<uint32_t> told;
    turns(10, told);
    EXPECT_THAT(told, testing::IsEmpty());
    EXPECT_EQ(turns(10, told), 1u) << "nobody is left to be looked at";
}

// In a chroot it is called otherwise, its file may have been renamed, and one that is not dumpable nobody may ask.
TEST_F(ThreadNamesTest, AreToldOfAProcessThatSaidAnotherPath) {
    enter_process("/another/name", boottime_now_ns());
    start_threads(3);
    std::set<uint32_t> told;
    turns(100, told);
    EXPECT_EQ(told, ids_);
}

TEST_F(ThreadNamesTest, AreNotToldOfAnotherProcessWithTheSameId) {
    names_ = {};
    enter_process("/another/name", 1); /* before this process began */
    start_threads(3);
    std::set<uint32_t> told;
    turns(100, told);
    EXPECT_THAT(told, testing::IsEmpty());
}

TEST_F(ThreadNamesTest, AreToldOfAProcessWithTwoRuntimes) {
    start_threads(3);
    enter_process(*read_link("/proc/self/exe"), boottime_now_ns());
    std::set<uint32_t> told;
    turns(100, told);
    EXPECT_EQ(told, ids_);
}

TEST_F(ThreadNamesTest, LooksAfterSoManyAndAfterOthersOnceTheseAreGone) {
    ChannelEntry thread{};
    thread.type = PLUMB_ENTRY_THREAD;
    const auto tell = [&](uint32_t process, uint32_t id) {
        thread.process_id = process;
        thread.thread_id = id;
        names_.note(thread, boottime_now_ns());
    };
    constexpr uint32_t nobody = 5'000'000; /* beyond what process ids can be */
    for (uint32_t i = 0; i < ThreadNames::entries_max; i++)
        tell(nobody + i % 7, nobody + i);
    EXPECT_EQ(names_.size(), ThreadNames::entries_max);
    tell(nobody + 7, nobody);
    EXPECT_EQ(names_.size(), ThreadNames::entries_max);
    (void)names_.changed([] { return uint64_t{77}; }, SIZE_MAX);
    EXPECT_EQ(names_.size(), 1u) << "this process";
    start_threads(3);
    EXPECT_EQ(names_.size(), 4u);
}

} // namespace
