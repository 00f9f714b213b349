// cmake-once
// The journal of a drain: what it says after a kill, and what of it is not believed.
#include "consumerd/drain/drain_journal.h"
#include "consumerd/drain/left_trace.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace plumb::test {
namespace {

class DrainJournalTest : public testing::Test {
protected:
    DrainJournalTest() {
        char name[] = "/tmp/plumb-journal-XXXXXX";
        directory = ::mkdtemp(name);
        path = directory + "/.journal";
        shape.cookie = 17;
        shape.ring_count = 2;
        shape.extra_ring_count = 1;
        shape.folder = "ust";
    }
    ~DrainJournalTest() override { std::filesystem::remove_all(directory); }

    std::unique_ptr<DrainJournal> make() {
        auto made = DrainJournal::create(path, shape);
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    std::unique_ptr<DrainJournal> open() {
        auto opened = DrainJournal::open(path);
        EXPECT_TRUE(opened) << opened.error().message();
        return std::move(*opened);
    }
    int error_of_open() {
        const auto opened = DrainJournal::open(path);
        return opened ? 0 : opened.error().number();
    }
    static JournalRing at(uint64_t chunk, uint64_t position, uint64_t bytes) {
        JournalRing state;
        state.chunk = chunk;
        state.position = position;
        state.stream.bytes = bytes;
        state.stream.packets = 1;
        state.events = 3;
        return state;
    }
    void write_at(uint64_t offset, uint64_t word) {
        const int fd = ::open(path.c_str(), O_WRONLY);
        EXPECT_EQ(::pwrite(fd, &word, sizeof(word), static_cast<off_t>(offset)), 8);
        ::close(fd);
    }

    std::string directory, path;
    JournalShape shape;
};

TEST_F(DrainJournalTest, says_what_was_settled_last) {
    {
        const auto journal = make();
        ASSERT_TRUE(journal->enter_chunk("one", {}, 100));
        journal->settle(1, at(1, 64, 4096));
        journal->settle(1, at(1, 128, 8192));
        journal->settle_statedump({80, 1});
    }
    const auto journal = open();
    EXPECT_EQ(journal->shape().cookie, 17u);
    EXPECT_EQ(journal->current().folder_name(), "one");
    EXPECT_EQ(journal->current().began, 100u);
    EXPECT_EQ(journal->previous().number, 0u);
    EXPECT_EQ(journal->ring(1).position, 128u);
    EXPECT_EQ(journal->ring(1).stream.bytes, 8192u);
    EXPECT_EQ(journal->ring(0).position, 0u);
    EXPECT_EQ(journal->ended_current(200).bytes, 8192u + 80u);
}

TEST_F(DrainJournalTest, keeps_what_the_chunk_before_came_to) {
    {
        const auto journal = make();
        ASSERT_TRUE(journal->enter_chunk("one", {}, 100));
        JournalRing state = at(1, 128, 8192);
        state.events_lost = 5;
        state.losses.lost[PLUMB_LOST_FULL] = 5;
        journal->settle(1, state);
        ASSERT_TRUE(journal->enter_chunk("two", {}, 200));
        journal->settle(0, at(2, 64, 4096));
    }
    const auto journal = open();
    const DrainTotals before = journal->previous().totals(false);
    EXPECT_EQ(before.progress.events, 3u);
    EXPECT_EQ(before.progress.events_discarded, 5u);
    ASSERT_EQ(before.events_lost.size(), 1u);
    EXPECT_EQ(before.events_lost[0].name, "full");
    const JournalChunk now = journal->ended_current(300);
    EXPECT_EQ(now.bytes, 4096u) << "what is said of a ring is of the chunk that it names";
    EXPECT_EQ(now.events_lost, 0u);
    EXPECT_EQ(journal->ring(1).position, 128u) << "its position holds on";
}

TEST_F(DrainJournalTest, is_of_one_drain_at_a_time) {
    auto journal = make();
    EXPECT_EQ(error_of_open(), EBUSY);
    journal.reset();
    EXPECT_EQ(error_of_open(), 0);
}

TEST_F(DrainJournalTest, names_no_folder_but_those_beside_it) {
    const auto journal = make();
    for (const char* const name : {"", ".", "..", "../elsewhere", "/etc", "a/b", ".hidden"})
        EXPECT_FALSE(journal->enter_chunk(name, {}, 1)) << name;
    EXPECT_EQ(journal->current().number, 0u);
}

TEST_F(DrainJournalTest, is_not_believed_if_it_is_damaged) {
    EXPECT_EQ(error_of_open(), ENOENT);
    make();
    const auto bytes = std::filesystem::file_size(path);
    write_at(0, 1);
    EXPECT_EQ(error_of_open(), EBADMSG) << "its magic number";
    make();
    write_at(8, 0xffffffff00000001);
    EXPECT_EQ(error_of_open(), EBADMSG) << "how many rings it has";
    make();
    std::filesystem::resize_file(path, bytes - 1);
    EXPECT_EQ(error_of_open(), EBADMSG) << "its size";
    make()->settle(0, at(0, 12, 0));
    EXPECT_EQ(error_of_open(), EBADMSG) << "a position where no record is";
    std::filesystem::remove(path);
    ASSERT_EQ(::symlink("/etc/passwd", path.c_str()), 0);
    EXPECT_NE(error_of_open(), 0) << "a link";
}

TEST_F(DrainJournalTest, a_file_that_somebody_shortened_or_replaced_is_told_and_left) {
    {
        const auto journal = make();
        ASSERT_TRUE(journal->enter_chunk("one", {}, 100));
        journal->settle(0, at(1, 128, 8192));
        journal->settle(1, at(1, 128, 8192));
    }
    const std::string folder = directory + "/one/ust";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/ring_0") << "short";
    std::ofstream(directory + "/precious") << std::string(10000, 'x');
    std::filesystem::create_symlink(directory + "/precious", folder + "/ring_1");
    const auto left = close_left_trace(path);
    ASSERT_TRUE(left) << left.error().message();
    ASSERT_EQ(left->chunks.size(), 1u);
    EXPECT_GE(left->chunks[0].problems.size(), 2u);
    EXPECT_EQ(std::filesystem::file_size(directory + "/precious"), 10000u);
}

} // namespace
} // namespace plumb::test
