// cmake-once
/* What a receiver takes from a line, up to the limits of what it takes, and what it leaves. */
#include "tests/support/line_receiver_test.h"
#include "tests/support/own_memory.h"

#include <gmock/gmock.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace plumb {
namespace {

using test::bytes_of;
using test::LineReceiverTest;
using test::recording;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> frame_of(FrameType type, const std::string& name, const std::string& content) {
    std::vector<std::byte> bytes;
    append_frame(bytes, type, recording, 5, name, {bytes_of(content)});
    return bytes;
}

/* With this header in place of its own. */
std::vector<std::byte> with_header(std::vector<std::byte> frame, FrameHeader header) {
    header.check = crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, check)));
    std::memcpy(frame.data(), &header, sizeof(header));
    return frame;
}

FrameHeader header_of(std::span<const std::byte> frame) {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    return header;
}

TEST(Frame, IsLaidOutAsTheHeaderFileSays) {
    EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
    const std::vector<std::byte> frame = frame_of(FrameType::part, "ust/x", "content");
    ASSERT_EQ(frame.size(), 24 + 1 + 5 + 7 + 4);
    const FrameHeader header = header_of(frame);
    EXPECT_EQ(std::memcmp(header.magic, "\x89PlB", 4), 0);
    EXPECT_EQ(header.recording, recording);
    EXPECT_EQ(header.number, 5u);
    EXPECT_EQ(header.bytes, 13u);
    EXPECT_EQ(header.type, 3);
    EXPECT_EQ(header.check, crc32c(std::span(frame).first(20)));
    EXPECT_EQ(std::memcmp(frame.data() + 24, "\x05ust/xcontent", 13), 0);
    uint32_t check = 0;
    std::memcpy(&check, frame.data() + 37, sizeof(check));
    EXPECT_EQ(check, crc32c(std::span(frame).subspan(24, 13)));
    /* A name has one byte for its length. */
    FrameScanner scanner;
    scanner.add(frame_of(FrameType::packet, std::string(300, 'n'), "c"));
    const auto found = scanner.next();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, std::string(255, 'n'));
    EXPECT_EQ(found->content.size(), 1u);
}

TEST(Frame, IsNoneWithoutASoundHeader) {
    const std::vector<std::byte> sound = frame_of(FrameType::packet, "ust/ring_0", "content");
    const auto is_found = [](const std::vector<std::byte>& bytes, uint64_t damaged = 0) {
        FrameScanner scanner;
        scanner.add(bytes);
        const bool found = scanner.next().has_value();
        if (found) {
            EXPECT_EQ(scanner.skipped_bytes(), 0u);
        }
        EXPECT_EQ(scanner.damaged_frames(), damaged);
        return found;
    };
    EXPECT_TRUE(is_found(sound));
    for (size_t bytes = 0; bytes < sound.size(); bytes++)
        EXPECT_FALSE(is_found({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(bytes)})) << bytes;
    for (const int type : {0, 5, 255}) {
        FrameHeader header = header_of(sound);
        header.type = static_cast<uint8_t>(type);
        EXPECT_FALSE(is_found(with_header(sound, header))) << type;
    }
    for (const int type : {1, 2, 3, 4}) {
        FrameHeader header = header_of(sound);
        header.type = static_cast<uint8_t>(type);
        EXPECT_TRUE(is_found(with_header(sound, header))) << type;
    }
    FrameHeader header = header_of(sound);
    header.bytes = 0;
    EXPECT_FALSE(is_found(with_header(sound, header)));
    header = header_of(sound);
    header.check++;
    std::vector<std::byte> unchecked = sound;
    std::memcpy(unchecked.data(), &header, sizeof(header));
    EXPECT_FALSE(is_found(unchecked));
    for (size_t at = sizeof(FrameHeader); at < sound.size(); at++) {
        std::vector<std::byte> damaged = sound;
        damaged[at] ^= std::byte{1};
        EXPECT_FALSE(is_found(damaged, 1)) << at;
    }
    /* A name that is longer than all that is there. */
    std::vector<std::byte> name = sound;
    for (const int letters : {17, 18}) {
        name[sizeof(FrameHeader)] = static_cast<std::byte>(letters);
        const uint32_t check = crc32c(std::span(name).subspan(sizeof(FrameHeader), 18));
        std::memcpy(name.data() + sizeof(FrameHeader) + 18, &check, sizeof(check));
        EXPECT_EQ(is_found(name, letters == 18), letters == 17);
    }
}

