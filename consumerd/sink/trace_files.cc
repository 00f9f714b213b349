#include "consumerd/sink/trace_files.h"

#include "base/trace_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace plumb {

namespace fs = std::filesystem;

TraceFiles files_of_trace(const std::string& directory) {
    TraceFiles files;
    std::error_code failed;
    for (fs::directory_iterator parts(directory, failed), end; !failed && parts != end;
         parts.increment(failed)) {
        const std::string part = parts->path().filename();
        std::error_code unreadable;
        if (!is_domain_folder(part) || !parts->is_directory(unreadable)) continue;
        for (fs::directory_iterator each(parts->path(), unreadable); !unreadable && each != end;
             each.increment(unreadable)) {
            std::error_code unknown;
            const std::uintmax_t bytes = each->is_regular_file(unknown) ? each->file_size(unknown) : 0;
            if (!unknown && bytes != 0)
                files.emplace_back(part + "/" + each->path().filename().string(), bytes);
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<std::string> missing_files(const std::string& directory, const TraceFiles& expected) {
    std::vector<std::string> lines;
    for (const auto& [name, bytes] : expected) {
        std::error_code failed;
        const std::uintmax_t found = fs::file_size(fs::path(directory) / name, failed);
        if (failed == std::errc::permission_denied) continue; /* of its folder the reader says that */
        if (failed)
            lines.push_back(fmt::format("{} is missing: it was recorded, with {} bytes.", name, bytes));
        else if (found < bytes)
            lines.push_back(fmt::format("{} is not whole: it has {} of {} bytes.", name, found, bytes));
    }
    if (!lines.empty() && folders_that_stay({directory}).empty()) return {};
    return lines;
}

} // namespace plumb
