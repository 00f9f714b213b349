#include "consumerd/drain/seen_writers.h"

#include <utility>

namespace plumb {
namespace {

size_t bytes_of(const TracedName& process) {
    constexpr size_t of_the_index = 64;
    return sizeof(process) + of_the_index + process.name.size() + process.executable.size();
}

} // namespace

void SeenWriters::add_thread(uint32_t process_id, uint32_t thread_id) {
    const uint64_t thread = uint64_t{process_id} << 32 | thread_id;
    if (threads_.size() < threads_max)
        threads_.insert(thread);
    else if (!threads_.contains(thread))
        further_threads_++;
}

void SeenWriters::add_process(TracedName process) {
    const auto known = process_index_.find(process.process_id);
    const bool is_known = known != process_index_.end();
    const size_t before = is_known ? bytes_of(processes_[known->second]) : 0;
    const size_t bytes = names_bytes_ - before + bytes_of(process);
    if (bytes > names_bytes_max) {
        further_processes_ += is_known ? 0 : 1;
        return;
    }
    names_bytes_ = bytes;
    if (is_known) {
        processes_[known->second] = std::move(process);
        return;
    }
    const uint32_t process_id = process.process_id;
    processes_.push_back(
        std::move(process)); /* first: the index speaks of nobody whom memory did not suffice for */
    process_index_.emplace(process_id, processes_.size() - 1);
}

void SeenWriters::add_to(DrainTotals& totals) const {
    totals.processes = processes_;
    totals.further_processes = further_processes_;
    totals.threads = threads_.size() + further_threads_;
}

} // namespace plumb
