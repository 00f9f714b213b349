#include "consumerd/control/no_tracepoints.h"

#include "base/elf_file.h"
#include "base/elf_headers.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "consumerd/event/elf_lttng.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace plumb {
namespace {

constexpr const char* no_tracepoints_reason =
    "it has no tracepoints: it neither links plumb nor preloads a probe";
constexpr const char* own_lttng_reason =
    "it has LTTng-UST's own library loaded, and no tracepoints of Plumb's: start it by `plumb record "
    "--preload lttng -- COMMAND`, a service with the LD_LIBRARY_PATH of `man 7 plumb-from-lttng`, or record "
    "it with `lttng`";
constexpr const char* own_lttng_for_good_reason = "it has LTTng-UST's own library loaded, and is one into "
                                                  "which nothing can be preloaded (set-user-ID): `lttng` "
                                                  "records it";
constexpr const char* old_lttng_reason =
    "it has the library of LTTng-UST 2.12 or older loaded (liblttng-ust.so.0), whose tracepoints Plumb does "
    "not record: `lttng` does";
constexpr const char* old_lttng_name = "liblttng-ust.so.0";
constexpr const char* lttng_name = "liblttng-ust.so.1";

} // namespace

std::string why_no_tracepoints(std::uint32_t process_id) {
    const auto files = mapped_files(process_id);
    if (!files) return no_tracepoints_reason;
    const auto maps = [&](const std::string& beginning) {
        return std::any_of(files->begin(), files->end(), [&](const MappedFile& file) {
            return file.path.substr(file.path.rfind('/') + 1).starts_with(beginning);
        });
    };
    if (maps(old_lttng_name)) return old_lttng_reason;
    if (!maps("liblttng-ust.so")) return no_tracepoints_reason;
    return why_no_preload(fmt::format("/proc/{}/exe", process_id)) != nullptr ? own_lttng_for_good_reason
                                                                              : own_lttng_reason;
}

bool is_why_no_tracepoints(const std::string& why) {
    const auto is_it = [&](const char* reason) { return why == reason; };
    return is_it(no_tracepoints_reason) || is_it(own_lttng_reason) || is_it(own_lttng_for_good_reason) ||
           is_it(old_lttng_reason);
}

bool has_lttng_tracepoints(const std::string& elf_path) {
    const auto elf = ElfFile::open(elf_path);
    return elf && (elf->needs_library(lttng_name) || !lttng_tracepoints_of(*elf).empty());
}

const char* why_no_preload(const std::string& elf_path) {
    struct stat file;
    if (::stat(elf_path.c_str(), &file) != 0) return nullptr;
    const bool is_of_another = ((file.st_mode & S_ISUID) != 0 && file.st_uid != ::getuid()) ||
                               ((file.st_mode & S_ISGID) != 0 && file.st_gid != ::getgid());
    if (is_of_another) return "set-user-ID or set-group-ID";
    const FileDescriptor open_file(::open(elf_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const auto headers = open_file.is_open() ? read_elf_headers(open_file) : std::nullopt;
    return headers && !headers->names_loader ? "statically linked" : nullptr;
}

bool needs_old_lttng(const std::string& elf_path) {
    const auto elf = ElfFile::open(elf_path);
    return elf && elf->needs_library(old_lttng_name);
}

} // namespace plumb