TEST(Frame, HoldsAsMuchAsTheLargestPacket) {
    const std::string largest(frame_payload_max - 2, 'x');
    FrameScanner scanner;
    scanner.add(frame_of(FrameType::packet, "n", largest));
    ASSERT_TRUE(scanner.next());
    /* What claims to be larger is not waited for. */
    scanner.add(frame_of(FrameType::packet, "n", largest + "x"));
    EXPECT_FALSE(scanner.next());
    EXPECT_EQ(scanner.damaged_frames(), 0u);
    scanner.add(frame_of(FrameType::packet, "n", "small"));
    const auto small = scanner.next();
    ASSERT_TRUE(small);
    EXPECT_EQ(small->content.size(), 5u);
    EXPECT_EQ(scanner.skipped_bytes(), sizeof(FrameHeader) + frame_payload_max + 1 + 4);
}

/* A begun frame, of which some bytes were lost, and whole ones behind it, all in what it claims to have. */
TEST(Frame, IsFoundBehindOneThatHasLostBytesOnceNothingComes) {
    std::vector<std::byte> line = frame_of(FrameType::packet, "first", std::string(5000, 'x'));
    line.erase(line.begin() + 1000, line.begin() + 4000);
    const size_t lost = line.size();
    const std::vector<std::byte> second = frame_of(FrameType::packet, "second", "y");
    line.insert(line.end(), second.begin(), second.end());
    FrameScanner scanner;
    scanner.add(line);
    EXPECT_FALSE(scanner.next());
    scanner.look_behind_begun();
    EXPECT_EQ(scanner.damaged_frames(), 1u);
    EXPECT_EQ(scanner.skipped_bytes(), lost);
    const auto found = scanner.next();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, "second");
    /* Nothing is behind it. */
    scanner.give_up_begun();
    EXPECT_EQ(scanner.damaged_frames(), 1u);
    EXPECT_EQ(scanner.skipped_bytes(), lost);
}

TEST(Frame, ThatIsWholeIsNotGivenUp) {
    const std::vector<std::byte> frame = frame_of(FrameType::packet, "n", "content");
    FrameScanner scanner;
    scanner.add(frame);
    scanner.look_behind_begun();
    scanner.give_up_begun();
    EXPECT_EQ(scanner.skipped_bytes(), 0u);
    EXPECT_TRUE(scanner.next());
    /* What has no whole header may be no frame. */
    for (const size_t bytes : {sizeof(FrameHeader) - 1, sizeof(FrameHeader), frame.size() - 1}) {
        FrameScanner cut;
        cut.add(std::span(frame).first(bytes));
        EXPECT_FALSE(cut.next());
        cut.give_up_begun();
        EXPECT_EQ(cut.skipped_bytes(), bytes);
        EXPECT_EQ(cut.damaged_frames(), bytes >= sizeof(FrameHeader) ? 1u : 0u) << bytes;
    }
}

