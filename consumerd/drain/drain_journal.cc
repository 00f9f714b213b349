#include "consumerd/drain/drain_journal.h"

#include "base/loss_growth.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

namespace plumb {
namespace {

constexpr uint64_t journal_magic = 0x314c4a424d554c50ull; /* "PLUMBJL1" */
constexpr uint32_t journal_version = 2;
constexpr uint64_t position_limit = uint64_t{1} << 62;

/* Two places, and which of them holds: one store says that the other does. */
template <typename Content>
struct Settled {
    static_assert(std::is_trivially_copyable_v<Content>);
    uint64_t which;
    Content places[2];

    Content get() const { return places[__atomic_load_n(&which, __ATOMIC_ACQUIRE) % 2]; }
    Content get_other() const { return places[(__atomic_load_n(&which, __ATOMIC_ACQUIRE) + 1) % 2]; }
    void set(const Content& content) {
        const uint64_t next = which % 2 ^ 1;
        places[next] = content;
        __atomic_store_n(&which, next, __ATOMIC_RELEASE);
    }
    /* Of the one that holds, what nobody believes before it does not. */
    Content& in_place() { return places[which % 2]; }
};

/* "." and ".." are none, nor what is hidden. */
bool is_folder_name(const std::string& name) {
    return !name.empty() && name.size() < sizeof(JournalChunk::name) && name[0] != '.' &&
           name.find('/') == std::string::npos;
}

std::array<uint8_t, 16> boot_id_now() {
    std::array<uint8_t, 16> id{};
    const Result<std::string> text = read_small_file("/proc/sys/kernel/random/boot_id");
    if (text) std::memcpy(id.data(), text->data(), std::min(text->size(), id.size()));
    return id;
}

std::string directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, std::max(slash, size_t{1}));
}

Result<LifeLock> lock_journal(const FileDescriptor& file, const std::string& path) {
    Result<LifeLock> held = LifeLock::hold(file.get());
    if (!held && held.error().number() == EWOULDBLOCK)
        return Error("{} is in use: its session is drained.", path).as(EBUSY);
    return held;
}

template <size_t Count>
std::string bounded(const std::array<char, Count>& text) {
    return std::string(text.data(), strnlen(text.data(), Count));
}

template <size_t Count>
void put(std::array<char, Count>& to, const std::string& text) {
    to.fill('\0');
    std::memcpy(to.data(), text.data(), std::min(text.size(), Count - 1));
}

} // namespace

struct DrainJournal::Content {
    uint64_t magic;
    uint32_t version;
    uint32_t ring_count, extra_ring_count;
    uint32_t is_compact, is_kernel;
    uint64_t cookie;
    std::array<uint8_t, 16> boot_id;
    std::array<char, 64> folder;
    Settled<JournalChunk> chunk;
    Settled<JournalStatedump> statedump;
    Settled<JournalClock> clock;
    Settled<JournalRing> rings[1]; /* as many as there are */

    static uint64_t bytes_for(uint64_t ring_count) {
        return sizeof(Content) + (ring_count - 1) * sizeof(Settled<JournalRing>);
    }
};

void JournalLosses::add(const JournalLosses& other) {
    for (size_t cause = 0; cause < lost.size(); cause++)
        lost[cause] = sum_of_losses(lost[cause], other.lost[cause]);
    damaged_records = sum_of_losses(damaged_records, other.damaged_records);
    damaged_subbufs = sum_of_losses(damaged_subbufs, other.damaged_subbufs);
    not_written = sum_of_losses(not_written, other.not_written);
    taken_along = sum_of_losses(taken_along, other.taken_along);
}

