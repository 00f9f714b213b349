/*
 * A few events of everybody, for the recorder itself: who begins, who runs another program. They have a tracing instance of
 * their own, so that no other events push them out, and whom the recording is limited to does not matter.
 *
 *   auto reader = session.open_reader("who");
 *   auto fields = reader->enable("task", "task_newtask");
 *   reader->start();
 *   reader->read([&](const RawEvent& event) { ... });     // in the order of time, all until some moment before
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TRACEFS_READER_H
#define PLUMB_CONSUMERD_KERNEL_TRACEFS_READER_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/kernel/raw_fields.h"
#include "consumerd/kernel/raw_page.h"

#include <plumb/abi/clock_page.h>

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plumb {

/* Of an event of any kind. */
constexpr std::uint32_t raw_type_bytes = 2;
std::uint16_t raw_type(const RawEvent& event);
std::uint32_t raw_thread(const RawEvent& event);

class TracefsReader {
public:
    enum class Room { usual, for_bursts };
    struct Place {
        std::string root; /* of tracefs */
        std::string name; /* of the instance */
        std::string clock;
        plumb_clock_mode clock_mode = PLUMB_CLOCK_TSC;
        RawPageFormat page_format;
        std::uint32_t page_bytes = 4096;
        Room room = Room::usual;
    };
    static Result<std::unique_ptr<TracefsReader>> open(Place place);
    ~TracefsReader();
    TracefsReader(const TracefsReader&) = delete;
    TracefsReader& operator=(const TracefsReader&) = delete;

    /* From start() on. number() of the error is ENOENT where the kernel has no such event. */
    Result<RawFields> enable(const std::string& system, const std::string& event);
    /* Of an event that needs not be switched on, as those of trace_marker. */
    Result<RawFields> fields_of(const std::string& system, const std::string& event) const;
    Status start();
    std::uint64_t now() const; /* by the clock of the events */
    std::string path(const std::string& file) const { return path_ + "/" + file; }

    /* Gives what was written up to the moment at which the call before began, and holds the rest back: an event may be in the
     * middle of being written while its CPU is looked at, and that of another CPU be older. So two calls give all that was
     * there before the first. False if events were lost. */
    bool read(const std::function<void(const RawEvent& event)>& take);
    /* Whether there is something that the next call gives: it wakes nobody any more. */
    bool holds_back() const { return !held_.empty(); }
    /* Sleeps until there are events, or `wake` can be read, or the time is over. */
    void wait(int wake, std::uint64_t timeout_ns) const;

private:
    struct Held {
        std::uint64_t timestamp;
        std::vector<std::byte> data;
    };
    explicit TracefsReader(Place place);
    Status configure();
    bool read_cpu(const FileDescriptor& raw);

    Place place_;
    std::string path_;
    LifeLock lock_;
    std::vector<FileDescriptor> cpus_;
    std::vector<std::byte> page_;
    std::vector<Held> held_;
    std::uint64_t complete_until_ = 0;
};

} // namespace plumb

#endif