TEST_F(LineReceiverTest, TakesNamesOfAnyLettersThatATraceHas) {
    const std::string longest(64, 'x');
    for (const std::string& name :
         {std::string("az09_-/ring_0"), std::string("u/a"), longest + "/" + longest})
        add_packet(name);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 3u);
    EXPECT_EQ(receiver.packet_bytes(), 3 * sizeof(CtfPacketStart));
    EXPECT_EQ(receiver.refused_frames(), 0u);
    line_.clear();
    for (const std::string& name :
         {longest + "x/r", "u/" + longest + "x", std::string("u/:"), std::string("u/`"), std::string("u/{"),
          std::string("u/+"), std::string("u/metadata"), std::string("u:/r"), std::string("u//")})
        add_packet(name);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 3u);
    EXPECT_EQ(receiver.refused_frames(), 9u);
    EXPECT_EQ(files().size(), 3u);
}

TEST_F(LineReceiverTest, TakesPacketsThatAreAsLongAsTheySay) {
    const auto add_changed = [&](size_t bytes, const std::function<void(CtfPacketStart&)>& change) {
        CtfPacketStart start = packet();
        start.context.packet_size = bytes * 8;
        start.context.content_size = 8;
        change(start);
        std::vector<std::byte> content(bytes);
        std::copy_n(reinterpret_cast<const std::byte*>(&start), std::min(bytes, sizeof(start)),
                    content.begin());
        add(FrameType::packet, "ust/ring_0", {content});
    };
    LineReceiver receiver(*folder_);
    const auto taken = [&] {
        const uint64_t before = receiver.packets(), refused = receiver.refused_frames();
        EXPECT_TRUE(receiver.take(line_));
        line_.clear();
        EXPECT_EQ(receiver.packets() - before + receiver.refused_frames() - refused, 1u);
        return receiver.packets() != before;
    };
    const auto nothing = [](CtfPacketStart&) {};
    for (const size_t bytes : {size_t{80}, size_t{81}, size_t{88}, size_t{4000}}) {
        add_changed(bytes, nothing);
        EXPECT_TRUE(taken()) << bytes;
    }
    add_changed(79, nothing);
    EXPECT_FALSE(taken());
    add_changed(0, nothing);
    EXPECT_FALSE(taken());
    add_changed(96, [](auto& start) { start.header.magic++; });
    EXPECT_FALSE(taken());
    for (const int more : {-64, -1, 1, 64}) {
        add_changed(96, [=](auto& start) { start.context.packet_size += static_cast<uint64_t>(more); });
        EXPECT_FALSE(taken()) << more;
    }
    add_changed(96, [](auto& start) { start.context.content_size = 96 * 8; });
    EXPECT_TRUE(taken());
    add_changed(96, [](auto& start) { start.context.content_size = 96 * 8 + 1; });
    EXPECT_FALSE(taken());
}

TEST_F(LineReceiverTest, TakesTheBeginOfTheFirstPacketAlone) {
    const auto add_begin = [&](const std::string& name, uint64_t timestamp, size_t bytes = 8) {
        std::vector<std::byte> content(16);
        std::memcpy(content.data(), &timestamp, sizeof(timestamp));
        add(FrameType::begin, name, {std::span(content).first(bytes)});
    };
    const auto begin_of = [&](const std::string& name) {
        CtfPacketStart start{};
        const std::string content = content_of("trace/" + name);
        std::memcpy(&start, content.data(), std::min(sizeof(start), content.size()));
        return start.context.timestamp_begin;
    };
    add_packet("ust/second", 1); /* the first was lost */
    add_begin("ust/second", 500);
    add_packet("ust/first");
    add_begin("ust/first", 500, 7);
    add_begin("ust/first", 500, 9);
    add_begin("ust/first", 1000);
    add_begin("ust/first", 1001);
    add_begin("ust/none", 500);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 3u);
    EXPECT_EQ(begin_of("ust/second"), 1000u);
    EXPECT_EQ(begin_of("ust/first"), 1000u);
    line_.clear();
    add_begin("ust/first", 999);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(begin_of("ust/first"), 999u);
    EXPECT_EQ(content_of("trace/ust/first").size(), sizeof(CtfPacketStart));
    /* Whoever has removed or cut it has removed its begin. */
    std::filesystem::resize_file(root_ + "/trace/ust/first", 79);
    std::filesystem::remove(root_ + "/trace/ust/second");
    line_.clear();
    add_begin("ust/first", 5);
    add_begin("ust/second", 5);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(begin_of("ust/first"), 999u);
    EXPECT_FALSE(std::filesystem::exists(root_ + "/trace/ust/second"));
}

