#include "cli/trace_directory.h"

#include <fmt/chrono.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

namespace fs = std::filesystem;

bool is_stream_name(std::string_view name) {
    for (const std::string_view prefix : {std::string_view("ring_"), std::string_view("extra_ring_")}) {
        if (name.substr(0, prefix.size()) != prefix || name.size() == prefix.size()) continue;
        return name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
    }
    return name == "statedump";
}

bool is_plumb_metadata(const fs::path& path) {
    std::ifstream file(path);
    std::string start(4096, '\0');
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    return start.find("plumb_version = \"") != std::string::npos;
}

/* snapshot-1 */
bool is_snapshot_name(std::string_view name) {
    constexpr std::string_view start = "snapshot-";
    return name.starts_with(start) && name.size() > start.size() &&
           name.find_first_not_of("0123456789", start.size()) == std::string_view::npos;
}

/* The files that make up the trace, or the snapshots; or why it is neither. */
Result<std::vector<fs::path>> trace_files(const fs::path& path, bool may_hold_snapshots = true) {
    std::vector<fs::path> files;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
        const std::string name = entry.path().filename();
        if (name == "summary.json" && entry.is_regular_file()) {
            files.push_back(entry.path());
            continue;
        }
        const bool is_folder = entry.is_directory() && !entry.is_symlink();
        if (may_hold_snapshots && is_folder && is_snapshot_name(name)) {
            auto inner = trace_files(entry.path(), false);
            if (!inner) return inner.error();
            files.insert(files.end(), inner->begin(), inner->end());
            files.push_back(entry.path());
            continue;
        }
        if ((name != "ust" && name != "kernel") || !is_folder)
            return Error("{} is not part of a Plumb trace", entry.path().string());
        for (const fs::directory_entry& inner : fs::directory_iterator(entry.path(), failed)) {
            const std::string file = inner.path().filename();
            const bool is_metadata = file == "metadata" && is_plumb_metadata(inner.path());
            if (!is_metadata && !is_stream_name(file) && file != ".metadata.new")
                return Error("{} is not part of a Plumb trace", inner.path().string());
            files.push_back(inner.path());
        }
        files.push_back(entry.path());
    }
    if (failed) return Error("it cannot be read: {}", failed.message());
    return files;
}

} // namespace

std::string default_trace_directory() {
    const std::string name = fmt::format("plumb-trace-{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
    std::string path = name;
    for (int i = 2; fs::exists(fs::symlink_status(path)); i++)
        path = fmt::format("{}-{}", name, i);
    return path;
}

Status clear_trace_directory(const std::string& path, bool force) {
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(path, failed);
    if (status.type() == fs::file_type::not_found) return ok();
    if (!force)
        return Error("{} exists already.", path)
            .hint("Choose another directory with -o, or replace an old trace with --force.");
    if (!fs::is_directory(status))
        return Error("{} exists, and is not a directory: --force replaces nothing but an old trace.", path);
    const auto files = trace_files(path);
    if (!files)
        return Error("{} was not replaced, since {}.", path, files.error().message())
            .hint("--force removes nothing but an old trace.");
    for (const fs::path& file : *files)
        if (!fs::remove(file, failed) && failed)
            return Error("Could not remove {}: {}.", file.string(), failed.message());
    if (!fs::remove(path, failed) && failed) return Error("Could not remove {}: {}.", path, failed.message());
    return ok();
}

} // namespace plumb
