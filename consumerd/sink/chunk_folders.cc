#include "consumerd/sink/chunk_folders.h"

#include "base/trace_folders.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace plumb {

Result<std::string> ChunkFolders::make() {
    next_ = fmt::format("chunk-{:08}-{:%Y%m%dT%H%M%S%z}", number_ + 1, fmt::localtime(std::time(nullptr)));
    return directory_->make_folder(next_ + unfinished_name_end);
}

void ChunkFolders::enter() {
    name_ = std::exchange(next_, {});
    number_++;
}

void ChunkFolders::drop() {
    (void)directory_->remove_trace(std::exchange(next_, {}) + unfinished_name_end).has_value();
}

Status ChunkFolders::finish(std::uint64_t events, std::uint64_t bytes) {
    if (Status renamed = directory_->rename_folder(name_ + unfinished_name_end, name_); !renamed)
        return renamed;
    finished_.push_back({name_, events, bytes});
    finished_bytes_ += bytes;
    return ok();
}

void ChunkFolders::remove_old(std::uint64_t bytes_being_written, std::vector<Error>& problems) {
    const auto are_too_many = [&] { return limits_.count && finished_.size() > *limits_.count; };
    const auto are_too_large = [&] {
        return limits_.bytes && finished_bytes_ + bytes_being_written > *limits_.bytes;
    };
    while (!finished_.empty()) {
        const bool by_count = are_too_many();
        if (!by_count && !are_too_large()) return;
        const Finished oldest = std::move(finished_.front());
        finished_.pop_front();
        finished_bytes_ -= oldest.bytes;
        if (Status gone = directory_->remove_trace(oldest.name); !gone) {
            if (gone.error().number() != ENOENT) problems.push_back(gone.error());
            continue;
        }
        removed_.count++;
        removed_.events += oldest.events;
        removed_.bytes += oldest.bytes;
        if (removed_.first.empty()) removed_.first = oldest.name;
        removed_.last = oldest.name;
        (by_count ? removed_.by_count : removed_.by_bytes) = true;
    }
}

std::vector<std::string> ChunkFolders::finished() const {
    std::vector<std::string> names;
    for (const Finished& each : finished_)
        names.push_back(each.name);
    return names;
}

} // namespace plumb
