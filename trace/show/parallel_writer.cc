#include "trace/show/parallel_writer.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace plumb {

/* Large events make much text: what waits is bounded by their size, too. */
static constexpr uint64_t batch_bits_max = uint64_t{8} << 20;

bool can_write_parallel(const TraceReader& reader) {
    const auto& layouts = reader.layouts();
    return std::all_of(layouts.begin(), layouts.end(),
                       [](const auto& layout) { return layout->has_only_plumb_records(); });
}

ParallelWriter::ParallelWriter(const TraceReader& reader, OutputBuffer& out, MakeWriter make,
                               unsigned helpers, std::size_t batch_events)
    : out_(out), make_(std::move(make)), helper_count_(helpers), batch_events_(batch_events) {
    for (const auto& layout : reader.layouts())
        slot_count_ = std::max<std::size_t>(slot_count_, layout->packet_header_slot_count());
    filling_ = make_batch();
}

ParallelWriter::~ParallelWriter() {
    end_helpers();
}

std::unique_ptr<ParallelWriter::Batch> ParallelWriter::make_batch() {
    auto batch = std::make_unique<Batch>();
    batch->events.reserve(batch_events_);
    batch->slots.resize(slot_count_);
    batch->writer = make_(batch->text);
    return batch;
}

void ParallelWriter::write(const Event& event) {
    if (filling_->events.empty()) filling_->before_ns = last_ns_;
    filling_->events.push_back(event);
    last_ns_ = event.time_ns;
    filling_->bits += event.end_bit - event.context_bit;
    if (filling_->events.size() < batch_events_ && filling_->bits < batch_bits_max) return;
    if (helpers_.empty() && helper_count_ > 0) begin_helpers();
    std::unique_lock lock(mutex_);
    hand_over(lock);
    /* Not more text than for a few batches waits to be written: who reads the trace makes some of it meanwhile. */
    put_finished(lock, std::size_t{2} * (helpers_.size() + 1));
    if (spare_.empty()) {
        filling_ = make_batch();
    } else {
        filling_ = std::move(spare_.back());
        spare_.pop_back();
    }
}

void ParallelWriter::begin_helpers() {
    try {
        for (unsigned i = 0; i < helper_count_; i++)
            helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
        helper_count_ = 0; /* a limit of processes: those that could be begun do it, and this thread */
    }
}

void ParallelWriter::hand_over(std::unique_lock<std::mutex>&) {
    waiting_.push_back(filling_.get());
    batches_.push_back(std::move(filling_));
    work_.notify_one();
}

void ParallelWriter::help() {
    std::unique_lock lock(mutex_);
    do
        work_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    while (take_and_make(lock));
}

void ParallelWriter::make_text(Batch& batch) {
    batch.writer->continue_after(batch.before_ns);
    for (Event& event : batch.events) {
        event.slots = batch.slots.data();
        batch.writer->write(event);
    }
}

/* False: there is nothing to take. */
bool ParallelWriter::take_and_make(std::unique_lock<std::mutex>& lock) {
    if (waiting_.empty()) return false;
    Batch& batch = *waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
        make_text(batch);
    } catch (...) { /* no memory */
        failure = std::current_exception();
    }
    lock.lock();
    batch.is_done = true;
    if (failure) failure_ = failure;
    done_.notify_one();
    return true;
}

/* Writes what is done, in order, and waits, or makes text, until no more than so many batches are left. */
void ParallelWriter::put_finished(std::unique_lock<std::mutex>& lock, std::size_t left_at_most) {
    while (!batches_.empty()) {
        if (!batches_.front()->is_done) {
            if (batches_.size() <= left_at_most) return;
            if (!take_and_make(lock)) done_.wait(lock, [this] { return batches_.front()->is_done; });
            continue;
        }
        if (failure_) std::rethrow_exception(failure_);
        std::unique_ptr<Batch> batch = std::move(batches_.front());
        batches_.pop_front();
        lock.unlock();
        out_.put_through(batch->text.text());
        batch->text.clear();
        batch->events.clear();
        batch->bits = 0;
        batch->is_done = false;
        spare_.push_back(std::move(batch));
        lock.lock();
    }
}

void ParallelWriter::end_helpers() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
        waiting_.clear();
    }
    work_.notify_all();
    for (std::thread& helper : helpers_)
        helper.join();
    helpers_.clear();
}

void ParallelWriter::finish() {
    std::unique_lock lock(mutex_);
    hand_over(lock);
    put_finished(lock, 0);
    lock.unlock();
    end_helpers();
    for (const auto& batch : spare_)
        damaged_events_ += batch->writer->damaged_events();
}

} // namespace plumb
