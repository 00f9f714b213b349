// cmake-once
/* What comes off a serial line, damaged: frames are found again behind the damage, and nobody who sends gets out of the trace. */
#include "base/ctf_layout.h"
#include "base/folder.h"
#include "consumerd/line/frame.h"
#include "consumerd/line/line_receiver.h"
#include "consumerd/line/serial_line.h"
#include "tests/support/line_receiver_test.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plumb {
namespace {

using test::bytes_of;
using test::LineReceiverTest;
using test::recording;

std::vector<std::byte> random_bytes(std::mt19937& random, size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& each : bytes)
        each = static_cast<std::byte>(random());
    return bytes;
}

/* Where each frame begins, by number, and what it holds. */
struct Sent {
    std::vector<std::byte> bytes;
    std::map<uint32_t, std::pair<size_t, size_t>> places;
    std::map<uint32_t, std::vector<std::byte>> contents;
};

Sent send_frames(std::mt19937& random, uint32_t count) {
    Sent sent;
    for (uint32_t number = 0; number < count; number++) {
        const size_t begin = sent.bytes.size();
        /* Some hold what looks like frames. */
        std::vector<std::byte> content = random_bytes(random, random() % 3000);
        if (number % 5 == 4)
            content.insert(content.end(), sent.bytes.begin(),
                           sent.bytes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(40, begin)));
        append_frame(sent.bytes, FrameType::packet, recording, number, "ust/ring_0", {content});
        sent.places[number] = {begin, sent.bytes.size()};
        sent.contents[number] = std::move(content);
    }
    return sent;
}

/* By pieces of any size. */
template <typename Take>
void scan(FrameScanner& scanner, std::mt19937& random, std::span<const std::byte> bytes, Take take) {
    const auto take_all = [&] {
        while (const auto frame = scanner.next())
            take(*frame);
    };
    while (!bytes.empty()) {
        const size_t count = std::min<size_t>(bytes.size(), 1 + random() % 700);
        scanner.add(bytes.first(count));
        bytes = bytes.subspan(count);
        take_all();
    }
    for (uint64_t before = UINT64_MAX; before != scanner.skipped_bytes();) {
        before = scanner.skipped_bytes();
        scanner.give_up_begun();
        take_all();
    }
}

TEST(Frames, ComeOffACleanLineAsTheyWentOnIt) {
    std::mt19937 random(1);
    const Sent sent = send_frames(random, 200);
    FrameScanner scanner;
    uint32_t next = 0;
    scan(scanner, random, sent.bytes, [&](const Frame& frame) {
        EXPECT_EQ(frame.number, next);
        EXPECT_EQ(frame.recording, recording);
        EXPECT_EQ(frame.name, "ust/ring_0");
        EXPECT_TRUE(std::ranges::equal(frame.content, sent.contents.at(next)));
        next++;
    });
    EXPECT_EQ(next, 200u);
    EXPECT_EQ(scanner.damaged_frames(), 0u);
    EXPECT_EQ(scanner.skipped_bytes(), 0u);
}

/* Every frame that nothing was done to is found, and none that something was done to. */
TEST(Frames, AreFoundBehindChangedLostAndInsertedBytes) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        std::mt19937 random(seed);
        const Sent sent = send_frames(random, 100);
        std::vector<std::byte> line;
        std::map<uint32_t, bool> is_whole;
        for (const auto& [number, place] : sent.places) {
            is_whole[number] = true;
            for (size_t at = place.first; at < place.second; at++) {
                const bool is_hit = random() % 20'000 == 0;
                const bool is_first = at == place.first;
                if (is_hit && random() % 3 == 0) { /* in front of a frame it is noise between two */
                    is_whole[number] = is_whole[number] && is_first;
                    for (auto more = 1 + random() % 30; more > 0; more--)
                        line.push_back(static_cast<std::byte>(random()));
                } else if (is_hit) {
                    is_whole[number] = false;
                    if (random() % 2 == 0) continue; /* lost */
                    line.push_back(sent.bytes[at] ^ static_cast<std::byte>(1u << random() % 8));
                    continue;
                }
                line.push_back(sent.bytes[at]);
            }
        }
        FrameScanner scanner;
        std::map<uint32_t, bool> is_found;
        scan(scanner, random, line, [&](const Frame& frame) {
            EXPECT_FALSE(is_found[frame.number]) << seed;
            is_found[frame.number] = true;
            ASSERT_TRUE(sent.contents.contains(frame.number));
            EXPECT_TRUE(std::ranges::equal(frame.content, sent.contents.at(frame.number)));
        });
        for (const auto& [number, whole] : is_whole)
            EXPECT_EQ(is_found[number], whole) << "seed " << seed << ", frame " << number;
    }
}

