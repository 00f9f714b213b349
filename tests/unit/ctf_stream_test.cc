// cmake-once
/* What a stream file promises to readers: whole packets, whenever its writer is killed. */
#include "base/ctf_layout.h"
#include "consumerd/sink/ctf_stream.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace plumb {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t large_bytes = 16 * page_bytes;

class CtfStreamTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-stream-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    static CtfPacketStart start() {
        CtfPacketStart start{};
        start.header.magic = ctf_magic;
        return start;
    }
    std::string bytes() const {
        std::ifstream file(root_ + "/ring_0");
        return {std::istreambuf_iterator<char>(file), {}};
    }
    CtfPacketContext packet_at(size_t place) const {
        CtfPacketStart packet{};
        const std::string all = bytes();
        if (all.size() >= place + ctf_content_bytes(ctf_start_bytes))
            std::memcpy(&packet, all.data() + place, ctf_content_bytes(ctf_start_bytes));
        return packet.context;
    }
    /* Content of each packet; -1 at the end where the file ends within one, or one that is not aligned to 8 bytes. */
    std::vector<int64_t> contents() const {
        const std::string all = bytes();
        std::vector<int64_t> found;
        for (size_t at = 0; at < all.size();) {
            CtfPacketStart packet{};
            if (all.size() - at >= sizeof packet) std::memcpy(&packet, all.data() + at, sizeof packet);
            const size_t packet_bytes = packet.context.packet_size / 8;
            const bool is_whole =
                packet.header.magic == ctf_magic && packet_bytes % 8 == 0 && packet_bytes <= all.size() - at;
            found.push_back(is_whole ? static_cast<int64_t>(packet.context.content_size / 8) : -1);
            if (!is_whole) break;
            at += packet_bytes;
        }
        return found;
    }
    /* Half of its pages can not be read, so the write of it ends in between. */
    static std::span<const std::byte> half_records() {
        void* const memory = mmap(nullptr, large_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return {};
        mprotect(static_cast<char*>(memory) + large_bytes / 2, large_bytes / 2, PROT_NONE);
        return {static_cast<const std::byte*>(memory), large_bytes};
    }

    std::string root_;
};

/* Whoever makes a file so long is killed. */
bool kill_at_truncation_to(uint32_t length) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, length, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(CtfStreamTest, HasWholePacketsWhenItsWriterIsKilledInTheMiddleOfOne) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit none{};
        setrlimit(RLIMIT_CORE, &none);
        auto folder = Folder::open(root_);
        if (!folder) _exit(1);
        CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
        const std::array<std::byte, 24> few{};
        if (!stream.write({few, 1, 2, 0, 0})) _exit(2);
        /* Instead of tidying up. */
        if (!kill_at_truncation_to(static_cast<uint32_t>(stream.bytes()))) _exit(77);
        _exit(stream.write({half_records(), 3, 4, 0, 0}) ? 3 : 4);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no filter can be installed here";
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    constexpr auto empty = static_cast<int64_t>(ctf_content_bytes(ctf_start_bytes));
    constexpr auto one = static_cast<int64_t>(ctf_start_bytes + 24);
    EXPECT_EQ(contents(), (std::vector<int64_t>{one, empty}));
    EXPECT_GT(bytes().size(), large_bytes);
}

TEST_F(CtfStreamTest, TellsWhatWasLostBeforeItsFirstPacketAsSinceItBegan) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    stream.began(100);
    const std::array<std::byte, 24> few{};
    EXPECT_TRUE(stream.write({few, 500, 600, 7, 0}));
    std::array<CtfPacketStart, 2> packets{};
    const std::string all = bytes();
    ASSERT_GE(all.size(), sizeof packets[0]);
    std::memcpy(packets.data(), all.data(), sizeof packets[0]);
    const size_t second = packets[0].context.packet_size / 8;
    ASSERT_GE(all.size(), second + sizeof packets[1]);
    std::memcpy(&packets[1], all.data() + second, sizeof packets[1]);
    EXPECT_EQ(packets[0].context.timestamp_begin, 100u);
    EXPECT_EQ(packets[0].context.timestamp_end, 100u);
    EXPECT_EQ(packets[0].context.events_discarded, 0u);
    EXPECT_EQ(packets[1].context.timestamp_begin, 500u);
    EXPECT_EQ(packets[1].context.events_discarded, 7u);
}

