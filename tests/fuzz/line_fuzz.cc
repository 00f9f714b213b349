// What comes off a serial line from somebody who means harm: frames with right checksums and any content, bytes of no
// frame, damaged frames. Nothing is written outside of the trace. Input, again and again:
//
//   byte: what to send; byte: which name; u16: how many bytes follow, of which the frame, or the noise, is made
#include "base/ctf_layout.h"
#include "base/folder.h"
#include "consumerd/line/frame.h"
#include "consumerd/line/line_receiver.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace plumb;

class Input {
public:
    Input(const uint8_t* data, size_t bytes) : left_(std::as_bytes(std::span(data, bytes))) {}
    bool is_empty() const { return left_.empty(); }
    uint8_t byte() { return left_.empty() ? uint8_t{0} : std::to_integer<uint8_t>(take(1)[0]); }
    std::span<const std::byte> take(size_t bytes) {
        const auto taken = left_.first(std::min(bytes, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }

private:
    std::span<const std::byte> left_;
};

const char* const names[] = {"ust/ring_0",      "ust/metadata", "summary.json",  "kernel/ring_1",
                             "kernel/metadata", "../outside",   "ust/../../out", "",
                             "/tmp/outside",    "ust"};

/* As a packet, if there is room for what one begins with. */
std::vector<std::byte> as_packet(std::span<const std::byte> bytes) {
    std::vector<std::byte> packet(bytes.begin(), bytes.end());
    if (packet.size() < sizeof(CtfPacketStart)) return packet;
    CtfPacketStart start{};
    std::memcpy(&start, packet.data(), sizeof(start));
    start.header.magic = ctf_magic;
    start.context.packet_size = start.context.content_size = uint64_t{packet.size()} * 8;
    std::memcpy(packet.data(), &start, sizeof(start));
    return packet;
}

void send(Input& input, uint32_t& number, std::vector<std::byte>& line) {
    const uint8_t what = input.byte();
    const std::string name = names[input.byte() % std::size(names)];
    const size_t count = input.byte() | size_t{input.byte()} << 8;
    const std::span<const std::byte> bytes = input.take(count);
    const size_t before = line.size();
    switch (what % 6) {
    case 0:
        line.insert(line.end(), bytes.begin(), bytes.end());
        return;
    case 1:
        append_frame(line, FrameType::packet, 1, number++, name, {as_packet(bytes)});
        break;
    case 2:
        append_frame(line, FrameType::begin, 1, number++, name, {bytes});
        break;
    case 3:
        append_frame(line, FrameType::part, 1, number++, name, {bytes});
        break;
    case 4:
        append_frame(line, FrameType::packet, 1, number++, name, {bytes});
        break;
    default:
        append_frame(line, FrameType::end, what, number++, "", {});
    }
    if (what & 0x80) line[before + what % (line.size() - before)] ^= std::byte{0x10};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
    static const std::string root = "/tmp/plumb-line-fuzz-" + std::to_string(getpid());
    const std::string trace = root + "/trace";
    mkdir(root.c_str(), 0700);
    mkdir(trace.c_str(), 0700);
    {
        auto folder = Folder::open(trace);
        if (!folder) abort();
        LineReceiver receiver(*folder);
        std::vector<std::byte> line;
        uint32_t number = 0;
        for (Input input(data, bytes); !input.is_empty();) {
            line.clear();
            send(input, number, line);
            (void)receiver.take(line);
        }
        (void)receiver.silence();
        (void)receiver.finish();
        (void)receiver.domains_without_metadata();
        (void)receiver.missing_frames();
        (void)receiver.incomplete_files();
    }
    for (const auto& each : std::filesystem::directory_iterator(root))
        if (each.path() != trace) abort();
    std::filesystem::remove_all(root);
    return 0;
}
