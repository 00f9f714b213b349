/*
 * Sends a trace over a serial line, or into anything that takes bytes (a FIFO, another terminal), in frames (frame.h).
 *
 * There is no way back: what the other side misses is not sent again. Only metadata and the summary are, while the line
 * carries much else, and at the end, since nothing can be read without them.
 *
 * Where the line takes nothing for a while (nobody reads, the other side asks to wait), sending fails, and fails again at
 * once until the line takes something. The frame that was begun is damaged then.
 */
#ifndef PLUMB_CONSUMERD_LINE_SERIAL_LINE_H
#define PLUMB_CONSUMERD_LINE_SERIAL_LINE_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/line/frame.h"
#include "consumerd/sink/packet_carrier.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/* Where and how fast: "/dev/ttyS1", "/dev/ttyUSB0:921600". */
struct SerialPlace {
    std::string path;
    std::uint32_t baud = 115200;

    static Result<SerialPlace> parse(const std::string& text);
};

/* Opens it, and takes a terminal as it comes: eight bits, no echo, no meaning of any byte, no line for a modem. `flags`:
 * O_RDONLY or O_WRONLY, and never waits in open(). */
Result<FileDescriptor> open_serial(const SerialPlace& place, int flags);

class SerialLine : public PacketCarrier {
public:
    static Result<std::shared_ptr<SerialLine>> open(const SerialPlace& place);

    std::size_t records_max() const override { return 4096; }
    Status send_packet(const std::string& stream, std::span<const std::byte> start,
                       std::span<const std::byte> records, std::size_t padding_bytes) override;
    Status send_begin(const std::string& stream, std::uint64_t timestamp) override;
    Status send_file(const std::string& name, std::string_view content) override;
    /* Asked while something is sent; once it says so, what is left of that is left out. By one thread at a time. */
    void end_when(std::function<bool()> is_enough);
    /* The files once more, and that this was all. */
    Status end();

private:
    struct File {
        std::uint32_t generation = 0;
        std::string content;
    };

    SerialLine(FileDescriptor line, std::string path, std::uint32_t recording)
        : line_(std::move(line)), path_(std::move(path)), recording_(recording) {}
    void add(FrameType type, std::string_view name, std::initializer_list<std::span<const std::byte>> parts);
    void add_file(const std::string& name, const File& file);
    Status send_all_files();
    Status send();
    Status wait_for_room();
    Status wait_until_sent() const;

    std::mutex mutex_; /* of all that follows */
    FileDescriptor line_;
    std::string path_;
    std::uint32_t recording_;
    std::uint32_t number_ = 0;
    std::map<std::string, File> files_;
    std::size_t file_bytes_ = 0;    /* of all of them */
    std::uint64_t bytes_since_ = 0; /* sent since they were */
    std::function<bool()> is_enough_;
    std::vector<std::byte> frames_; /* to be sent */
    bool is_stuck_ = false;
};

} // namespace plumb

#endif
