#include "consumerd/line/line_receiver.h"

#include "base/ctf_layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plumb {
namespace {

constexpr char metadata_name[] = "metadata";
constexpr char summary_name[] = "summary.json";
constexpr std::size_t name_letters_max = 64;
constexpr std::size_t domains_max = 64;
constexpr std::size_t streams_max = 65'536;
constexpr std::size_t files_max = 128;
constexpr std::size_t files_bytes_max = file_bytes_max;

bool is_word(std::string_view word) {
    return !word.empty() && word.size() <= name_letters_max &&
           std::all_of(word.begin(), word.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
           });
}

/* "ust/ring_0": of a domain's folder, and nothing outside of it. */
bool is_name_of_part(std::string_view name) {
    const std::size_t slash = name.find('/');
    return slash != std::string_view::npos && is_word(name.substr(0, slash)) &&
           is_word(name.substr(slash + 1));
}

std::string file_in(std::string_view name) {
    return std::string(name.substr(name.find('/') + 1));
}

bool is_packet(std::span<const std::byte> bytes) {
    CtfPacketStart start{};
    if (bytes.size() < ctf_start_bytes_without_cpu) return false;
    std::memcpy(&start, bytes.data(), ctf_start_bytes_without_cpu);
    return start.header.magic == ctf_magic && start.context.packet_size == uint64_t{bytes.size()} * 8 &&
           start.context.content_size <= start.context.packet_size;
}

/* Over a network some servers say only when a file is closed that there is no room. So a second descriptor is closed, while the
 * first can still cut back what was written. Returns 0, or the errno. */
int close_copy(int file) {
    const int copy = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return errno;
    return ::close(copy) == 0 || errno == EINTR ? 0 : errno;
}

} // namespace

Status LineReceiver::take(std::span<const std::byte> bytes) {
    scanner_.add(bytes);
    return take_frames();
}

Status LineReceiver::silence() {
    scanner_.look_behind_begun();
    return take_frames();
}

Status LineReceiver::finish() {
    for (uint64_t before = UINT64_MAX; before != scanner_.skipped_bytes() && !has_end_ && !has_another_;) {
        before = scanner_.skipped_bytes();
        scanner_.give_up_begun();
        if (Status taken = take_frames(); !taken) return taken;
    }
    has_another_ = has_another_ || seems_another_;
    return ok();
}

Status LineReceiver::take_frames() {
    while (!has_another_ && !has_end_) {
        const std::optional<Frame> frame = scanner_.next();
        if (!frame) return ok();
        if (Status taken = take(*frame); !taken) return taken;
    }
    return ok();
}

/* A line brings frames in the order in which they were sent. Of a recording before this one there may be a rest in it.
 *
 * What looks like a frame of another recording may be what a traced program has put into an event, found since the frame
 * around it was damaged. Where it directly follows one of ours, or is too far behind the last of these, it is in none. */
bool LineReceiver::is_next(const Frame& frame) {
    if (recording_ && *recording_ != frame.recording && has_trace()) {
        seems_another_ = true;
        has_another_ = frame.begin == own_end_ || frame.begin - own_end_ > frame_bytes_max;
        refused_frames_ += !has_another_;
        return false;
    }
    own_end_ = frame.end;
    seems_another_ = false;
    if (!recording_ || *recording_ != frame.recording) {
        recording_ = frame.recording;
        whole_frames_ = refused_frames_ = 0;
        files_.clear();
        files_bytes_ = 0;
    } else if (frame.number <= last_number_) {
        refused_frames_++;
        return false;
    }
    last_number_ = frame.number;
    return true;
}

Status LineReceiver::take(const Frame& frame) {
    if (!is_next(frame)) return ok();
    whole_frames_++;
    switch (frame.type) {
    case FrameType::packet:
        return take_packet(frame);
    case FrameType::begin:
        return take_begin(frame);
    case FrameType::part:
        return take_part(frame);
    case FrameType::end: /* of one before this, if there is nothing that it could be the end of */
        has_end_ = has_trace();
        return ok();
    }
    return refuse();
}

Status LineReceiver::refuse() {
    refused_frames_++;
    return ok();
}

Result<const Folder*> LineReceiver::folder_of(std::string_view name) {
    const std::string domain(name.substr(0, name.find('/')));
    if (const auto known = domains_.find(domain); known != domains_.end()) return &known->second;
    const std::string path = folder_.path_of(domain);
    if (::mkdirat(folder_.fd(), domain.c_str(), 0755) != 0 && errno != EEXIST)
        return Error::from_errno(errno, "Could not make the directory {}", path);
    auto opened = Folder::open(path);
    if (!opened) return opened.error();
    return &domains_.emplace(domain, std::move(*opened)).first->second;
}

