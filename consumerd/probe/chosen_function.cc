#include "consumerd/probe/chosen_function.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>

namespace plumb {
namespace {

struct CloseLibrary {
    void operator()(void* library) const { dlclose(library); }
};
using LibraryHandle = std::unique_ptr<void, CloseLibrary>;

/* The object of this process that is that file, by whatever path. */
struct LoadedFile {
    struct stat wanted {};
    std::string path;
};

int compare_loaded(dl_phdr_info* object, std::size_t, void* data) {
    auto& file = *static_cast<LoadedFile*>(data);
    struct stat info {};
    if (object->dlpi_name == nullptr || object->dlpi_name[0] == '\0' || stat(object->dlpi_name, &info) != 0)
        return 0;
    if (info.st_dev != file.wanted.st_dev || info.st_ino != file.wanted.st_ino) return 0;
    file.path = object->dlpi_name;
    return 1;
}

Error not_known(const std::string& path, const std::string& symbol, const char* why) {
    return Error("{} of {} is one of several functions, by the kind of processor; which one, {}", symbol,
                 path, why)
        .hint("Probe those that it may be: `nm {}` or a debugger names them (as "
              "__memmove_avx_unaligned_erms), and "
              "`uprobe:{}:0xADDRESS` takes an address.",
              path, path);
}

} // namespace

Result<std::uint64_t> chosen_function(const std::string& path, const ProbedFunction& function) {
    LoadedFile file;
    if (stat(path.c_str(), &file.wanted) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (dl_iterate_phdr(compare_loaded, &file) != 1)
        return not_known(path, function.symbol,
                         "only a program that has loaded the file knows, and Plumb has not.");
    const LibraryHandle library(dlopen(file.path.c_str(), RTLD_LAZY | RTLD_NOLOAD));
    if (!library) return not_known(path, function.symbol, "its library does not tell.");
    void* const code = function.version.empty()
                           ? dlsym(library.get(), function.symbol.c_str())
                           : dlvsym(library.get(), function.symbol.c_str(), function.version.c_str());
    Dl_info info{};
    link_map* object = nullptr;
    if (code == nullptr || dladdr1(code, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0 ||
        object == nullptr)
        return not_known(path, function.symbol, "its library does not tell.");
    link_map* own = nullptr;
    if (dlinfo(library.get(), RTLD_DI_LINKMAP, &own) != 0 || own != object)
        return Error("{} of {} is a function of another object here ({}).", function.symbol, path,
                     info.dli_fname != nullptr && info.dli_fname[0] != '\0' ? info.dli_fname
                                                                            : "the kernel's vDSO")
            .hint("There is nothing of the file to be probed.");
    return reinterpret_cast<std::uint64_t>(code) - object->l_addr;
}

} // namespace plumb
