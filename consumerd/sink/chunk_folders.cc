#include "consumerd/sink/chunk_folders.h"

#include "base/file.h"
#include "base/trace_folders.h"
#include "consumerd/sink/trace_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace plumb {

std::vector<std::string>
ChunkFolders::take_over(const std::function<bool(const std::string& name)>& is_to_be_told) {
    std::vector<std::string> unfinished;
    const auto names = list_directory(directory_->path());
    for (const std::string& name : names ? *names : std::vector<std::string>()) {
        if (!is_chunk_folder(name)) continue;
        number_ =
            std::max(number_, std::uint64_t{std::strtoull(name.c_str() + name.find('-') + 1, nullptr, 10)});
        if (!name.ends_with(unfinished_end)) {
            std::uint64_t bytes = 0;
            for (const auto& [file, file_bytes] : files_of_trace(path_of(name)))
                bytes += file_bytes;
            finished_.push_back({name, 0, bytes});
            finished_bytes_ += bytes;
        } else if (files_of_trace(path_of(name)).empty() && !is_to_be_told(name)) {
            (void)directory_->remove_trace(name).has_value();
        } else {
            unfinished.push_back(name);
        }
    }
    return unfinished;
}

Status ChunkFolders::finish_left(const std::string& name, std::uint64_t events, std::uint64_t bytes) {
    std::string finished = name;
    if (finished.ends_with(unfinished_end)) finished.resize(finished.size() - unfinished_end.size());
    if (Status renamed = directory_->rename_folder(name, finished); !renamed) return renamed;
    finished_.push_back({finished, events, bytes});
    finished_bytes_ += bytes;
    return ok();
}

void ChunkFolders::drop_left(const std::string& name) {
    (void)directory_->remove_trace(name).has_value();
}

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

void ChunkFolders::drop_current() {
    (void)directory_->remove_trace(name_ + unfinished_name_end).has_value();
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
        if (remove_oldest(problems)) (by_count ? removed_.by_count : removed_.by_bytes) = true;
    }
}

std::uint64_t ChunkFolders::remove_finished(std::vector<Error>& problems) {
    std::uint64_t removed = 0;
    while (!finished_.empty())
        removed += remove_oldest(problems) ? 1 : 0;
    return removed;
}

bool ChunkFolders::remove_oldest(std::vector<Error>& problems) {
    const Finished oldest = std::move(finished_.front());
    finished_.pop_front();
    finished_bytes_ -= oldest.bytes;
    if (Status gone = directory_->remove_trace(oldest.name); !gone) {
        if (gone.error().number() != ENOENT) problems.push_back(gone.error());
        return false;
    }
    removed_.count++;
    removed_.events += oldest.events;
    removed_.bytes += oldest.bytes;
    if (removed_.first.empty()) removed_.first = oldest.name;
    removed_.last = oldest.name;
    return true;
}

std::vector<std::string> ChunkFolders::finished() const {
    std::vector<std::string> names;
    for (const Finished& each : finished_)
        names.push_back(each.name);
    return names;
}

} // namespace plumb