void JournalLosses::add_to(DrainTotals& totals, bool is_kernel) const {
    add_if_any(totals.events_lost, is_kernel ? "kernel_dropped" : "full", lost[PLUMB_LOST_FULL]);
    add_if_any(totals.events_lost, "block_timeout", lost[PLUMB_LOST_BLOCK_TIMEOUT]);
    add_if_any(totals.events_lost, "too_large", lost[PLUMB_LOST_TOO_LARGE]);
    add_if_any(totals.events_lost, "contended", lost[PLUMB_LOST_CONTENDED]);
    add_if_any(totals.events_lost, "clock", lost[PLUMB_LOST_CLOCK]);
    add_if_any(totals.events_lost, "held", lost[PLUMB_LOST_HELD]);
    add_if_any(totals.events_lost, "no_memory", lost[PLUMB_LOST_NO_MEMORY]);
    add_if_any(totals.events_lost, is_kernel ? "kernel_not_written" : "not_written", not_written);
    add_if_any(totals.events_lost, "kernel_reader_killed", taken_along);
    add_if_any(totals.events_lost, "damaged", damaged_records);
    add_if_any(totals.subbufs_lost, "overwritten", lost[PLUMB_LOST_OVERWRITTEN]);
    add_if_any(totals.subbufs_lost, "damaged", damaged_subbufs);
    add_if_any(totals.notes, "cut", lost[PLUMB_CUT]);
}

std::string JournalChunk::folder_name() const {
    return bounded(name);
}

DrainTotals JournalChunk::totals(bool is_kernel) const {
    DrainTotals totals;
    totals.progress.events = totals.progress.chunk_events = events;
    totals.progress.bytes = totals.progress.chunk_bytes = bytes;
    totals.progress.events_discarded = events_lost;
    totals.progress.subbufs_lost = subbufs_lost;
    totals.packets = packets;
    losses.add_to(totals, is_kernel);
    /* Why is not known any more. */
    if (losses.not_written != 0)
        totals.write_error =
            "they could not be written, as on a full disk, by a recorder that has ended since";
    return totals;
}

DrainJournal::DrainJournal(std::string path, LifeLock lock, MappedRegion region, JournalShape shape)
    : path_(std::move(path)),
      directory_(directory_of(path_)),
      lock_(std::move(lock)),
      region_(std::move(region)),
      shape_(std::move(shape)) {}

/* Under another name until it is whole, so that nobody takes a part of it for one. Its room is there before anything is stored. */
Result<std::unique_ptr<DrainJournal>> DrainJournal::create(const std::string& path,
                                                           const JournalShape& shape) {
    const std::string new_path = path + ".new";
    ::unlink(new_path.c_str());
    FileDescriptor file(::open(new_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.is_open()) return Error::from_errno(errno, "Could not make {}", new_path);
    const auto drop = [&](const Error& error) {
        ::unlink(new_path.c_str());
        return error;
    };
    Result<LifeLock> held = lock_journal(file, new_path);
    if (!held) return drop(held.error());
    const uint64_t bytes = Content::bytes_for(shape.all_rings());
    if (const int number = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); number != 0)
        return drop(Error::from_errno(number, "Could not make {}", new_path));
    Result<MappedRegion> region = map_file(file, bytes, true, new_path);
    if (!region) return drop(region.error());
    auto& content = *static_cast<Content*>(region->get_address());
    content.magic = journal_magic;
    content.version = journal_version;
    content.ring_count = shape.ring_count;
    content.extra_ring_count = shape.extra_ring_count;
    content.is_compact = shape.is_compact ? 1 : 0;
    content.is_kernel = shape.is_kernel ? 1 : 0;
    content.cookie = shape.cookie;
    content.boot_id = boot_id_now();
    put(content.folder, shape.folder);
    if (::rename(new_path.c_str(), path.c_str()) != 0)
        return drop(Error::from_errno(errno, "Could not make {}", path));
    return std::unique_ptr<DrainJournal>(new DrainJournal(path, std::move(*held), std::move(*region), shape));
}

