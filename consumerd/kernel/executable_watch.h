/*
 * Keeps a kernel session limited to processes whose executable matches, also those that start later.
 *
 * The kernel follows what a recorded thread starts, and knows nothing of executables. So each exec() on the machine is heard of: who runs
 * a matching program now is added, and who was recorded and runs another one is hidden. That takes some milliseconds from
 * the exec(), in which events are missing, or too many. Those who were started meanwhile are found by looking at everybody.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_EXECUTABLE_WATCH_H
#define PLUMB_CONSUMERD_KERNEL_EXECUTABLE_WATCH_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/kernel/event_reader.h"
#include "consumerd/kernel/kernel_session.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace plumb {

class ExecutableWatch {
public:
    struct Options {
        std::vector<std::string> globs; /* over the whole path, or its last part */
        /* Others are recorded, too, with all that they start: nobody is hidden. */
        bool others_too = false;
        std::function<void(const std::string&)> log; /* of the watching thread: what went wrong, once */
    };
    /* `session` must live as long, and is limited already. */
    static Result<std::unique_ptr<ExecutableWatch>> open(KernelSession& session, Options options);
    ~ExecutableWatch();
    ExecutableWatch(const ExecutableWatch&) = delete;
    ExecutableWatch& operator=(const ExecutableWatch&) = delete;

    /* Adds who runs one now, and listens from then on. */
    Status start();

private:
    ExecutableWatch(KernelSession& session, Options options);
    bool matches(const std::string& executable) const;
    std::vector<std::uint32_t> matching_processes() const;
    Status add_matching();
    Status hide_others();
    void run();
    bool is_concerned(const std::set<std::uint32_t>& process_ids) const;
    bool hear();
    void failed(const Error& error);

    KernelSession& session_;
    Options options_;
    std::unique_ptr<EventReader> reader_;
    std::optional<RawFields> exec_;
    FileDescriptor wake_;
    std::atomic<bool> is_over_ = false;
    bool has_failed_ = false;
    std::thread thread_;
};

} // namespace plumb

#endif
