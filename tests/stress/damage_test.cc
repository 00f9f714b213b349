// Whatever is in the user's directory, a program with tracepoints runs on: state files and channels damaged
// in every field, before it starts and while it runs, only cost it its trace. cmake-timeout: 300
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iterator>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb::test;

namespace {

std::string state_path() {
    return user_directory() + "/" PLUMB_STATE_FILE;
}

// Runs a program of 200 events; whether it ended well within ten seconds.
testing::AssertionResult runs_well(const char* fixture = "stress_writer") {
    SharedBoard board;
    board->go = 1;
    const pid_t child = start_fixture(fixture, {board.fd(), "0", "1", "count=200"});
    int status = 0;
    for (int tries = 0; waitpid(child, &status, WNOHANG) == 0; tries++) {
        if (tries == 10'000) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return testing::AssertionFailure() << "it hangs";
        }
        usleep(1000);
    }
    if (status != 0) return testing::AssertionFailure() << "status " << status;
    if (board->writers[0].finished != 200) return testing::AssertionFailure() << "it did not do its work";
    return testing::AssertionSuccess();
}

const uint64_t damages[] = {0, UINT64_MAX, 0x8000000080000000u, 0x0000000100000001u};

class Damage : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(has_private_shm());
        remove_all();
    }
    void TearDown() override { remove_all(); }
    static void remove_all() { ASSERT_EQ(system("rm -rf /dev/shm/plumb-*"), 0); }
};

} // namespace

TEST_F(Damage, of_the_directory_leaves_programs_untraced) {
    const std::string directory = user_directory();
    const std::function<void()> damages_to_try[] = {
        [&] { chmod(directory.c_str(), 0777); },
        [&] { chmod(directory.c_str(), 0000); },
        [&] { EXPECT_EQ(symlink("/tmp", directory.c_str()), 0); },
        [&] { ::close(open(directory.c_str(), O_CREAT | O_WRONLY, 0600)); },
        [&] { EXPECT_EQ(chown(directory.c_str(), 12345, 12345), geteuid() == 0 ? 0 : -1); },
    };
    int number = 0;
    for (const auto& damage : damages_to_try) {
        remove_all();
        if (number != 2 && number != 3) user_directory();
        damage();
        EXPECT_TRUE(runs_well()) << "damage " << number;
        number++;
    }
}

TEST_F(Damage, of_the_state_files_kind_leaves_programs_untraced) {
    const std::function<void()> damages_to_try[] = {
        [] { chmod(state_path().c_str(), 0644); },
        [] { EXPECT_EQ(truncate(state_path().c_str(), 0), 0); },
        [] { EXPECT_EQ(truncate(state_path().c_str(), 4096), 0); },
        [] { EXPECT_EQ(truncate(state_path().c_str(), 1 << 24), 0); },
        [] {
            EXPECT_EQ(rename(state_path().c_str(), "/dev/shm/x"), 0);
            EXPECT_EQ(symlink("/dev/shm/x", state_path().c_str()), 0);
        },
        [] { unlink(state_path().c_str()), mkdir(state_path().c_str(), 0700); },
        [] { unlink(state_path().c_str()), mkfifo(state_path().c_str(), 0600); },
    };
    int number = 0;
    for (const auto& damage : damages_to_try) {
        remove_all();
        { TestState state; }
        damage();
        EXPECT_TRUE(runs_well()) << "damage " << number++;
    }
}

TEST_F(Damage, of_every_field_of_the_state_file_does_no_harm) {
    std::mt19937_64 random(4);
    for (uint32_t word = 0; word < sizeof(plumb_state_header) / 8; word++) {
        for (const uint64_t damage : damages) {
            remove_all();
            TestState state;
            TestChannel channel;
            state.set(0, channel.cookie(), {{"*"}});
            reinterpret_cast<uint64_t*>(&state.header())[word] = damage;
            EXPECT_TRUE(runs_well()) << "word " << word << " = " << damage;
        }
    }
    for (int round = 0; round < 40; round++) {
        remove_all();
        TestState state;
        TestChannel channel;
        state.set(0, channel.cookie(), {{"*"}});
        auto* bytes = reinterpret_cast<unsigned char*>(&state.header());
        // Rule sets and slots; sparse, so that much of them still makes sense.
        for (int i = 0; i < 2000; i++)
            bytes[4096 + random() % (PLUMB_STATE_TOTAL_BYTES - 4096)] = static_cast<unsigned char>(random());
        EXPECT_TRUE(runs_well()) << "round " << round;
    }
}

TEST_F(Damage, of_every_field_of_a_channel_does_no_harm) {
    for (uint32_t word = 0; word < sizeof(plumb_channel_header) / 8; word++) {
        for (const uint64_t damage : damages) {
            remove_all();
            TestState state;
            TestChannel channel;
            state.set(0, channel.cookie(), {{"*"}});
            auto* words = const_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(channel.base()));
            const uint64_t before = words[word];
            words[word] = damage;
            EXPECT_TRUE(runs_well()) << "word " << word << " = " << damage;
            words[word] = before; // the channel's own functions use it
        }
    }
}

