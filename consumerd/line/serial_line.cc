#include "consumerd/line/serial_line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <random>

namespace plumb {
namespace {

constexpr int patience_ms = 5'000;
constexpr int look_interval_ms = 100;
/* Files are sent again when so many times their size was sent of other things. */
constexpr std::uint64_t others_per_file_byte = 16;
/* At the end, what is short is sent as often: one that misses a part of it has no trace. */
constexpr int times_at_end = 2;
constexpr std::size_t short_bytes = 64 * 1024;

struct Speed {
    std::uint32_t baud;
    speed_t code;
};
constexpr Speed speeds[] = {
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},     {115200, B115200},
    {230400, B230400},   {460800, B460800},   {500000, B500000},   {576000, B576000},   {921600, B921600},
    {1000000, B1000000}, {1152000, B1152000}, {1500000, B1500000}, {2000000, B2000000}, {2500000, B2500000},
    {3000000, B3000000}, {3500000, B3500000}, {4000000, B4000000}};

const Speed* speed_of(std::uint32_t baud) {
    const auto* const found = std::find_if(std::begin(speeds), std::end(speeds),
                                           [=](const Speed& each) { return each.baud == baud; });
    return found == std::end(speeds) ? nullptr : found;
}

} // namespace

Result<SerialPlace> SerialPlace::parse(const std::string& text) {
    SerialPlace place;
    const std::size_t colon = text.rfind(':');
    /* Names of devices may have colons, too: /dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0. */
    const bool has_speed = colon != std::string::npos && colon + 1 < text.size() &&
                           text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    place.path = has_speed ? text.substr(0, colon) : text;
    if (place.path.empty())
        return Error("\"{}\" names no line.", text)
            .hint("Name its device, and its speed if that is not 115200: /dev/ttyS1:921600.");
    if (!has_speed) return place;
    const char* const end = text.data() + text.size();
    const auto [behind, failed] = std::from_chars(text.data() + colon + 1, end, place.baud);
    if (failed == std::errc() && behind == end && speed_of(place.baud) != nullptr) return place;
    std::string known;
    for (const Speed& each : speeds)
        known += fmt::format(" {}", each.baud);
    return Error("\"{}\" is no speed of a line.", text.substr(colon + 1)).hint("There are{}.", known);
}