TEST(Frames, AreNotWaitedForWhereNothingMoreComes) {
    std::mt19937 random(3);
    Sent sent = send_frames(random, 3);
    sent.bytes.erase(sent.bytes.begin() + static_cast<std::ptrdiff_t>(sent.places[1].first) +
                     100); /* one byte of the second */
    FrameScanner scanner;
    std::vector<uint32_t> found;
    scan(scanner, random, sent.bytes, [&](const Frame& frame) { found.push_back(frame.number); });
    EXPECT_EQ(found, (std::vector<uint32_t>{0, 2}));
}

/* A line that pauses in the middle of a frame has lost nothing. */
TEST(Frames, GoOnBehindAPause) {
    std::mt19937 random(4);
    const Sent sent = send_frames(random, 3);
    FrameScanner scanner;
    uint32_t found = 0;
    for (size_t at = 0; at < sent.bytes.size(); at += 100) {
        scanner.add(std::span(sent.bytes).subspan(at, std::min<size_t>(100, sent.bytes.size() - at)));
        scanner.look_behind_begun();
        while (scanner.next())
            found++;
    }
    EXPECT_EQ(found, 3u);
    EXPECT_EQ(scanner.damaged_frames(), 0u);
}

TEST_F(LineReceiverTest, WritesNothingOutsideOfTheTrace) {
    for (const char* name : {"../ring_0", "/tmp/ring_0", "ust/../ring_0", "ust", "ust/a/b", "ust/", "/x", "",
                             ".", "ust/.x", "../../x/y", "UST/ring_0", "ust/ring 0"})
        add_packet(name);
    for (const char* name :
         {"../summary.json", "metadata", "ust/ring_0", "ust/../metadata", "summary.json/x"})
        add_part(name, {1, 4, 0}, "text");
    add_packet(std::string(200, 'a') + "/ring_0");
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(files(), std::vector<std::string>{});
    EXPECT_EQ(receiver.refused_frames(), number_);
    EXPECT_EQ(receiver.packets(), 0u);
}

TEST_F(LineReceiverTest, FollowsNoLinkOfAStream) {
    mkdir((root_ + "/trace/ust").c_str(), 0755);
    std::filesystem::create_symlink(root_ + "/elsewhere", root_ + "/trace/ust/ring_0");
    add_packet("ust/ring_0");
    LineReceiver receiver(*folder_);
    EXPECT_FALSE(receiver.take(line_));
    EXPECT_FALSE(std::filesystem::exists(root_ + "/elsewhere"));
}

TEST_F(LineReceiverTest, TakesWholePacketsAloneAndTheirBegin) {
    const std::string no_packet(100, 'x');
    const uint64_t earlier = 500, later = 5000;
    add_packet("ust/ring_0", 0);
    add(FrameType::packet, "ust/ring_0", {bytes_of(no_packet)});
    add_packet("ust/ring_0", 1);
    add(FrameType::begin, "ust/ring_0", {std::as_bytes(std::span(&later, 1))});
    add(FrameType::begin, "ust/ring_0", {std::as_bytes(std::span(&earlier, 1))});
    add(FrameType::begin, "ust/ring_1", {std::as_bytes(std::span(&earlier, 1))});
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 2u);
    EXPECT_EQ(receiver.refused_frames(), 2u);
    const std::string stream = content_of("trace/ust/ring_0");
    ASSERT_EQ(stream.size(), 2 * sizeof(CtfPacketStart));
    std::array<CtfPacketStart, 2> packets{};
    std::memcpy(packets.data(), stream.data(), sizeof(packets));
    EXPECT_EQ(packets[0].context.timestamp_begin, earlier);
    EXPECT_EQ(packets[1].context.timestamp_begin, 1000u);
}

