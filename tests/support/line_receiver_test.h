/*
 * What a sender puts on a line, frame by frame, and an empty trace for the receiver to put it into.
 */
#ifndef PLUMB_TESTS_SUPPORT_LINE_RECEIVER_TEST_H
#define PLUMB_TESTS_SUPPORT_LINE_RECEIVER_TEST_H

#include "base/ctf_layout.h"
#include "base/folder.h"
#include "consumerd/line/frame.h"
#include "consumerd/line/line_receiver.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plumb::test {

constexpr uint32_t recording = 77;

inline std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

class LineReceiverTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-line-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
        mkdir((root_ + "/trace").c_str(), 0755);
        auto opened = Folder::open(root_ + "/trace");
        ASSERT_TRUE(opened);
        folder_.emplace(std::move(*opened));
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void add(FrameType type, const std::string& name,
             std::initializer_list<std::span<const std::byte>> parts) {
        append_frame(line_, type, recording, number_++, name, parts);
    }
    static CtfPacketStart packet(uint64_t sequence = 0) {
        CtfPacketStart start{};
        start.header.magic = ctf_magic;
        start.context.packet_size = start.context.content_size = sizeof(start) * 8;
        start.context.packet_seq_num = sequence;
        start.context.timestamp_begin = 1000;
        return start;
    }
    void add_packet(const std::string& name, uint64_t sequence = 0) {
        const CtfPacketStart start = packet(sequence);
        add(FrameType::packet, name, {std::as_bytes(std::span(&start, 1))});
    }
    void add_part(const std::string& name, FilePart part, const std::string& content) {
        add(FrameType::part, name, {std::as_bytes(std::span(&part, 1)), bytes_of(content)});
    }
    std::vector<std::string> files() const {
        std::vector<std::string> found;
        for (const auto& each : std::filesystem::recursive_directory_iterator(root_))
            if (each.is_regular_file()) found.push_back(each.path().lexically_relative(root_));
        std::sort(found.begin(), found.end());
        return found;
    }
    std::string content_of(const std::string& name) const {
        std::ifstream file(root_ + "/" + name);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    std::string root_;
    std::optional<Folder> folder_;
    std::vector<std::byte> line_;
    uint32_t number_ = 0;
};

} // namespace plumb::test

#endif
