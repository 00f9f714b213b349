#include "trace/debug_file.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

namespace plumb {
namespace {

/* As /usr/include/elfutils/debuginfod.h declares them; the library is looked for only where a server is named. */
struct DebuginfodClient;
struct Debuginfod {
    DebuginfodClient* (*begin)();
    int (*find_debuginfo)(DebuginfodClient*, const unsigned char* build_id, int build_id_bytes, char** path);
    void (*end)(DebuginfodClient*);
    bool is_there = false;

    Debuginfod() {
        void* const library = ::dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return;
        is_there = find(library, "debuginfod_begin", begin) &&
                   find(library, "debuginfod_find_debuginfo", find_debuginfo) &&
                   find(library, "debuginfod_end", end);
    }

private:
    template <typename Function>
    static bool find(void* library, const char* name, Function*& function) {
        function = reinterpret_cast<Function*>(::dlsym(library, name));
        return function != nullptr;
    }
};

std::string from_server(const std::string& build_id) {
    const char* const servers = ::getenv("DEBUGINFOD_URLS");
    if (servers == nullptr || *servers == '\0') return {};
    static const Debuginfod debuginfod;
    if (!debuginfod.is_there) return {};
    DebuginfodClient* const client = debuginfod.begin();
    if (client == nullptr) return {};
    char* path = nullptr;
    /* A length of 0 says that it is text. */
    const int file =
        debuginfod.find_debuginfo(client, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &path);
    const std::unique_ptr<char, void (*)(void*)> owned(path, std::free);
    debuginfod.end(client);
    if (file < 0 || path == nullptr) return {};
    ::close(file);
    return path;
}

} // namespace

std::string debug_file_of(const std::string& build_id) {
    const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
    if (build_id.size() <= 2 || build_id.size() > 128 ||
        !std::all_of(build_id.begin(), build_id.end(), is_hex))
        return {};
    std::string local =
        fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2), build_id.substr(2));
    if (::access(local.c_str(), R_OK) == 0) return local;
    return from_server(build_id);
}

} // namespace plumb
