#include "consumerd/quiescence.h"

#include "consumerd/processes.h"
#include "consumerd/thread_choice.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <set>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

constexpr std::uint64_t look_interval_ns = 2'000'000;
constexpr std::uint64_t resend_after_ns = 250'000'000;
constexpr std::uint64_t blocked_patience_ns = 500'000'000;

std::uint64_t monotonic_now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/* What has been tried with one process. */
struct Attempt {
    std::uint64_t first_look_ns = 0;
    std::uint64_t sent_ns = 0; /* 0: not yet */
    std::set<std::uint32_t> threads;
};

class Wait {
public:
    Wait(StateFile& state, std::uint64_t generation, const QuiescenceOptions& options)
        : state_(state), options_(options), start_ns_(monotonic_now_ns()) {
        report_.generation = generation;
    }

    Report run() {
        for (;;) {
            const std::uint32_t seen = state_.ack_count();
            const std::uint64_t now_ns = monotonic_now_ns();
            std::size_t pending = 0;
            for (const ProcessSlot& slot : state_.processes())
                pending += is_pending(slot, now_ns) ? 1 : 0;
            if (pending == 0) return std::move(report_);
            if (now_ns - start_ns_ > options_.timeout_ns) return give_up();
            state_.wait_for_ack(seen, look_interval_ns);
        }
    }

private:
    /* Whether this process still has to acknowledge; does what can be done about it. */
    bool is_pending(const ProcessSlot& slot, std::uint64_t now_ns) {
        const plumb_process& process = slot.content;
        if (settled_.count(process.process_id) != 0) return false;
        if ((process.flags & PLUMB_PROCESS_READY) == 0) return is_being_filled(slot);
        if (process.acknowledged >= report_.generation) return acknowledged(process);
        if (!is_same_process(process.process_id, process.registered_boottime_ns)) {
            state_.free_slot(slot);
            return false;
        }
        if (options_.concerns && !options_.concerns(process.process_id)) return settle(process.process_id);
        if (process.signal_number == 0)
            return refuse(process.process_id,
                          "it has no handler (linked with tp-sync.o alone): it asked once, when it started");
        Attempt& attempt = attempts_[process.process_id];
        if (attempt.first_look_ns == 0) attempt.first_look_ns = now_ns;
        if (attempt.sent_ns == 0 || now_ns - attempt.sent_ns > resend_after_ns)
            return send(slot, attempt, now_ns);
        return true;
    }

    bool settle(std::uint32_t process_id) {
        settled_.insert(process_id);
        return false;
    }

    bool refuse(std::uint32_t process_id, std::string reason) {
        report_.unreachable.push_back({process_id, std::move(reason)});
        return settle(process_id);
    }

    /* Claimed a moment ago: it will ask by itself. Or its process died in that moment. */
    bool is_being_filled(const ProcessSlot& slot) {
        if (process_start_boottime_ns(slot.content.process_id)) return true;
        state_.free_slot(slot);
        return false;
    }

    bool acknowledged(const plumb_process& process) {
        if (process.error != 0)
            return refuse(process.process_id, fmt::format("it could not open the session's channel: {}",
                                                          errno_text(process.error)));
        if (attempts_.count(process.process_id) != 0) report_.acknowledged.push_back(process.process_id);
        return settle(process.process_id);
    }

    bool maps_state(std::uint32_t process_id) const {
        const Result<std::vector<MappedFile>> files = mapped_files(process_id);
        if (!files) return true; /* not ours to see */
        return std::any_of(files->begin(), files->end(),
                           [&](const MappedFile& file) { return file.inode == state_.inode(); });
    }

    bool send(const ProcessSlot& slot, Attempt& attempt, std::uint64_t now_ns) {
        const std::uint32_t process_id = slot.content.process_id;
        const std::uint32_t signal_number = slot.content.signal_number;
        const Result<ProcessStatus> status = process_status(process_id);
        if (!status) return true; /* gone by the next look */
        /* Without a handler the signal would end the process. */
        if (signal_number > 64 || (status->caught >> (signal_number - 1) & 1) == 0) {
            if (maps_state(process_id))
                return refuse(process_id,
                              fmt::format("it has no handler for signal {} any more", signal_number));
            state_.free_slot(slot); /* it has called exec since */
            return false;
        }
        const ThreadChoice choice = choose_thread(process_id, signal_number, attempt.threads);
        switch (choice.disturbance) {
        case Disturbance::gone:
            return true;
        case Disturbance::stopped:
            break;
        case Disturbance::blocked:
            if (now_ns - attempt.first_look_ns < blocked_patience_ns) return true; /* it may change */
            return refuse(process_id, fmt::format("signal {} is blocked in every thread", signal_number));
        case Disturbance::interrupted:
            if (now_ns - attempt.first_look_ns < options_.patience_ns) return true;
            report_.disturbed.push_back({process_id, choice.thread_id, choice.system_call});
            break;
        case Disturbance::none:
            break;
        }
        if (::syscall(SYS_tgkill, process_id, choice.thread_id, signal_number) != 0) {
            if (errno == EPERM) return refuse(process_id, "no permission to signal it");
            return true; /* the thread has ended: another one at the next look */
        }
        if (choice.disturbance == Disturbance::stopped)
            return refuse(process_id, "it is stopped: it will ask again when it is continued");
        attempt.sent_ns = now_ns;
        attempt.threads.insert(choice.thread_id);
        return true;
    }

    Report give_up() {
        for (const ProcessSlot& slot : state_.processes()) {
            const std::uint32_t process_id = slot.content.process_id;
            if (settled_.count(process_id) != 0 || slot.content.acknowledged >= report_.generation) continue;
            if (options_.concerns && !options_.concerns(process_id)) continue;
            report_.unreachable.push_back(
                {process_id, fmt::format("it did not answer within {:.1f} s",
                                         static_cast<double>(options_.timeout_ns) / 1e9)});
        }
        return std::move(report_);
    }

    StateFile& state_;
    const QuiescenceOptions& options_;
    std::uint64_t start_ns_;
    Report report_;
    std::set<std::uint32_t> settled_;
    std::map<std::uint32_t, Attempt> attempts_;
};

} // namespace

Result<Report> wait_until_quiescent(StateFile& state, std::uint64_t generation,
                                    const QuiescenceOptions& options) {
    return Wait(state, generation, options).run();
}

} // namespace plumb