/* Whoever sends may make no more of them than a trace has. */
TEST_F(LineReceiverTest, HasALimitOfDomains) {
    for (int i = 0; i < 65; i++)
        add_packet(fmt::format("domain{}/ring_0", i));
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 64u);
    EXPECT_EQ(receiver.refused_frames(), 1u);
    line_.clear();
    add_packet("domain63/ring_0", 1);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 65u);
    EXPECT_EQ(receiver.domains_without_metadata().size(), 64u);
}

TEST_F(LineReceiverTest, HasALimitOfFiles) {
    const std::string part(file_part_bytes, 'x');
    for (int i = 0; i < 129; i++)
        add_part(fmt::format("domain{}/metadata", i), {1, 2 * file_part_bytes, 0}, part);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 1u);
    EXPECT_EQ(receiver.incomplete_files().size(), 128u);
    line_.clear();
    add_part("domain7/metadata", {1, 2 * file_part_bytes, file_part_bytes}, part);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 1u);
    EXPECT_THAT(files(), ElementsAre("trace/domain7/metadata"));
    EXPECT_EQ(receiver.incomplete_files().size(), 127u);
}

TEST_F(LineReceiverTest, HasALimitOfWhatFilesTakeTogether) {
    const std::string part(file_part_bytes, 'x');
    constexpr auto all = static_cast<uint32_t>(file_bytes_max);
    LineReceiver receiver(*folder_);
    const auto refused = [&](const std::string& name, FilePart of, const std::string& content) {
        const uint64_t before = receiver.refused_frames();
        line_.clear();
        add_part(name, of, content);
        EXPECT_TRUE(receiver.take(line_));
        return receiver.refused_frames() != before;
    };
    EXPECT_TRUE(refused("a/metadata", {1, all + 1, 0}, part));
    EXPECT_FALSE(refused("a/metadata", {1, all - 1000, 0}, part));
    EXPECT_TRUE(refused("b/metadata", {1, 1001, 0}, std::string(1001, 'x')));
    EXPECT_FALSE(refused("b/metadata", {1, 1000, 0}, std::string(1000, 'x')));
    EXPECT_FALSE(refused("a/metadata", {2, 2048, 0}, part)) << "it takes its own place";
    EXPECT_FALSE(refused("c/metadata", {1, all - 2048 - 1000, 0}, part));
    EXPECT_TRUE(refused("d/metadata", {1, 1, 0}, "x"));
    EXPECT_THAT(files(), ElementsAre("trace/b/metadata"));
}

TEST_F(LineReceiverTest, TakesNoMoreMemoryThanWhatCame) {
    const std::string part(file_part_bytes, 'x');
    for (uint32_t generation = 1; generation <= 5; generation++)
        add_part("ust/metadata", {generation, file_bytes_max, file_part_bytes}, part);
    LineReceiver receiver(*folder_);
    const uint64_t before = test::own_memory_bytes();
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 0u);
    EXPECT_LT(test::own_memory_bytes(), before + (8u << 20)) << "what a file says it has is not made ready";
}