/* By parts in any order, from several sendings of it; a later one takes its place only when it is whole. */
TEST_F(LineReceiverTest, PutsFilesTogether) {
    const std::string text = std::string(file_part_bytes, 'a') + std::string(file_part_bytes, 'b') + "c";
    const auto total = static_cast<uint32_t>(text.size());
    const auto part_at = [&](uint32_t generation, uint32_t offset, const std::string& of) {
        add_part("ust/metadata", {generation, static_cast<uint32_t>(of.size()), offset},
                 of.substr(offset, file_part_bytes));
    };
    part_at(1, 2 * file_part_bytes, text);
    part_at(1, 0, text);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.incomplete_files(), std::vector<std::string>{"ust/metadata"});
    EXPECT_FALSE(receiver.has_file("ust/metadata"));
    line_.clear();
    part_at(1, 0, text);
    part_at(1, file_part_bytes, text);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(content_of("trace/ust/metadata"), text);
    line_.clear();
    const std::string newer(file_part_bytes + 1, 'n');
    part_at(2, 0, newer);
    part_at(1, 0, text); /* too late */
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(content_of("trace/ust/metadata"), text);
    EXPECT_TRUE(receiver.has_file("ust/metadata"));
    EXPECT_EQ(receiver.incomplete_files(), std::vector<std::string>{"ust/metadata"});
    line_.clear();
    part_at(2, file_part_bytes, newer);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(content_of("trace/ust/metadata"), newer);
    EXPECT_TRUE(receiver.incomplete_files().empty());
    EXPECT_EQ(total, text.size());
}

TEST_F(LineReceiverTest, RefusesPartsThatDoNotFitTogether) {
    const std::string text(file_part_bytes, 'a');
    add_part("ust/metadata", {1, 0, 0}, "");
    add_part("ust/metadata", {1, UINT32_MAX, 0}, text);
    add_part("ust/metadata", {1, 100, 0}, text);
    add_part("ust/metadata", {1, 2048, 512}, text);
    add_part("ust/metadata", {1, 2048, 2048}, text);
    add_part("ust/metadata", {1, 2048, 0}, "short");
    add(FrameType::part, "ust/metadata", {bytes_of(std::string("few"))});
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.refused_frames(), 7u);
    EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(LineReceiverTest, TellsWhatIsMissingAndThatAnotherRecordingBegins) {
    add_packet("ust/ring_0", 0);
    number_ += 5;
    add_packet("ust/ring_0", 6);
    append_frame(line_, FrameType::end, recording + 1, 0, "", {});
    add(FrameType::end, "", {});
    LineReceiver receiver(*folder_);
    EXPECT_FALSE(receiver.has_begun());
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_TRUE(receiver.has_begun());
    EXPECT_EQ(receiver.missing_frames(), 5u);
    EXPECT_TRUE(receiver.has_another());
    EXPECT_FALSE(receiver.has_end());
}

/* A frame in an event, which is found where the frame around it was damaged. */
TEST_F(LineReceiverTest, IsNotEndedByWhatATracedProgramWrites) {
    std::vector<std::byte> inner;
    for (uint32_t number = 0; number < 3; number++)
        append_frame(inner, FrameType::end, recording + 1, number, "", {});
    add_packet("ust/ring_0", 0);
    const size_t header_at = line_.size(), payload_at = header_at + sizeof(FrameHeader);
    add(FrameType::packet, "ust/ring_0", {inner});
    add_packet("ust/ring_0", 1);
    add(FrameType::end, "", {});
    for (const size_t damaged_at : {header_at, header_at + 10, payload_at}) {
        std::vector<std::byte> line = line_;
        line[damaged_at] ^= std::byte{1};
        for (const bool has_end : {true, false}) {
            LineReceiver receiver(*folder_);
            EXPECT_TRUE(receiver.take(std::span(line).first(has_end ? line.size() : payload_at + 100)));
            EXPECT_TRUE(receiver.finish());
            EXPECT_EQ(receiver.packets(), has_end ? 2u : 1u) << damaged_at;
            EXPECT_EQ(receiver.has_end(), has_end) << damaged_at;
            EXPECT_EQ(receiver.has_another(), !has_end) << damaged_at;
            EXPECT_EQ(receiver.refused_frames(), 3u) << damaged_at;
        }
    }
}

