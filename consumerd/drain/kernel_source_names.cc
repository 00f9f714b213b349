/* Which process each thread is of, and its name: what the events tell, what was found in /proc, and what the snapshot before knew. */
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/drain/kernel_source.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace plumb {
std::vector<KnownThread> known_threads(const KernelStatedump& dump, const plumb_clock_page& clock,
                                       uint64_t now) {
    const uint64_t now_boottime_ns = boottime_now_ns();
    const bool is_in_cycles = clock.mode == PLUMB_CLOCK_TSC;
    const double counts_per_ns = is_in_cycles ? static_cast<double>(clock.frequency_hz) / 1e9 : 1;
    std::vector<KnownThread> threads;
    for (const auto& [thread_id, origin] : dump.threads) {
        const uint64_t age_ns = now_boottime_ns - std::min(now_boottime_ns, origin.began_boottime_ns);
        const auto age = static_cast<uint64_t>(static_cast<double>(age_ns) * counts_per_ns);
        threads.push_back({thread_id, origin.process_id, now - std::min(now, age), origin.looked_at});
    }
    return threads;
}

/* Unless events are missing in between: the number of one may have been used again by another whose beginning is among those. */
void KernelSource::know_ended() {
    std::vector<NamedThread> before = session_.taken_in().take_kept();
    threads_found_.find(*dump_);
    if (has_lost_events()) return;
    std::map<uint32_t, uint64_t> since;
    for (const KnownThread& thread : known_threads(*dump_, options_.clock, now()))
        since[thread.thread_id] = thread.since;
    std::vector<KnownThread> ended;
    for (NamedThread& thread : before) {
        const auto there = since.find(thread.thread_id);
        if (there != since.end() && there->second <= thread.timestamp) continue;
        ended.push_back({thread.thread_id, thread.process_id, thread.timestamp});
        ended_.push_back(std::move(thread));
    }
    owners_.know(ended, 0);
}

/* For the next snapshot or chunk. */
void KernelSource::remember(const std::vector<NamedThread>& named) {
    if (is_for_chunks_)
        threads_found_.remember(named);
    else if (options_.is_snapshot)
        threads_found_.find(named);
}

/* A snapshot begins with its first event, long behind those who were taken in since the last one. */
void KernelSource::add_names() {
    owners_.add(translator_.take_notes());
    if (options_.is_snapshot && first_read_ == std::numeric_limits<uint64_t>::max()) return;
    owners_.add_taken_in(session_.taken_in().take(),
                         std::max(named_until_, options_.is_snapshot ? first_read_ : 0));
}

Status KernelSource::write_names(Sink& sink, uint64_t until) {
    add_names();
    const std::vector<NamedThread> named = owners_.take(until);
    remember(named);
    named_until_ = std::max(named_until_, until);
    Status written = named.empty() ? ok() : sink.write_kernel_statedump(encode_named_threads(named));
    return written ? sink.tell_names_until(until) : written;
}

/* With what the events tell of names before it and while it was made, in the order of time. */
Status KernelSource::write_dump(Sink& sink) {
    add_names();
    /* In front of all else that is told of them; what tells their names is no event that is recorded. */
    const uint64_t first = std::min(first_read_, owners_.first_held());
    if (first != std::numeric_limits<uint64_t>::max()) owners_.add_taken_in(std::exchange(ended_, {}), first);
    const std::vector<NamedThread> named = owners_.take(dumped_until_);
    remember(named);
    Status dumped = sink.write_kernel_statedump(with_named_threads(dump_->records, named));
    named_until_ = std::max(named_until_, dumped_until_);
    dump_.reset();
    return dumped ? sink.tell_names_until(dumped_until_) : dumped;
}

Status KernelSource::end_chunk(Sink& sink, uint64_t until, const plumb_clock_page* clock) {
    begin_end(clock);
    for (Cpu& cpu : cpus_)
        look_at_counts(cpu);
    return write_names(sink, until);
}

void KernelSource::begin_line(uint64_t, const plumb_clock_page* clock) {
    begin_end(clock);
}

Status KernelSource::begin_chunk(Sink& sink, uint64_t since) {
    dump_ = kernel_statedump(options_.statedump);
    dumped_until_ = now();
    owners_.know(known_threads(*dump_, options_.clock, now()), dumped_until_);
    for (Cpu& cpu : cpus_)
        note_until(cpu, dumped_until_);
    add_names();
    const std::vector<NamedThread> named =
        threads_found_.begin_chunk(since, *dump_, owners_.take(dumped_until_));
    Status dumped = sink.write_kernel_statedump(with_named_threads(dump_->records, named));
    named_until_ = std::max(named_until_, dumped_until_);
    dump_.reset();
    return dumped ? sink.tell_names_until(dumped_until_) : dumped;
}

} // namespace plumb
