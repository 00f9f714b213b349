#include "consumerd/kernel/tracefs_reader.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/buffer_wait.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/kernel/tracing_instances.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace plumb {

/* Of each CPU. A recorder may be away for some tenths of a second, and a program begin ten thousands of threads in one; many CPUs share
 * what a few would have alone. */
static std::size_t buffer_kib(const std::vector<std::string>& cpus, TracefsReader::Room room) {
    constexpr std::size_t all_kib = 64 * 1024, most_kib = 4096, least_kib = 512;
    if (room == TracefsReader::Room::usual) return least_kib;
    return std::clamp(all_kib / std::max<std::size_t>(cpus.size(), 1), least_kib, most_kib);
}

std::uint16_t raw_type(const RawEvent& event) {
    std::uint16_t type = 0;
    if (event.data.size() >= sizeof(type)) std::memcpy(&type, event.data.data(), sizeof(type));
    return type;
}

std::uint32_t raw_thread(const RawEvent& event) {
    constexpr std::size_t offset = 4;
    std::uint32_t thread = 0;
    if (event.data.size() >= offset + sizeof(thread))
        std::memcpy(&thread, event.data.data() + offset, sizeof(thread));
    return thread;
}

TracefsReader::TracefsReader(Place place)
    : place_(std::move(place)), path_(place_.root + "/instances/" + place_.name), page_(place_.page_bytes) {}

TracefsReader::~TracefsReader() {
    (void)write_tracefs(path("tracing_on"), "0");
    cpus_.clear(); /* an instance that is read from can not be removed */
    (void)rmdir(path_.c_str());
}

Result<std::unique_ptr<TracefsReader>> TracefsReader::open(Place place) {
    auto lock = make_tracing_instance(place.root + "/instances/" + place.name);
    if (!lock) return lock.error();
    std::unique_ptr<TracefsReader> reader(new TracefsReader(std::move(place)));
    reader->lock_ = std::move(*lock);
    if (Status configured = reader->configure(); !configured) return configured.error();
    return reader;
}

Status TracefsReader::configure() {
    if (Status off = write_tracefs(path("tracing_on"), "0"); !off) return off;
    if (Status set = write_tracefs(path("trace_clock"), place_.clock); !set) return set;
    const auto names = list_directory(path("per_cpu"));
    if (!names) return names.error();
    if (Status set =
            write_tracefs(path("buffer_size_kb"), fmt::format("{}", buffer_kib(*names, place_.room)));
        !set)
        return set;
    set_own_options(path_);
    (void)write_tracefs(path("options/overwrite"), "1"); /* what is lost is told in the pages then */
    (void)write_tracefs(path("buffer_percent"), "0");    /* who waits is woken by the first */
    for (const std::string& name : *names) {
        const std::string file = path("per_cpu/" + name + "/trace_pipe_raw");
        FileDescriptor raw(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        if (!raw.is_open()) return Error::from_errno(errno, "Could not open {}", file);
        cpus_.push_back(std::move(raw));
    }
    return ok();
}

Result<RawFields> TracefsReader::fields_of(const std::string& system, const std::string& event) const {
    const auto format = read_small_file(path("events/" + system + "/" + event + "/format"));
    if (!format) return format.error();
    RawFields fields(*format);
    if (fields.id() == 0) return Error("The format of {}:{} is not understood.", system, event);
    return fields;
}

Result<RawFields> TracefsReader::enable(const std::string& system, const std::string& event) {
    auto fields = fields_of(system, event);
    if (!fields) return fields;
    if (Status on = write_tracefs(path("events/" + system + "/" + event + "/enable"), "1"); !on)
        return on.error();
    return fields;
}

std::uint64_t TracefsReader::now() const {
    return read_clock(place_.clock_mode);
}

Status TracefsReader::start() {
    return write_tracefs(path("tracing_on"), "1");
}

bool TracefsReader::read_cpu(const FileDescriptor& raw) {
    bool is_whole = true;
    for (;;) {
        const ssize_t got = ::read(raw.get(), page_.data(), page_.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return is_whole;
        RawPage page(std::span<const std::byte>(page_).first(static_cast<std::size_t>(got)),
                     place_.page_format);
        is_whole &= !page.has_missed();
        for (RawEvent event; page.next(event);)
            held_.push_back({event.timestamp, {event.data.begin(), event.data.end()}});
        is_whole &= !page.is_damaged();
    }
}

bool TracefsReader::read(const std::function<void(const RawEvent& event)>& take) {
    const std::uint64_t began = now();
    bool is_whole = true;
    for (const FileDescriptor& raw : cpus_)
        is_whole &= read_cpu(raw);
    std::stable_sort(held_.begin(), held_.end(),
                     [](const Held& a, const Held& b) { return a.timestamp < b.timestamp; });
    auto at = held_.begin();
    for (; at != held_.end() && at->timestamp <= complete_until_; ++at) {
        RawEvent event;
        event.timestamp = at->timestamp;
        event.data = at->data;
        take(event);
    }
    held_.erase(held_.begin(), at);
    complete_until_ = began;
    return is_whole;
}

void TracefsReader::wait(int wake, std::uint64_t timeout_ns) const {
    std::vector<pollfd> watched = {{wake, POLLIN, 0}};
    for (const FileDescriptor& raw : cpus_)
        watched.push_back({raw.get(), POLLIN, 0});
    wait_for_buffers(watched, timeout_ns);
}

} // namespace plumb
