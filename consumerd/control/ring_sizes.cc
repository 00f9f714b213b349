#include "consumerd/control/ring_sizes.h"

#include "base/memory_room.h"
#include "base/number_text.h"
#include "consumerd/control/user_directory.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace plumb {
namespace {

constexpr std::uint32_t least_default_count = 4;

/* Rings that ride out a consumer which does not get a CPU for a while: 16 MiB each, but no more in all than 96 MiB, or 512
 * where only those take memory that are written, and than a quarter of what may be had, so that a small container is enough
 * too: of /dev/shm, and of the memory that the recorder and those that it attaches to may use, to whom the pages of the rings
 * are charged. */
std::uint64_t default_ring_bytes(const ChannelConfig& config, std::uint64_t rings,
                                 const std::vector<std::uint32_t>& attached) {
    constexpr std::uint64_t mib = 1 << 20;
    std::uint64_t bytes =
        std::min(rings * 16, std::uint64_t{do_rings_get_memory_later(config) ? 512u : 96u}) * mib;
    struct statvfs room {};
    const auto directory = UserDirectory::open_existing(main_place(::geteuid()));
    if (directory ? ::fstatvfs(directory->fd(), &room) == 0 : ::statvfs("/dev/shm", &room) == 0)
        bytes = std::min(bytes, room_of_file_system(room) / 4);
    bytes = std::min(bytes, memory_room(static_cast<std::uint32_t>(::getpid())).bytes / 4);
    for (const std::uint32_t process_id : attached)
        bytes = std::min(bytes, memory_room(process_id).bytes / 4);
    return std::min(bytes, file_size_limit() / 2);
}

} // namespace

void choose_ring_sizes(ChannelConfig& config, bool may_choose_bytes,
                       const std::vector<std::uint32_t>& attached) {
    constexpr std::uint32_t most_count = 64;
    constexpr std::uint32_t least_subbuf_bytes = 32 * 1024;
    const RingCounts count_of = ring_counts(config);
    const std::uint64_t rings = std::uint64_t{count_of.of_cpus} + count_of.extra;
    const std::uint64_t each = default_ring_bytes(config, rings, attached) / rings;
    while (may_choose_bytes && config.subbuf_bytes > least_subbuf_bytes &&
           each / config.subbuf_bytes < least_default_count)
        config.subbuf_bytes /= 2;
    const std::uint64_t count =
        std::min<std::uint64_t>(std::bit_floor(each / config.subbuf_bytes), most_count);
    config.subbuf_count = std::max(static_cast<std::uint32_t>(count), least_default_count);
}

std::uint64_t file_size_limit() {
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return std::numeric_limits<std::uint64_t>::max();
    return limit.rlim_cur;
}

Status check_memory_for(const ChannelConfig& config) {
    static constexpr std::uint64_t own_bytes =
        2 << 20; /* what the recorder takes besides, before it has read anything */
    const auto layout = lay_out_channel(config);
    if (!layout) return layout.error();
    const std::uint64_t bytes = layout->total_bytes;
    const auto too_little = [](std::uint64_t needed, std::uint64_t left, const std::string& limit) {
        return Error("Too little memory for the rings: {} are needed, {} are left of {}.", size_text(needed),
                     size_text(left), limit)
            .hint("Use fewer or smaller sub-buffers (--subbuf-count, --subbuf-size), or raise the limit.");
    };
    const MemoryRoom room = memory_room(static_cast<std::uint32_t>(::getpid()));
    if (room.is_limited() && bytes + own_bytes > room.bytes)
        return too_little(bytes + own_bytes, room.bytes, room.limit);
    if (bytes > file_size_limit()) return too_little(bytes, file_size_limit(), "RLIMIT_FSIZE (`ulimit -f`)");
    return ok();
}

} // namespace plumb
