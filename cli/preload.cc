#include "cli/preload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

namespace plumb {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> probe_directories(const std::string& name) {
    if (const char* chosen = std::getenv("PLUMB_PROBE_DIR"); chosen != nullptr && *chosen != '\0')
        return {chosen};
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed).parent_path();
    std::vector<fs::path> directories = {self / "../probes" / name, self / "../lib/plumb",
                                         self / "../lib64/plumb"};
    for (const fs::directory_entry& entry : fs::directory_iterator(self / "../lib", failed))
        if (entry.is_directory(failed))
            directories.push_back(entry.path() / "plumb"); /* lib/x86_64-linux-gnu */
    return directories;
}

} // namespace

Result<std::string> find_probe(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos)
        return Error("\"{}\" is not the name of a probe.", name);
    std::vector<std::string> tried;
    for (const fs::path& directory : probe_directories(name)) {
        const fs::path file = directory / fmt::format("libplumb-{}.so", name);
        std::error_code failed;
        if (fs::is_regular_file(file, failed)) return fs::canonical(file, failed).string();
        tried.push_back(directory.lexically_normal().string());
    }
    return Error("There is no probe \"{}\": libplumb-{}.so is not in {}.", name, name, fmt::join(tried, ", "))
        .hint("Name its directory in PLUMB_PROBE_DIR.");
}

Result<std::string> preload_variable(const std::vector<std::string>& probes, const char* inherited) {
    std::string value = inherited != nullptr ? inherited : "";
    for (const std::string& probe : probes) {
        const auto path = find_probe(probe);
        if (!path) return path.error();
        if (path->find_first_of(": ") != std::string::npos)
            return Error("{} cannot be preloaded: the loader separates names by spaces and colons.", *path);
        value += (value.empty() ? "" : ":") + *path;
    }
    return value;
}

} // namespace plumb
