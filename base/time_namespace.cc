#include "base/time_namespace.h"

#include "base/file.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <sys/stat.h>

namespace plumb {

namespace {

constexpr std::uint64_t ns_per_second = 1'000'000'000;
constexpr ino_t first_time_namespace = 0xeffffffa; /* the machine's own */

/* 0: none. */
ino_t inode_of(const char* path) {
    struct stat info {};
    return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

std::optional<TimeOffsets> find_time_offsets() {
    const ino_t inode = inode_of("/proc/self/ns/time");
    if (inode == first_time_namespace) return TimeOffsets{};
    /* A kernel without time namespaces. */
    if (inode == 0) return inode_of("/proc/self/ns/pid") != 0 ? std::optional(TimeOffsets{}) : std::nullopt;
    /* The file tells those of the namespace that children will be in. */
    if (inode_of("/proc/self/ns/time_for_children") != inode) return {};
    const Result<std::string> text = read_small_file("/proc/self/timens_offsets");
    return text ? parse_time_offsets(*text) : std::nullopt;
}

} // namespace

std::optional<TimeOffsets> own_time_offsets() {
    static const std::optional<TimeOffsets> offsets = find_time_offsets();
    return offsets;
}

std::optional<TimeOffsets> parse_time_offsets(std::string_view text) {
    long long monotonic = 0, boottime = 0;
    long monotonic_ns = 0, boottime_ns = 0;
    if (std::sscanf(std::string(text).c_str(), " monotonic %lld %ld boottime %lld %ld", &monotonic,
                    &monotonic_ns, &boottime, &boottime_ns) != 4)
        return {};
    constexpr auto ns = static_cast<std::int64_t>(ns_per_second);
    return TimeOffsets{monotonic * ns + monotonic_ns, boottime * ns + boottime_ns};
}

std::uint64_t machine_time_ns(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    const std::uint64_t ns =
        static_cast<std::uint64_t>(now.tv_sec) * ns_per_second + static_cast<std::uint64_t>(now.tv_nsec);
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME) return ns;
    const TimeOffsets offsets = own_time_offsets().value_or(TimeOffsets{});
    return ns -
           static_cast<std::uint64_t>(clock == CLOCK_MONOTONIC ? offsets.monotonic_ns : offsets.boottime_ns);
}

} // namespace plumb