TEST_F(LineReceiverTest, TakesEachPartWhereItBelongs) {
    LineReceiver receiver(*folder_);
    const auto refused = [&](FilePart part, size_t bytes) {
        const uint64_t before = receiver.refused_frames();
        line_.clear();
        add_part("summary.json", part, std::string(bytes, static_cast<char>('a' + part.offset / 1024)));
        EXPECT_TRUE(receiver.take(line_));
        return receiver.refused_frames() != before;
    };
    EXPECT_TRUE(refused({1, 3000, 1023}, 1024));
    EXPECT_TRUE(refused({1, 3000, 1024}, 1023));
    EXPECT_TRUE(refused({1, 3000, 1024}, 1025));
    EXPECT_TRUE(refused({1, 3000, 2048}, 1024));
    EXPECT_TRUE(refused({1, 3000, 2048}, 951));
    EXPECT_TRUE(refused({1, 3000, 3072}, 1));
    EXPECT_TRUE(refused({1, 2048, 2048}, 0));
    EXPECT_FALSE(receiver.has_file("summary.json"));
    EXPECT_FALSE(receiver.has_trace());
    EXPECT_THAT(receiver.incomplete_files(), IsEmpty());
    EXPECT_FALSE(refused({1, 3000, 2048}, 952));
    EXPECT_FALSE(refused({1, 3000, 2048}, 952)) << "once more";
    EXPECT_FALSE(refused({1, 3000, 0}, 1024));
    EXPECT_FALSE(receiver.has_trace());
    EXPECT_FALSE(refused({1, 3000, 1024}, 1024));
    EXPECT_EQ(content_of("trace/summary.json"),
              std::string(1024, 'a') + std::string(1024, 'b') + std::string(952, 'c'));
    EXPECT_TRUE(receiver.has_file("summary.json"));
    EXPECT_TRUE(receiver.has_trace());
    EXPECT_EQ(receiver.packets(), 0u);
    /* The one that is there is not put together again. */
    std::filesystem::remove(root_ + "/trace/summary.json");
    for (const uint32_t offset : {0u, 1024u})
        EXPECT_FALSE(refused({1, 3000, offset}, 1024));
    EXPECT_FALSE(refused({1, 3000, 2048}, 952));
    EXPECT_THAT(files(), IsEmpty());
    /* One that was begun gives way to a later one, and to one of another length. */
    EXPECT_FALSE(refused({2, 2000, 0}, 1024));
    EXPECT_FALSE(refused({3, 2048, 1024}, 1024));
    EXPECT_FALSE(refused({2, 2000, 1024}, 976)) << "too late";
    EXPECT_FALSE(refused({3, 1025, 1024}, 1));
    EXPECT_FALSE(refused({3, 1025, 0}, 1024));
    EXPECT_EQ(content_of("trace/summary.json"), std::string(1024, 'a') + "b");
    EXPECT_THAT(receiver.incomplete_files(), IsEmpty());
}

TEST_F(LineReceiverTest, CountsWhatWasSentBeforeAnybodyListened) {
    LineReceiver receiver(*folder_);
    EXPECT_EQ(receiver.missing_frames(), 0u);
    EXPECT_FALSE(receiver.has_trace());
    number_ = 3;
    add_packet("ust/ring_0");
    add(FrameType::end, "", {});
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.missing_frames(), 3u);
    EXPECT_TRUE(receiver.has_trace());
    EXPECT_TRUE(receiver.has_end());
}

/* Another recording takes the place of one of which nothing whole has come, and its files with it. */
TEST_F(LineReceiverTest, ForgetsARecordingOfWhichThereIsNothing) {
    const std::string part(file_part_bytes, 'x');
    constexpr auto all = static_cast<uint32_t>(file_bytes_max);
    add_part("ust/metadata", {1, all, 0}, part);
    add_packet("../x");
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 1u);
    line_.clear();
    const FilePart of_next{1, 2048, 0};
    append_frame(line_, FrameType::part, recording + 1, 0, "kernel/metadata",
                 {std::as_bytes(std::span(&of_next, 1)), bytes_of(part)});
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 0u);
    EXPECT_EQ(receiver.missing_frames(), 0u);
    EXPECT_THAT(receiver.incomplete_files(), ElementsAre("kernel/metadata"));
    EXPECT_FALSE(receiver.has_another());
}

