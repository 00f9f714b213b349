/*
 * Who has written, for the summary: how many processes and threads, and the names of processes.
 *
 * Ids and names come from the channel, where any program may write what it likes for as long as a session lasts, so what is
 * kept of them is bounded. What came behind the bound is counted, without a name, and again each time it is told of.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_SEEN_WRITERS_H
#define PLUMB_CONSUMERD_DRAIN_SEEN_WRITERS_H

#include "consumerd/drain/drain_totals.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace plumb {

class SeenWriters {
public:
    static constexpr size_t names_bytes_max = size_t{16} << 20; /* some 100,000 programs */
    static constexpr size_t threads_max = size_t{1} << 17;

    void add_thread(uint32_t process_id, uint32_t thread_id);
    /* The same process id again: another program, after exec. */
    void add_process(TracedName process);

    void add_to(DrainTotals& totals) const;

private:
    std::vector<TracedName> processes_;
    std::unordered_map<uint32_t, size_t> process_index_; /* in processes_, by process id */
    size_t names_bytes_ = 0;
    uint64_t further_processes_ = 0;
    std::unordered_set<uint64_t> threads_; /* (process id << 32) | thread id */
    uint64_t further_threads_ = 0;
};

} // namespace plumb

#endif