/* Whole, or not at all. */
Status LineReceiver::take_packet(const Frame& frame) {
    if (!is_name_of_part(frame.name) || file_in(frame.name) == metadata_name || !is_packet(frame.content))
        return refuse();
    if (!streams_.contains(frame.name)) {
        if (streams_.size() >= streams_max || domains_.size() >= domains_max) return refuse();
        streams_.emplace(frame.name);
    }
    const auto folder = folder_of(frame.name);
    if (!folder) return folder.error();
    const std::string name = file_in(frame.name);
    const FileDescriptor file(::openat((*folder)->fd(), name.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644));
    struct stat before {};
    if (!file.is_open() || ::fstat(file.get(), &before) != 0)
        return Error::from_errno(errno, "Could not write to {}", (*folder)->path_of(name));
    const ssize_t written = ::write(file.get(), frame.content.data(), frame.content.size());
    const int number = written < 0                                             ? errno
                       : written != static_cast<ssize_t>(frame.content.size()) ? ENOSPC
                                                                               : close_copy(file.get());
    if (number != 0) {
        (void)::ftruncate(file.get(), before.st_size);
        return Error::from_errno(number, "Could not write to {}", (*folder)->path_of(name));
    }
    packets_++;
    packet_bytes_ += frame.content.size();
    return ok();
}

/* Of the first packet, where that has arrived. */
Status LineReceiver::take_begin(const Frame& frame) {
    uint64_t timestamp = 0;
    if (frame.content.size() != sizeof(timestamp) || !streams_.contains(frame.name)) return refuse();
    std::memcpy(&timestamp, frame.content.data(), sizeof(timestamp));
    const auto folder = folder_of(frame.name);
    if (!folder) return folder.error();
    const std::string name = file_in(frame.name);
    const FileDescriptor file(::openat((*folder)->fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    CtfPacketStart first{};
    constexpr auto place = static_cast<off_t>(offsetof(CtfPacketStart, context.timestamp_begin));
    if (!file.is_open() || ::pread(file.get(), &first, ctf_start_bytes_without_cpu, 0) !=
                               static_cast<ssize_t>(ctf_start_bytes_without_cpu))
        return ok();
    if (first.context.packet_seq_num != 0 || timestamp >= first.context.timestamp_begin) return ok();
    const ssize_t written = ::pwrite(file.get(), &timestamp, sizeof(timestamp), place);
    const int number = written < 0 ? errno : close_copy(file.get());
    if (number != 0 || written != static_cast<ssize_t>(sizeof(timestamp)))
        return Error::from_errno(number != 0 ? number : ENOSPC, "Could not write to {}",
                                 (*folder)->path_of(name));
    return ok();
}

Status LineReceiver::take_part(const Frame& frame) {
    FilePart part{};
    if (frame.content.size() < sizeof(part)) return refuse();
    std::memcpy(&part, frame.content.data(), sizeof(part));
    const std::span<const std::byte> bytes = frame.content.subspan(sizeof(part));
    const bool is_known =
        frame.name == summary_name || (is_name_of_part(frame.name) && file_in(frame.name) == metadata_name);
    if (!is_known || part.total_bytes == 0 || part.total_bytes > file_bytes_max ||
        part.offset % file_part_bytes != 0 || part.offset >= part.total_bytes ||
        bytes.size() != std::min<std::size_t>(file_part_bytes, part.total_bytes - part.offset) ||
        (files_.size() >= files_max && !files_.contains(frame.name)))
        return refuse();
    File& file = files_[std::string(frame.name)];
    if (part.generation < file.generation || part.generation <= file.written_generation) return ok();
    if (part.generation > file.generation || file.total_bytes != part.total_bytes) {
        const std::size_t all_bytes = files_bytes_ - file.total_bytes + part.total_bytes;
        if (all_bytes > files_bytes_max) return refuse();
        files_bytes_ = all_bytes;
        file.generation = part.generation;
        file.total_bytes = part.total_bytes;
        file.parts.clear();
    }
    file.parts.try_emplace(part.offset, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (file.parts.size() < (part.total_bytes + file_part_bytes - 1) / file_part_bytes) return ok();
    std::string content;
    for (const auto& [offset, text] : file.parts)
        content += text;
    file.parts.clear();
    file.written_generation = file.generation;
    if (frame.name == summary_name) return folder_.replace_file(summary_name, content);
    const auto folder = folder_of(frame.name);
    if (!folder) return folder.error();
    return (*folder)->replace_file(file_in(frame.name), content);
}

uint64_t LineReceiver::missing_frames() const {
    const uint64_t sent = recording_ ? uint64_t{last_number_} + 1 : 0;
    return sent > whole_frames_ ? sent - whole_frames_ : 0;
}

std::vector<std::string> LineReceiver::incomplete_files() const {
    std::vector<std::string> names;
    for (const auto& [name, file] : files_)
        if (file.written_generation != file.generation) names.push_back(name);
    return names;
}

bool LineReceiver::has_file(std::string_view name) const {
    const auto found = files_.find(name);
    return found != files_.end() && found->second.written_generation != 0;
}

std::vector<std::string> LineReceiver::domains_without_metadata() const {
    std::vector<std::string> found;
    for (const auto& [domain, folder] : domains_)
        if (!has_file(domain + "/" + metadata_name)) found.push_back(domain);
    return found;
}

bool LineReceiver::has_trace() const {
    return packets_ != 0 || std::any_of(files_.begin(), files_.end(),
                                        [](const auto& file) { return file.second.written_generation != 0; });
}

} // namespace plumb