Result<FileDescriptor> open_serial(const SerialPlace& place, int flags) {
    FileDescriptor line(::open(place.path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!line.is_open() && errno == ENXIO)
        return Error::from_errno(errno, "Could not open {}, which nobody reads, or has no device", place.path)
            .hint("Begin `plumb receive` on the other side first.")
            .as(ENXIO);
    if (!line.is_open()) return Error::from_errno(errno, "Could not open {}", place.path);
    if (::isatty(line.get()) == 0) return line;
    termios settings{};
    if (::tcgetattr(line.get(), &settings) != 0)
        return Error::from_errno(errno, "Could not read the settings of {}", place.path);
    ::cfmakeraw(&settings);
    settings.c_cflag |= CLOCAL | CREAD;
    settings.c_cflag &= ~static_cast<tcflag_t>(CSTOPB | CRTSCTS);
    const Speed* const speed = speed_of(place.baud);
    if (speed == nullptr || ::cfsetspeed(&settings, speed->code) != 0 ||
        ::tcsetattr(line.get(), TCSANOW, &settings) != 0)
        return Error::from_errno(errno, "Could not set {} to {} baud", place.path, place.baud);
    return line;
}

Result<std::shared_ptr<SerialLine>> SerialLine::open(const SerialPlace& place) {
    auto line = open_serial(place, O_WRONLY | O_APPEND);
    if (!line) return line.error();
    struct stat info {};
    if (::fstat(line->get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size != 0)
        return Error("There is something in {} already.", place.path).hint("Send into an empty file.");
    std::random_device random;
    return std::shared_ptr<SerialLine>(new SerialLine(std::move(*line), place.path, random()));
}

void SerialLine::add(FrameType type, std::string_view name,
                     std::initializer_list<std::span<const std::byte>> parts) {
    append_frame(frames_, type, recording_, number_++, name, parts);
}

void SerialLine::end_when(std::function<bool()> is_enough) {
    const std::lock_guard lock(mutex_);
    is_enough_ = std::move(is_enough);
}

Status SerialLine::send() {
    std::span<const std::byte> left = frames_;
    Status status = ok();
    while (!left.empty() && status) {
        const ssize_t sent = ::write(line_.get(), left.data(), left.size());
        if (sent > 0) {
            left = left.subspan(static_cast<std::size_t>(sent));
            bytes_since_ += static_cast<std::uint64_t>(sent);
            is_stuck_ = false;
        } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            status = Error::from_errno(errno, "Could not send to {}", path_);
        } else {
            status = wait_for_room();
        }
        if (!left.empty() && status && is_enough_ && is_enough_())
            status = Error("The rest was not sent to {}, as it was asked to end.", path_).as(ECANCELED);
    }
    frames_.clear();
    return status;
}

Status SerialLine::wait_for_room() {
    pollfd writable{line_.get(), POLLOUT, 0};
    for (int waited_ms = 0; !is_stuck_; waited_ms += look_interval_ms) {
        if (::poll(&writable, 1, look_interval_ms) != 0 || (is_enough_ && is_enough_())) return ok();
        is_stuck_ = waited_ms >= patience_ms;
    }
    return Error("{} takes nothing: does anybody read on the other side?", path_).as(ETIMEDOUT);
}

Status SerialLine::send_packet(const std::string& stream, std::span<const std::byte> start,
                               std::span<const std::byte> records, std::size_t padding_bytes) {
    static constexpr std::array<std::byte, 8> zeros{};
    if (1 + stream.size() + start.size() + records.size() + padding_bytes > frame_payload_max)
        return Error("A packet of {} bytes is too large for {}.", records.size(), path_);
    const std::lock_guard lock(mutex_);
    add(FrameType::packet, stream, {start, records, std::span(zeros).first(padding_bytes)});
    if (Status sent = send(); !sent) return sent;
    if (bytes_since_ > others_per_file_byte * file_bytes_) (void)send_all_files();
    return ok();
}

Status SerialLine::send_begin(const std::string& stream, std::uint64_t timestamp) {
    const std::lock_guard lock(mutex_);
    add(FrameType::begin, stream, {std::as_bytes(std::span(&timestamp, 1))});
    return send();
}

void SerialLine::add_file(const std::string& name, const File& file) {
    const auto bytes = std::as_bytes(std::span(file.content));
    for (std::size_t offset = 0; offset < bytes.size(); offset += file_part_bytes) {
        const FilePart part{file.generation, static_cast<std::uint32_t>(bytes.size()),
                            static_cast<std::uint32_t>(offset)};
        add(FrameType::part, name,
            {std::as_bytes(std::span(&part, 1)),
             bytes.subspan(offset, std::min(file_part_bytes, bytes.size() - offset))});
    }
}

Status SerialLine::send_all_files() {
    for (const auto& [name, file] : files_)
        add_file(name, file);
    Status sent = send();
    bytes_since_ = 0;
    return sent;
}

Status SerialLine::send_file(const std::string& name, std::string_view content) {
    const std::lock_guard lock(mutex_);
    File& file = files_[name];
    file_bytes_ += content.size() - file.content.size();
    file.generation++;
    file.content = content;
    add_file(name, file);
    return send();
}

Status SerialLine::end() {
    const std::lock_guard lock(mutex_);
    Status sent = ok();
    for (int times = 0; times < (file_bytes_ <= short_bytes ? times_at_end : 1) && sent; times++)
        sent = send_all_files();
    for (int times = 0; times < times_at_end; times++)
        add(FrameType::end, "", {});
    if (sent) sent = send();
    return sent ? wait_until_sent() : sent;
}

/* What a terminal has not sent yet would be thrown away when it is closed, or hold that up. */
Status SerialLine::wait_until_sent() const {
    constexpr int look_us = 10'000;
    int left = 0, before = std::numeric_limits<int>::max();
    for (int waited_ms = 0; ::ioctl(line_.get(), TIOCOUTQ, &left) == 0 && left > 0;) {
        waited_ms = left < before ? 0 : waited_ms + look_us / 1000;
        before = left;
        if (is_enough_ && is_enough_()) return ok();
        if (waited_ms > patience_ms) return Error("{} does not take the last {} bytes.", path_, left);
        ::usleep(look_us);
    }
    return ok();
}

} // namespace plumb