/* Readers may be asked for the time that all streams tell of. */
TEST_F(CtfStreamTest, TellsOfTheTimeInWhichItHadNothing) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    stream.began(100);
    const std::array<std::byte, 24> few{};
    EXPECT_TRUE(stream.write({few, 500, 600, 0, 0}));
    EXPECT_TRUE(stream.end_at(600)); /* as it does */
    EXPECT_TRUE(stream.end_at(900));
    EXPECT_TRUE(stream.begin_at(200));
    EXPECT_EQ(packet_at(0).timestamp_begin, 100u);
    EXPECT_EQ(packet_at(0).timestamp_end, 600u);
    const size_t second = packet_at(0).packet_size / 8;
    EXPECT_EQ(packet_at(second).timestamp_begin, 600u);
    EXPECT_EQ(packet_at(second).timestamp_end, 900u);
    EXPECT_EQ(packet_at(second).packet_seq_num, 1u);
    EXPECT_EQ(contents().size(), 2u);
    EXPECT_TRUE(stream.begin_at(50));
    EXPECT_EQ(packet_at(0).timestamp_begin, 50u);
    EXPECT_EQ(packet_at(second).timestamp_end, 900u);
    CtfStream silent(*folder, "ring_1", start(), ctf_start_bytes);
    EXPECT_TRUE(silent.begin_at(1));
    EXPECT_TRUE(silent.end_at(9));
    EXPECT_FALSE(folder->has("ring_1"));
}

TEST_F(CtfStreamTest, GoesOnBehindAPacketThatCouldNotBeWritten) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    const std::array<std::byte, 20> few{};
    EXPECT_TRUE(stream.write({few, 1, 2, 0, 0}));
    EXPECT_FALSE(stream.write({half_records(), 3, 4, 0, 0}));
    EXPECT_EQ(bytes().size(), stream.bytes());
    EXPECT_TRUE(stream.write({std::span(few).first(8), 5, 6, 0, 0}));
    EXPECT_TRUE(stream.write_losses(7, 0, 0, 8));
    constexpr auto start_bytes = static_cast<int64_t>(ctf_start_bytes);
    EXPECT_EQ(contents(), (std::vector<int64_t>{start_bytes + 20, start_bytes + 8,
                                                static_cast<int64_t>(ctf_content_bytes(ctf_start_bytes))}));
}

/* What is written again later is not missing. */
TEST_F(CtfStreamTest, ARepeatedPacketThatCouldNotBeWrittenIsNotLost) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    const std::array<std::byte, 20> few{};
    EXPECT_TRUE(stream.write({few, 1, 2, 0, 0}));
    const uint64_t second = stream.bytes();
    EXPECT_FALSE(stream.write({half_records(), 3, 4, 0, 0, true}));
    EXPECT_TRUE(stream.write({few, 3, 4, 0, 0, true}));
    EXPECT_EQ(packet_at(second).packet_seq_num, 1u);
    const uint64_t third = stream.bytes();
    EXPECT_FALSE(stream.write({half_records(), 5, 6, 0, 0}));
    EXPECT_TRUE(stream.write({few, 7, 8, 0, 0}));
    EXPECT_EQ(packet_at(third).packet_seq_num, 3u);
}

/* The first packet of a CPU that the program came to only then, too. */
TEST_F(CtfStreamTest, SaysThatItsDirectoryWasRemoved) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    std::filesystem::remove_all(root_);
    const Status written = stream.write({half_records(), 1, 2, 0, 0});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message(), root_ + " was removed while the trace was written.");
}

/* Readers count them between the ends of two packets. */
TEST_F(CtfStreamTest, TellsWhatWasLostWithoutARecordFromTheBeginningOn) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    EXPECT_TRUE(stream.write_losses(7, 0, 3, 8));
    const std::string all = bytes();
    std::array<CtfPacketStart, 2> packets{};
    const size_t second = ctf_content_bytes(ctf_start_bytes);
    ASSERT_GE(all.size(), second + ctf_content_bytes(ctf_start_bytes));
    std::memcpy(&packets[0], all.data(), sizeof(CtfPacketStart));
    std::memcpy(&packets[1], all.data() + packets[0].context.packet_size / 8, sizeof(CtfPacketStart));
    EXPECT_EQ(packets[0].context.timestamp_end, 3u);
    EXPECT_EQ(packets[1].context.timestamp_end, 8u);
    EXPECT_EQ(packets[1].context.events_discarded, 7u);
}

/* A limit of the file's size is said of the write that meets it, as is a full disk. */
TEST_F(CtfStreamTest, TellsThatTheFileMayNotGrow) {
    auto folder = Folder::open(root_);
    ASSERT_TRUE(folder);
    CtfStream stream(*folder, "ring_0", start(), ctf_start_bytes);
    const std::vector<std::byte> records(large_bytes);
    EXPECT_TRUE(stream.write({records, 1, 2, 0, 0}));
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{large_bytes * 3 / 2, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const Status written = stream.write({records, 3, 4, 0, 0});
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().number(), EFBIG);
    EXPECT_EQ(contents(), (std::vector<int64_t>{static_cast<int64_t>(ctf_start_bytes + large_bytes)}));
}

} // namespace
} // namespace plumb