// By as little as can be: each of the parts would reach behind the end of the file, or stand where none may.
TEST_F(Damage, of_where_a_channels_parts_are_leaves_programs_untraced) {
    using Header = plumb_channel_header;
    const auto rings = [](const Header& header) {
        return uint64_t{header.ring_count} + header.extra_ring_count;
    };
    const std::function<void(Header&)> damages_to_try[] = {
        [](Header& header) { header.total_bytes += 4096; },
        [](Header& header) {
            header.event_slots_offset = (header.total_bytes - 8 * header.event_slots + 64) & ~uint64_t{63};
        },
        [](Header& header) {
            header.entry_slots =
                static_cast<uint32_t>((header.total_bytes - header.entry_slots_offset) / 8 + 1);
        },
        [](Header& header) { header.heap_bytes = header.total_bytes - header.heap_offset + 1; },
        [&](Header& header) {
            header.control_offset =
                (header.total_bytes - rings(header) * PLUMB_RING_CONTROL_BYTES + 64) & ~uint64_t{63};
        },
        [](Header& header) { header.data_offset += 64; },
        [](Header& header) { header.extra_ring_count++; },
        [](Header& header) { header.entry_slots_offset += 8; },
        [](Header& header) { header.heap_offset = 64; },
    };
    TestState state;
    for (size_t i = 0; i < std::size(damages_to_try); i++) {
        TestChannel channel;
        const Header good = channel.header();
        state.set(0, channel.cookie(), {{"*"}});
        damages_to_try[i](channel.header());
        EXPECT_TRUE(runs_well()) << "damage " << i;
        EXPECT_EQ(channel.header().heap_used, good.heap_used) << "damage " << i;
        std::memcpy(&channel.header(), &good, sizeof(good));
        const std::vector<uint64_t> positions = channel.write_positions();
        EXPECT_EQ(positions, std::vector<uint64_t>(positions.size())) << "damage " << i;
    }
}

TEST_F(Damage, of_a_channels_file_leaves_programs_untraced) {
    TestState state;
    const std::function<void(const std::string&)> damages_to_try[] = {
        [](const std::string& path) { unlink(path.c_str()); },
        [](const std::string& path) { chmod(path.c_str(), 0666); },
        [](const std::string& path) { EXPECT_EQ(truncate(path.c_str(), 100), 0); },
        [](const std::string& path) { EXPECT_EQ(truncate(path.c_str(), 1 << 20), 0); },
        [](const std::string& path) { unlink(path.c_str()), mkfifo(path.c_str(), 0600); },
        // Holes in tmpfs are a bus error where no memory is left.
        [](const std::string& path) {
            const int fd = open(path.c_str(), O_RDWR);
            EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0);
            ::close(fd);
        },
    };
    // Never destroyed: the mapping may be behind its file's end by then. Reachable, so not a leak.
    static TestChannel* kept[std::size(damages_to_try)];
    int number = 0;
    for (const auto& damage : damages_to_try) {
        TestChannel* const channel = kept[number] = new TestChannel;
        state.set(0, channel->cookie(), {{"*"}});
        damage(channel->path());
        EXPECT_TRUE(runs_well()) << "damage " << number;
        if (number == 4 || number == 5) {
            const std::vector<uint64_t> positions = channel->write_positions();
            EXPECT_EQ(positions, std::vector<uint64_t>(positions.size())) << "damage " << number;
        }
        number++;
    }
}

// Another program of the user writes into everything while four threads trace.
TEST_F(Damage, while_programs_trace_does_no_harm) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "two threads that write to one ring after its owner word was damaged are a race";
#endif
    std::mt19937_64 random(5);
    for (int round = 0; round < 12; round++) {
        TestState state;
        ChannelShape shape;
        shape.mode = round % 2 == 0 ? PLUMB_MODE_DISCARD : PLUMB_MODE_OVERWRITE;
        TestChannel channel(shape);
        state.set(0, channel.cookie(), {{"stress:*"}});
        SharedBoard board;
        const pid_t child = start_fixture("stress_writer", {board.fd(), "0", "4", "signals", "churn"});
        EXPECT_TRUE(board.wait_until_ready(4));
        board->go = 1;
        const plumb_channel_header good = channel.header();
        auto* bytes = const_cast<unsigned char*>(channel.base());
        const auto any = [&] {
            return random() % 3 == 0 ? damages[random() % 4] : random() >> random() % 64;
        };
        for (int i = 0; i < 20'000; i++) {
            const uint64_t start = i % 2 == 0 ? good.control_offset : 0;
            const uint64_t end = i % 2 == 0 ? good.data_offset : good.heap_offset + 65536;
            const uint64_t at = (start + random() % (end - start)) & ~uint64_t{7};
            if (at + 8 > offsetof(plumb_channel_header, closed) &&
                at < offsetof(plumb_channel_header, data_futex))
                continue;
            const uint64_t value = any();
            memcpy(bytes + at, &value, 8);
            if (i % 50 == 0) usleep(100);
            if (i % 1000 == 0)
                state.signal_all(state.set(0, channel.cookie(), {{i % 2000 == 0 ? "*" : "x"}}));
        }
        board->stop = 1;
        int status = 0;
        int tries = 0;
        for (; waitpid(child, &status, WNOHANG) == 0 && tries < 10'000; tries++)
            usleep(1000);
        EXPECT_LT(tries, 10'000) << "it hangs";
        if (tries == 10'000) kill(child, SIGKILL);
        EXPECT_EQ(status, 0) << "round " << round;
        memcpy(bytes, &good, sizeof(good));
    }
}