Result<std::unique_ptr<DrainJournal>> DrainJournal::open(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    const auto damaged = [&](const char* what) {
        return Error("{} can not be believed: {}.", path, what).as(EBADMSG);
    };
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return damaged("it is no file of this user's");
    Result<LifeLock> held = lock_journal(file, path);
    if (!held) return held.error();
    const auto bytes = static_cast<uint64_t>(info.st_size);
    if (bytes < sizeof(Content)) return damaged("it is too short");
    Result<MappedRegion> region = map_file(file, bytes, true, path);
    if (!region) return region.error();
    const auto& content = *static_cast<const Content*>(region->get_address());
    JournalShape shape;
    shape.cookie = content.cookie;
    shape.ring_count = content.ring_count;
    shape.extra_ring_count = content.extra_ring_count;
    shape.is_compact = content.is_compact != 0;
    shape.is_kernel = content.is_kernel != 0;
    shape.folder = bounded(content.folder);
    const uint64_t rings = uint64_t{shape.ring_count} + shape.extra_ring_count;
    if (content.magic != journal_magic || content.version != journal_version)
        return damaged("it is no journal, or another version's");
    if (rings == 0 || rings > PLUMB_CHANNEL_MAX_RINGS || bytes != Content::bytes_for(rings) ||
        !is_folder_name(shape.folder))
        return damaged("its numbers are not possible");
    if (content.boot_id != boot_id_now()) return damaged("it is from before this machine was started");
    std::unique_ptr<DrainJournal> journal(
        new DrainJournal(path, std::move(*held), std::move(*region), std::move(shape)));
    const auto is_possible = [](const StreamPlace& place) { return place.bytes <= position_limit; };
    bool are_possible = is_possible(journal->statedump().stream);
    for (uint32_t ring = 0; ring < rings; ring++) {
        const JournalRing state = journal->ring(ring);
        are_possible &= is_possible(state.stream) && state.position <= position_limit &&
                        state.position % PLUMB_RECORD_ALIGNMENT == 0;
    }
    if (!are_possible) return damaged("its positions are not possible");
    for (const JournalChunk& chunk : {journal->current(), journal->previous()})
        if (chunk.number != 0 && !is_folder_name(chunk.folder_name()))
            return damaged("it names no chunk's folder");
    return journal;
}

JournalChunk DrainJournal::current() const {
    return content().chunk.get();
}

JournalChunk DrainJournal::previous() const {
    const JournalChunk current = content().chunk.get(), other = content().chunk.get_other();
    return other.number < current.number ? other : JournalChunk{};
}

JournalRing DrainJournal::ring(uint32_t ring) const {
    return content().rings[ring].get();
}

JournalStatedump DrainJournal::statedump() const {
    return content().statedump.get();
}

JournalClock DrainJournal::clock() const {
    return content().clock.get();
}

void DrainJournal::settle(uint32_t ring, const JournalRing& state) {
    if (ring < shape_.all_rings()) content().rings[ring].set(state);
}

void DrainJournal::settle_statedump(const StreamPlace& place) {
    content().statedump.set({content().chunk.get().number, place});
}

void DrainJournal::settle_clock(const plumb_clock_page& page) {
    content().clock.set({content().chunk.get().number, page});
}

JournalChunk DrainJournal::ended_current(uint64_t ended) const {
    JournalChunk chunk = current();
    chunk.ended = ended;
    chunk.events = chunk.packets = chunk.bytes = chunk.events_lost = chunk.subbufs_lost = 0;
    chunk.losses = {};
    const auto add_stream = [&chunk](const StreamPlace& stream) {
        chunk.packets += stream.packets;
        chunk.bytes += stream.bytes;
    };
    if (const JournalStatedump dump = statedump(); dump.chunk == chunk.number) add_stream(dump.stream);
    if (const JournalClock page = clock(); page.chunk == chunk.number) chunk.clock = page.page;
    for (uint32_t i = 0; i < shape_.all_rings(); i++) {
        const JournalRing state = ring(i);
        if (state.chunk != chunk.number) continue;
        add_stream(state.stream);
        chunk.events += state.events;
        chunk.events_lost = sum_of_losses(chunk.events_lost, state.events_lost);
        chunk.subbufs_lost += state.subbufs_lost;
        chunk.losses.add(state.losses);
    }
    return chunk;
}

Status DrainJournal::enter_chunk(const std::string& name, const std::array<uint8_t, 16>& uuid,
                                 uint64_t began) {
    if (!is_folder_name(name)) return Error("\"{}\" is no folder of a chunk.", name);
    const JournalChunk ended = ended_current(began);
    JournalChunk next;
    next.number = ended.number + 1;
    put(next.name, name);
    next.uuid = uuid;
    next.began = began;
    if (ended.number != 0) content().chunk.in_place() = ended;
    content().chunk.set(next);
    return ok();
}

Status DrainJournal::remove() {
    if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return ok();
    return Error::from_errno(errno, "Could not remove {}", path_);
}

} // namespace plumb
