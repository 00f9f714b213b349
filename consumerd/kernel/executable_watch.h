/*
 * Keeps a kernel session limited to processes whose executable matches, also those that start later.
 *
 * The kernel follows what a recorded thread starts, and knows nothing of executables. So each exec() on the machine is heard
 * of: who runs a matching program now is added, and who was recorded and runs another one is hidden. That takes some
 * milliseconds from the exec(): what a matching program did until then is missing; what another one did is left out when it is
 * read. Those who were started meanwhile are found by looking at everybody.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_EXECUTABLE_WATCH_H
#define PLUMB_CONSUMERD_KERNEL_EXECUTABLE_WATCH_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/program_lives.h"
#include "consumerd/kernel/record_filter.h"
#include "consumerd/kernel/tracefs_reader.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace plumb {

class ExecutableWatch : public RecordFilter {
public:
    struct Options {
        std::vector<std::string> globs; /* over the whole path, or its last part */
        /* Others are recorded, too, with all that they start: nobody is hidden. */
        bool others_too = false;
        std::function<void(const std::string&)> log; /* of the watching thread: what went wrong, once */
    };
    /* `session` must live as long, and is limited already. */
    static Result<std::unique_ptr<ExecutableWatch>> open(KernelSession& session, Options options);
    ~ExecutableWatch() override;
    ExecutableWatch(const ExecutableWatch&) = delete;
    ExecutableWatch& operator=(const ExecutableWatch&) = delete;

    /* Adds who runs one now, and listens from then on. */
    Status start();
    /* Nobody is added or hidden any more; what is left can be read. */
    void stop();

    void catch_up() override;
    bool wants(std::span<const std::uint32_t> threads, std::uint64_t time) override;

private:
    ExecutableWatch(KernelSession& session, Options options);
    bool matches(const std::string& executable) const;
    std::vector<std::uint32_t> matching_processes() const;
    Status add_matching();
    NamedThread named_now(std::uint32_t process_id, std::uint32_t thread_id) const;
    Result<std::vector<NamedThread>> tell_names(const std::vector<std::uint32_t>& process_ids,
                                                const std::set<std::uint32_t>& hidden);
    void tell_other_names(const std::vector<NamedThread>& told);
    Status note(const std::vector<std::uint32_t>& process_ids);
    Status hide_others();
    void wake() const;
    void run();
    struct Change {
        bool adds = false;  /* somebody is to be recorded who is not */
        bool hides = false; /* somebody is recorded who is not to be */
    };
    Change change_for(const std::set<std::uint32_t>& process_ids) const;
    Change hear(bool& is_more_to_come);
    bool read();
    void take(const RawEvent& event);
    ProgramLives::Program program_run(std::uint32_t process_id, const std::string& file_name) const;
    void failed(const Error& error);

    KernelSession& session_;
    Options options_;
    std::unique_ptr<TracefsReader> reader_;
    std::optional<RawFields> exec_, newtask_, exit_;
    std::mutex mutex_; /* of the reader and the next */
    ProgramLives programs_;
    std::size_t programs_looked_at_;  /* as many as there may be before it is looked who can be forgotten */
    std::set<std::uint32_t> changed_; /* who has called exec(), as we call them: not heard yet */
    bool is_whole_ = true;            /* nothing was lost since the last time that it was heard */
    FileDescriptor wake_;
    std::atomic<bool> is_over_ = false;
    bool has_failed_ = false;
    std::thread thread_;
};

} // namespace plumb

#endif