TEST_F(LineReceiverTest, LooksBehindABegunFrameOnceNothingComes) {
    CtfPacketStart start = packet();
    start.context.packet_size = (sizeof(start) + 4000) * 8;
    add(FrameType::packet, "ust/ring_0", {std::as_bytes(std::span(&start, 1)), std::vector<std::byte>(4000)});
    line_.resize(line_.size() - 1000); /* lost */
    add_packet("ust/ring_0", 1);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 0u);
    EXPECT_TRUE(receiver.silence());
    EXPECT_EQ(receiver.packets(), 1u);
    EXPECT_EQ(receiver.damaged_frames(), 1u);
    EXPECT_EQ(receiver.missing_frames(), 1u);
    EXPECT_TRUE(receiver.finish());
    EXPECT_EQ(receiver.packets(), 1u);
}

/* On a disk that is full, say. */
TEST_F(LineReceiverTest, APacketIsThereWholeOrNotAtAll) {
    add_packet("ust/ring_0", 0);
    LineReceiver receiver(*folder_);
    ASSERT_TRUE(receiver.take(line_));
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const rlim_t room : {rlim_t{100}, rlim_t{sizeof(CtfPacketStart)}}) {
        const rlimit limit{room, before.rlim_max};
        line_.clear();
        add_packet("ust/ring_0", 1);
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
        const Status taken = receiver.take(line_);
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
        ASSERT_FALSE(taken);
        EXPECT_THAT(taken.error().message(),
                    HasSubstr("Could not write to " + root_ + "/trace/ust/ring_0: "));
        EXPECT_EQ(taken.error().number(), room == 100 ? ENOSPC : EFBIG);
        EXPECT_EQ(content_of("trace/ust/ring_0").size(), sizeof(CtfPacketStart));
    }
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(receiver.packets(), 1u);
    EXPECT_EQ(receiver.packet_bytes(), sizeof(CtfPacketStart));
}

/* As servers of files that have no room left, and have not said so before. */
bool refuse_close() {
    sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_close},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSPC},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{4, steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(LineReceiverTest, HearsOnlyAtTheCloseThatThereIsNoRoom) {
    add_packet("ust/ring_0", 0);
    LineReceiver receiver(*folder_);
    ASSERT_TRUE(receiver.take(line_));
    const auto is_told = [&] {
        const Status taken = receiver.take(line_);
        return !taken && taken.error().number() == ENOSPC && receiver.packets() == 1;
    };
    const auto in_child = [&] {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(refuse_close() && is_told() ? 0 : 1);
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    };
    line_.clear();
    add_packet("ust/ring_0", 1);
    EXPECT_TRUE(in_child());
    EXPECT_EQ(content_of("trace/ust/ring_0").size(), sizeof(CtfPacketStart)) << "it is not there by half";
    line_.clear();
    const uint64_t earlier = 500;
    add(FrameType::begin, "ust/ring_0", {std::as_bytes(std::span(&earlier, 1))});
    EXPECT_TRUE(in_child());
}

TEST_F(LineReceiverTest, SaysWhereItCanNotWrite) {
    const auto complaint = [&] {
        LineReceiver receiver(*folder_);
        const Status taken = receiver.take(line_);
        return taken ? "" : taken.error().message();
    };
    std::ofstream(root_ + "/trace/ust") << "no folder";
    add_packet("ust/ring_0");
    EXPECT_THAT(complaint(), HasSubstr(root_ + "/trace/ust: Not a directory"));
    line_.clear();
    add_part("ust/metadata", {1, 1, 0}, "x");
    EXPECT_THAT(complaint(), HasSubstr(root_ + "/trace/ust: Not a directory"));
    std::filesystem::remove_all(root_ + "/trace");
    EXPECT_EQ(complaint(),
              "Could not make the directory " + root_ + "/trace/ust: No such file or directory.");
}

} // namespace
} // namespace plumb
