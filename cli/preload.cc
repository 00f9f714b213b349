#include "cli/preload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace plumb {
namespace {

namespace fs = std::filesystem;

bool holds_probes(const fs::path& directory) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, failed)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("libplumb-") && name.ends_with(".so")) return true;
    }
    return false;
}

std::vector<fs::path> probe_directories(const std::string& name) {
    if (const char* chosen = std::getenv("PLUMB_PROBE_DIR"); chosen != nullptr && *chosen != '\0')
        return {chosen};
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed).parent_path();
    std::vector<fs::path> directories = {self / "../probes" / name, self / "../lib/plumb",
                                         self / "../lib64/plumb"};
    for (const fs::directory_entry& entry : fs::directory_iterator(self / "../lib", failed))
        if (holds_probes(entry.path() / "plumb"))
            directories.push_back(entry.path() / "plumb"); /* lib/x86_64-linux-gnu; not lib/cmake */
    return directories;
}

/* The library that a probe needs, beside it as installed or as built; empty if it is not there. */
std::string runtime_of(const fs::path& probe) {
    for (const fs::path& directory : {probe.parent_path() / "..", probe.parent_path() / "../../libtrace"}) {
        std::error_code failed;
        const fs::path file = directory / "libplumb.so.0";
        if (fs::is_regular_file(file, failed)) return file.lexically_normal().string();
    }
    return {};
}

/* What stands beside a probe in a folder of its name: libraries that are to be taken for others, by their names. The loader has to
 * have them before those that the program needs, so they can not come as what the probe needs. */
std::vector<fs::path> stand_ins_of(const fs::path& probe, const std::string& name) {
    std::vector<fs::path> found;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(probe.parent_path() / name, failed))
        if (entry.path().filename().string().ends_with(".so.1")) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

Status append(std::string& value, const std::string& path) {
    if (path.find_first_of(": ") != std::string::npos)
        return Error("{} cannot be preloaded: the loader separates names by spaces and colons.", path);
    value += (value.empty() ? "" : ":") + path;
    return std::monostate{};
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
    std::string runtime;
    for (const std::string& probe : probes) {
        const auto path = find_probe(probe);
        if (!path) return path.error();
        if (const auto added = append(value, *path); !added) return added.error();
        for (const fs::path& stand_in : stand_ins_of(*path, probe))
            if (const auto added = append(value, stand_in.string()); !added) return added.error();
        if (runtime.empty()) runtime = runtime_of(*path);
    }
    if (!runtime.empty())
        if (const auto added = append(value, runtime); !added) return added.error();
    return value;
}

Result<std::string> runtime_variable(const std::string& probe, const char* inherited) {
    std::string value = inherited != nullptr ? inherited : "";
    const auto path = find_probe(probe);
    if (!path) return path.error();
    const std::string runtime = runtime_of(*path);
    if (!runtime.empty())
        if (const auto added = append(value, runtime); !added) return added.error();
    return value;
}

std::string asan_options(const char* inherited) {
    const std::string value = inherited != nullptr ? inherited : "";
    if (value.find("verify_asan_link_order") != std::string::npos) return value;
    return value + (value.empty() ? "" : ":") + "verify_asan_link_order=0";
}

} // namespace plumb