/* The sender was killed within a frame, and started anew. */
TEST_F(LineReceiverTest, BelievesInAnotherRecordingOnceItIsNotInOneOfItsOwnFrames) {
    add_packet("ust/ring_0", 0);
    const std::vector<std::byte> content(1000);
    append_frame(line_, FrameType::packet, recording, number_, "ust/ring_0", {content});
    line_.resize(line_.size() - 100);
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    size_t came = 0;
    for (uint32_t number = 0; !receiver.has_another() && came < 2 * frame_bytes_max; number++) {
        line_.clear();
        append_frame(line_, FrameType::packet, recording + 1, number, "ust/ring_0", {content});
        came += line_.size();
        EXPECT_TRUE(receiver.take(line_));
    }
    EXPECT_TRUE(receiver.has_another());
    EXPECT_GT(came, frame_bytes_max);
    EXPECT_LT(came, frame_bytes_max + 2048);
    EXPECT_EQ(receiver.packets(), 1u);
}

TEST_F(LineReceiverTest, TakesEachFrameOnceAndNothingBehindTheEnd) {
    add_packet("ust/ring_0", 0);
    const std::vector<std::byte> first = line_;
    add_packet("ust/ring_0", 1);
    line_.insert(line_.end(), first.begin(), first.end());
    add(FrameType::end, "", {});
    const std::vector<std::byte> all = line_;
    line_.insert(line_.end(), all.begin(), all.end());
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_TRUE(receiver.finish());
    EXPECT_EQ(receiver.packets(), 2u);
    EXPECT_EQ(receiver.refused_frames(), 1u);
    EXPECT_TRUE(receiver.has_end());
    EXPECT_FALSE(receiver.has_another());
    EXPECT_EQ(receiver.damaged_frames(), 0u);
    EXPECT_EQ(receiver.domains_without_metadata(), std::vector<std::string>{"ust"});
}

/* What an earlier recording has left in the line. */
TEST_F(LineReceiverTest, BeginsWithTheFirstRecordingOfWhichThereIsSomething) {
    append_frame(line_, FrameType::begin, recording + 1, 900, "ust/ring_0", {});
    append_frame(line_, FrameType::end, recording + 1, 901, "", {});
    add_packet("ust/ring_0", 0);
    add(FrameType::end, "", {});
    LineReceiver receiver(*folder_);
    EXPECT_TRUE(receiver.take(line_));
    EXPECT_EQ(receiver.packets(), 1u);
    EXPECT_TRUE(receiver.has_end());
    EXPECT_EQ(receiver.missing_frames(), 0u);
    EXPECT_EQ(receiver.refused_frames(), 0u);
}

TEST(SerialPlace, IsAPathAndPerhapsASpeed) {
    const auto plain = SerialPlace::parse("/dev/ttyS1");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->path, "/dev/ttyS1");
    EXPECT_EQ(plain->baud, 115200u);
    const auto fast = SerialPlace::parse("/dev/ttyUSB0:921600");
    ASSERT_TRUE(fast);
    EXPECT_EQ(fast->path, "/dev/ttyUSB0");
    EXPECT_EQ(fast->baud, 921600u);
    const std::string by_path = "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0";
    EXPECT_EQ(SerialPlace::parse(by_path)->path, by_path);
    EXPECT_EQ(SerialPlace::parse(by_path + ":9600")->path, by_path);
    for (const char* wrong : {"", ":9600", "/dev/ttyS1:9601", "/dev/ttyS1:99999999999"})
        EXPECT_FALSE(SerialPlace::parse(wrong)) << wrong;
}

} // namespace
} // namespace plumb
