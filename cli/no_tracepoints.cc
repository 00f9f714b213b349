#include "cli/no_tracepoints.h"

#include "base/elf_file.h"
#include "base/mapped_file.h"
#include "consumerd/event/elf_lttng.h"

#include <algorithm>

namespace plumb {
namespace {

constexpr const char* no_tracepoints_reason =
    "it has no tracepoints: it neither links plumb nor preloads a probe";
constexpr const char* own_lttng_reason =
    "it has LTTng-UST's own library loaded, and no tracepoints of Plumb's: start it by `plumb record "
    "--preload lttng -- COMMAND`, or record it with `lttng`";
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
    return maps("liblttng-ust.so") ? own_lttng_reason : no_tracepoints_reason;
}

bool is_why_no_tracepoints(const std::string& why) {
    return why == no_tracepoints_reason || why == own_lttng_reason || why == old_lttng_reason;
}

bool has_lttng_tracepoints(const std::string& elf_path) {
    const auto elf = ElfFile::open(elf_path);
    return elf && (elf->needs_library(lttng_name) || !lttng_tracepoints_of(*elf).empty());
}

bool needs_old_lttng(const std::string& elf_path) {
    const auto elf = ElfFile::open(elf_path);
    return elf && elf->needs_library(old_lttng_name);
}

} // namespace plumb
