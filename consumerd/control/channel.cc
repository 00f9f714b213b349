#include "consumerd/control/channel.h"

#include "base/process_names.h"
#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

/* Besides, where call stacks are recorded: for some 8,000 names of functions in made code (<plumb/abi/frame_name.h>), which is what
 * the usual slots of entries have room for. */
constexpr std::uint64_t heap_bytes_of_names = 4 * 1024 * 1024;

constexpr std::uint64_t page_bytes = 4096;

std::uint64_t round_to_page(std::uint64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

Status check(const ChannelConfig& config) {
    if (!std::has_single_bit(config.subbuf_bytes) || config.subbuf_bytes < PLUMB_SUBBUF_MIN_BYTES ||
        config.subbuf_bytes > PLUMB_SUBBUF_MAX_BYTES)
        return Error("A sub-buffer of {} bytes is not possible.", config.subbuf_bytes)
            .hint("The size must be a power of two from {} to {} bytes.", PLUMB_SUBBUF_MIN_BYTES,
                  PLUMB_SUBBUF_MAX_BYTES);
    if (!std::has_single_bit(config.subbuf_count) || config.subbuf_count < PLUMB_SUBBUF_MIN_COUNT)
        return Error("{} sub-buffers are not possible.", config.subbuf_count)
            .hint("The count must be a power of two, at least {}.", PLUMB_SUBBUF_MIN_COUNT);
    if (!std::has_single_bit(config.event_slots) || config.event_slots > PLUMB_EVENT_SLOTS_MAX)
        return Error("{} event slots are not possible.", config.event_slots)
            .hint("The count must be a power of two, at most {}.", PLUMB_EVENT_SLOTS_MAX);
    if (config.entry_slots == 0 || config.entry_slots > PLUMB_ENTRY_SLOTS_MAX)
        return Error("{} entry slots are not possible.", config.entry_slots)
            .hint("The count must be from 1 to {}.", PLUMB_ENTRY_SLOTS_MAX);
    if ((config.heap_bytes != 0 && config.heap_bytes < page_bytes) ||
        config.heap_bytes > PLUMB_HEAP_BYTES_MAX)
        return Error("A heap of {} bytes is not possible.", config.heap_bytes)
            .hint("It must have from {} to {} bytes.", page_bytes, PLUMB_HEAP_BYTES_MAX);
    const bool counts = config.counts.has_value();
    if (counts ? config.mode != PLUMB_MODE_COUNT
               : config.mode < PLUMB_MODE_DISCARD || config.mode > PLUMB_MODE_BLOCK)
        return Error("There is no ring mode {}.", static_cast<int>(config.mode));
    return ok();
}

/* The machine's boot id, 16 bytes; zero if it can not be read. */
void copy_boot_id(std::uint8_t (&to)[16]) {
    const Result<std::string> text = read_small_file("/proc/sys/kernel/random/boot_id");
    if (!text) return;
    std::size_t digits = 0;
    for (const char c : *text) {
        const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0 || digits == 32) continue;
        to[digits / 2] = static_cast<std::uint8_t>(to[digits / 2] << 4 | value);
        digits++;
    }
}

void fill_random(void* to, std::size_t bytes) {
    if (::getrandom(to, bytes, 0) == static_cast<ssize_t>(bytes)) return;
    std::uint64_t seed = boost::interprocess::mapped_region::get_page_size();
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    seed ^= static_cast<std::uint64_t>(now.tv_nsec) * 0x9e3779b97f4a7c15u ^
            static_cast<std::uint64_t>(::getpid());
    for (std::size_t i = 0; i < bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(seed >> 56);
    }
}

Status fill_header(plumb_channel_header& header, const ChannelConfig& config, const ChannelLayout& layout,
                   std::uint64_t cookie) {
    header.magic = config.counts ? PLUMB_COUNTS_MAGIC : PLUMB_CHANNEL_MAGIC;
    header.version_major = PLUMB_CHANNEL_VERSION_MAJOR;
    header.version_minor = PLUMB_CHANNEL_VERSION_MINOR;
    header.header_bytes = sizeof(header);
    header.total_bytes = layout.total_bytes;
    header.domain = config.domain;
    header.mode = config.mode;
    header.ring_count = layout.ring_count;
    header.extra_ring_count = layout.extra_ring_count;
    header.subbuf_bytes = config.subbuf_bytes;
    header.subbuf_count = config.subbuf_count;
    header.ring_bytes = layout.ring_bytes;
    header.event_slots_offset = layout.event_slots_offset;
    header.entry_slots_offset = layout.entry_slots_offset;
    header.heap_offset = layout.heap_offset;
    header.heap_bytes = layout.heap_bytes;
    header.control_offset = layout.control_offset;
    header.data_offset = layout.data_offset;
    header.event_slots = config.event_slots;
    header.entry_slots = config.entry_slots;
    header.block_timeout_ns = config.block_timeout_ns;
    header.context = config.context;
    header.callstack_depth = config.callstack_depth;
    header.session_cookie = cookie;
    fill_random(header.trace_uuid, sizeof(header.trace_uuid));
    header.trace_uuid[6] =
        static_cast<std::uint8_t>((header.trace_uuid[6] & 0x0f) | 0x40); /* RFC 4122, version 4 */
    header.trace_uuid[8] = static_cast<std::uint8_t>((header.trace_uuid[8] & 0x3f) | 0x80);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    header.created_realtime_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    header.creator_pid = static_cast<std::uint32_t>(::getpid());
    header.creator_namespace = own_namespace();
    header.creator_user = ::geteuid();
    copy_boot_id(header.boot_id);
    config.session_name.copy(header.session_name, sizeof(header.session_name) - 1);
    ::gethostname(header.host_name, sizeof(header.host_name) - 1);
    const Result<ClockCalibration> clock = ClockCalibration::start(config.clock_mode);
    if (!clock) return clock.error();
    clock->publish(header.clock);
    return ok();
}

/* Tables that are open from the beginning. */
void begin_counts(std::span<std::byte> bytes, const CountsConfig& config, const ChannelLayout& layout) {
    const plumb_counts counts = config.encode();
    std::memcpy(bytes.data() + PLUMB_COUNTS_OFFSET, &counts, sizeof(counts));
    auto* const controls = reinterpret_cast<plumb_ring_control*>(bytes.data() + layout.control_offset);
    for (std::uint32_t ring = 0; ring < layout.ring_count + layout.extra_ring_count; ring++)
        controls[ring].limit = 1;
}

void wake_all(std::uint32_t& futex) {
    __atomic_fetch_add(&futex, 1u, __ATOMIC_SEQ_CST);
    ::syscall(SYS_futex, &futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/* `closed` first: a writer that finds no room looks at it, and stops. */
void close_rings(std::byte* base, std::uint64_t control_offset, std::uint64_t ring_count) {
    auto& header = *reinterpret_cast<plumb_channel_header*>(base);
    __atomic_store_n(&header.closed, 1u, __ATOMIC_SEQ_CST);
    auto* controls = reinterpret_cast<plumb_ring_control*>(base + control_offset);
    for (std::uint64_t ring = 0; ring < ring_count; ring++)
        __atomic_store_n(&controls[ring].limit, std::uint64_t{0}, __ATOMIC_SEQ_CST);
    wake_all(header.space_futex);
}

/* Whoever enters a sub-buffer takes all of its memory at once. */
constexpr std::uint32_t subbuf_bytes_later_max = 4 << 20;

} // namespace

plumb_counts CountsConfig::encode() const {
    plumb_counts counts{};
    key.copy(counts.key, sizeof(counts.key) - 1);
    sum.copy(counts.sum, sizeof(counts.sum) - 1);
    hist.copy(counts.hist, sizeof(counts.hist) - 1);
    counts.slots =
        has_slots() ? keys + keys / 2 : 0; /* where so many are free, each is found in a few steps */
    counts.buckets = !hist.empty() ? PLUMB_COUNT_BUCKETS : has_slots() || !sum.empty() ? 1 : 0;
    return counts;
}

Result<ChannelConfig> counting_channel(const CountsConfig& counts) {
    constexpr std::uint32_t event_slots = 2048;
    constexpr std::uint64_t heap_bytes = 1 << 20; /* for what as many events look like */
    for (const std::string* name : {&counts.key, &counts.sum, &counts.hist})
        if (name->size() >= PLUMB_COUNT_FIELD_BYTES)
            return Error("The field's name '{}' is too long: {} bytes are possible.", *name,
                         PLUMB_COUNT_FIELD_BYTES - 1);
    if (counts.keys == 0 || counts.keys > CountsConfig::keys_max)
        return Error("{} keys are not possible.", counts.keys)
            .hint("There can be 1 to {} of them.", CountsConfig::keys_max);
    const plumb_counts encoded = counts.encode();
    const std::uint64_t bytes = PLUMB_COUNT_TABLE_BYTES(event_slots, encoded.slots, encoded.buckets);
    ChannelConfig config;
    config.counts = counts;
    config.mode = PLUMB_MODE_COUNT;
    config.event_slots = event_slots;
    config.entry_slots = 1;
    config.heap_bytes = heap_bytes;
    config.extra_ring_count = 1;
    config.subbuf_count = PLUMB_SUBBUF_MIN_COUNT;
    const std::uint64_t half = std::bit_ceil(bytes) / PLUMB_SUBBUF_MIN_COUNT;
    if (half > PLUMB_SUBBUF_MAX_BYTES)
        return Error("{} keys with a histogram each are more than a table holds.", counts.keys);
    config.subbuf_bytes = static_cast<std::uint32_t>(std::max<std::uint64_t>(half, PLUMB_SUBBUF_MIN_BYTES));
    return config;
}

bool do_rings_get_memory_later(const ChannelConfig& config) {
    if (!config.rings_on_demand) return false;
    void* const page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const bool can = RingMemory::can_be_taken_by_writers(page);
    ::munmap(page, page_bytes);
    return can && config.subbuf_bytes <= subbuf_bytes_later_max;
}

std::uint32_t possible_ring_count() {
    const long configured = ::sysconf(_SC_NPROCESSORS_CONF);
    std::uint32_t count = configured > 0 ? static_cast<std::uint32_t>(configured) : 1;
    /* Numbers of present CPUs need not be contiguous: "0-3,8-11". Not "possible": that may be hundreds more.
     */
    const Result<std::string> present = read_small_file("/sys/devices/system/cpu/present");
    if (present) {
        const std::size_t last = present->find_last_of("-,");
        const std::uint32_t highest = static_cast<std::uint32_t>(
            std::strtoul(present->c_str() + (last == std::string::npos ? 0 : last + 1), nullptr, 10));
        if (highest + 1 > count) count = highest + 1;
    }
    return std::min(count, PLUMB_CHANNEL_MAX_RINGS - 16);
}

RingCounts ring_counts(const ChannelConfig& config) {
    if (config.is_global) return {0, 1};
    const std::uint32_t cpus = config.ring_count != 0 ? config.ring_count : possible_ring_count();
    return {cpus, config.extra_ring_count != 0 ? config.extra_ring_count : std::clamp(cpus, 4u, 16u)};
}

Result<ChannelLayout> lay_out_channel(const ChannelConfig& config) {
    const Status possible = check(config);
    if (!possible) return possible.error();
    ChannelLayout layout{};
    const RingCounts count = ring_counts(config);
    layout.ring_count = count.of_cpus;
    layout.extra_ring_count = count.extra;
    const std::uint64_t rings = static_cast<std::uint64_t>(layout.ring_count) + layout.extra_ring_count;
    if (rings > PLUMB_CHANNEL_MAX_RINGS)
        return Error("{} rings are more than the {} that are possible.", rings, PLUMB_CHANNEL_MAX_RINGS);
    layout.ring_bytes = static_cast<std::uint64_t>(config.subbuf_bytes) * config.subbuf_count;
    if (layout.ring_bytes > PLUMB_RINGS_BYTES_MAX / rings)
        return Error("{} rings of {} sub-buffers of {} bytes are more than 1 TiB.", rings,
                     config.subbuf_count, config.subbuf_bytes);
    layout.heap_bytes =
        config.heap_bytes != 0
            ? config.heap_bytes
            : std::clamp(rings * layout.ring_bytes / 8, usual_heap_bytes_min, usual_heap_bytes_max) +
                  ((config.context & PLUMB_CONTEXT_CALLSTACK) != 0 ? heap_bytes_of_names : 0);
    layout.event_slots_offset = PLUMB_CHANNEL_HEADER_BYTES;
    layout.entry_slots_offset =
        round_to_page(layout.event_slots_offset + std::uint64_t{8} * config.event_slots);
    layout.heap_offset = round_to_page(layout.entry_slots_offset + std::uint64_t{8} * config.entry_slots);
    layout.control_offset = round_to_page(layout.heap_offset + layout.heap_bytes);
    layout.data_offset = round_to_page(layout.control_offset + rings * PLUMB_RING_CONTROL_BYTES);
    layout.total_bytes = round_to_page(layout.data_offset + rings * layout.ring_bytes + PLUMB_CHANNEL_GUARD);
    return layout;
}

std::string channel_file_name(std::uint64_t cookie) {
    return fmt::format("channel-{:016x}", cookie);
}

std::optional<std::uint64_t> channel_cookie_of(const std::string& file_name) {
    constexpr std::size_t prefix_bytes = 8;
    if (file_name.size() != prefix_bytes + 16 || file_name.compare(0, prefix_bytes, "channel-") != 0)
        return {};
    if (file_name.find_first_not_of("0123456789abcdef", prefix_bytes) != std::string::npos) return {};
    return std::strtoull(file_name.c_str() + prefix_bytes, nullptr, 16);
}

std::uint64_t random_cookie() {
    std::uint64_t cookie = 0;
    while (cookie == 0)
        fill_random(&cookie, sizeof(cookie));
    return cookie;
}

Result<Channel> Channel::create(const UserDirectory& directory, const ChannelConfig& config,
                                std::uint64_t cookie) {
    const Result<ChannelLayout> layout = lay_out_channel(config);
    if (!layout) return layout.error();
    const std::string name = channel_file_name(cookie);
    plumb_channel_header made_as{};
    const auto fill = [&](std::span<std::byte> bytes) {
        auto& header = *reinterpret_cast<plumb_channel_header*>(bytes.data());
        Status filled = fill_header(header, config, *layout, cookie);
        if (config.counts) begin_counts(bytes, *config.counts, *layout);
        made_as = header;
        return filled;
    };
    LifeLock lock; /* before it has its name: who finds it unlocked removes it */
    const auto take_lock = [&](int fd) -> Status {
        Result<LifeLock> taken = LifeLock::hold(fd);
        if (!taken) return taken.error();
        lock = std::move(*taken);
        return ok();
    };
    UserDirectory::Hole rings;
    if (do_rings_get_memory_later(config))
        rings = {layout->data_offset, layout->total_bytes - PLUMB_CHANNEL_GUARD};
    Result<FileDescriptor> file = directory.create_file(name, layout->total_bytes, fill, take_lock, rings);
    if (!file) return file.error();
    const std::string path = directory.path_of_file(name);
    Result<MappedRegion> region = map_file(*file, layout->total_bytes, true, path);
    if (!region) {
        const Status removed = directory.unlink_file(name);
        return removed ? region.error() : region.error().hint("{}", removed.error().message());
    }
    Channel channel(std::move(*file), std::move(lock), std::move(*region), *layout, config, cookie, path,
                    made_as);
    if (rings.begin == rings.end) channel.ring_memory().note_all_reserved();
    return channel;
}

namespace {

/* What it must have been made with, if the header is one that is made here: then its layout follows from it. Of those that count
 * only what counts events and nothing else is kept. */
ChannelConfig config_in(const plumb_channel_header& header) {
    ChannelConfig config;
    if (header.magic == PLUMB_COUNTS_MAGIC) config.counts.emplace();
    config.domain = static_cast<plumb_domain>(header.domain);
    config.session_name.assign(header.session_name,
                               ::strnlen(header.session_name, sizeof(header.session_name) - 1));
    config.mode = static_cast<plumb_ring_mode>(header.mode);
    config.is_kept = true;
    config.subbuf_bytes = header.subbuf_bytes;
    config.subbuf_count = header.subbuf_count;
    config.block_timeout_ns = header.block_timeout_ns;
    config.clock_mode = static_cast<plumb_clock_mode>(header.clock.mode);
    config.event_slots = header.event_slots;
    config.entry_slots = header.entry_slots;
    config.heap_bytes = header.heap_bytes;
    config.is_global = header.ring_count == 0;
    config.ring_count = header.ring_count;
    config.extra_ring_count = header.extra_ring_count;
    return config;
}

bool has_layout(const plumb_channel_header& header, const ChannelLayout& layout) {
    return header.ring_count == layout.ring_count && header.extra_ring_count == layout.extra_ring_count &&
           header.event_slots_offset == layout.event_slots_offset &&
           header.entry_slots_offset == layout.entry_slots_offset &&
           header.heap_offset == layout.heap_offset && header.heap_bytes == layout.heap_bytes &&
           header.control_offset == layout.control_offset && header.data_offset == layout.data_offset &&
           header.ring_bytes == layout.ring_bytes && header.total_bytes == layout.total_bytes;
}

/* Who only looks whether somebody has it holds it for a moment, too (channel_maker_lives()). */
Result<LifeLock> take_left_lock(int fd) {
    constexpr int tries_max = 50;
    constexpr useconds_t pause_us = 1000;
    for (int tries = 0;; tries++) {
        Result<LifeLock> taken = LifeLock::hold(fd);
        if (taken || taken.error().number() != EWOULDBLOCK || tries == tries_max) return taken;
        ::usleep(pause_us);
    }
}

} // namespace

Result<Channel> Channel::adopt(const UserDirectory& directory, std::uint64_t cookie) {
    const std::string name = channel_file_name(cookie), path = directory.path_of_file(name);
    Result<FileDescriptor> file = directory.open_file(name, true);
    if (!file) return file.error();
    Result<LifeLock> lock = take_left_lock(file->get());
    if (!lock && lock.error().number() == EWOULDBLOCK)
        return Error("The session of {} has a controller, which lives.", path).as(EBUSY);
    if (!lock) return lock.error();
    struct stat info {};
    if (::fstat(file->get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    if (bytes < PLUMB_CHANNEL_HEADER_BYTES)
        return Error("{} is no channel: it has {} bytes.", path, bytes).as(EBADMSG);
    Result<MappedRegion> region = map_file(*file, bytes, true, path);
    if (!region) return region.error();
    plumb_channel_header header; /* a copy, so that nobody changes it behind the checks */
    std::memcpy(&header, region->get_address(), sizeof(header));
    if (header.magic == PLUMB_CHANNEL_MAGIC && header.version_major != PLUMB_CHANNEL_VERSION_MAJOR)
        return Error("{} has format version {}.{}.", path, header.version_major, header.version_minor)
            .hint("Use the plumb command of the version that made it.")
            .as(EPROTO);
    ChannelConfig config = config_in(header);
    const Result<ChannelLayout> layout = lay_out_channel(config);
    if ((header.magic != PLUMB_CHANNEL_MAGIC && header.magic != PLUMB_COUNTS_MAGIC) ||
        header.session_cookie != cookie || !layout || !has_layout(header, *layout) ||
        layout->total_bytes != bytes ||
        (header.domain != PLUMB_DOMAIN_USER && header.domain != PLUMB_DOMAIN_KERNEL) ||
        header.clock.mode == PLUMB_CLOCK_NONE || header.clock.mode > PLUMB_CLOCK_REALTIME)
        return Error("{} is damaged: a program has written over its header.", path).as(EBADMSG);
    constexpr std::uint64_t block_bytes = 512; /* of st_blocks */
    config.rings_on_demand = static_cast<std::uint64_t>(info.st_blocks) * block_bytes < bytes;
    return Channel(std::move(*file), std::move(*lock), std::move(*region), *layout, std::move(config), cookie,
                   path, header);
}

Status Channel::add_event(std::uint16_t id, const EventDescription& event) {
    const std::vector<std::byte> description = encode_event_description(event);
    if (id < PLUMB_EVENT_ID_FIRST || id >= config_.event_slots)
        return Error("{}: the channel has {} event slots.", event.full_name(), config_.event_slots);
    const std::uint64_t used =
        __atomic_fetch_add(&header().heap_used, std::uint64_t{description.size()}, __ATOMIC_SEQ_CST);
    if (description.size() > layout_.heap_bytes || used > layout_.heap_bytes - description.size())
        return Error("{}: the channel's heap of {} bytes is full.", event.full_name(), layout_.heap_bytes);
    std::copy(description.begin(), description.end(), bytes().begin() + layout_.heap_offset + used);
    auto* const slots = reinterpret_cast<std::uint64_t*>(bytes().data() + layout_.event_slots_offset);
    __atomic_store_n(&slots[id], PLUMB_SLOT(layout_.heap_offset + used, description.size()),
                     __ATOMIC_RELEASE);
    return ok();
}

void Channel::close() {
    close_rings(bytes().data(), layout_.control_offset,
                static_cast<std::uint64_t>(layout_.ring_count) + layout_.extra_ring_count);
}

/* Where nobody has read behind its new end there was no SIGBUS, and programs that begin find a file that is none of ours. */
bool Channel::was_truncated() const {
    struct stat info {};
    return region_.was_truncated() ||
           (::fstat(fd_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) < layout_.total_bytes);
}

Status Channel::unlink() {
    if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return ok();
    return Error::from_errno(errno, "Could not remove the channel {}", path_);
}

void close_dead_channel(const UserDirectory& directory, const std::string& file_name) {
    const Result<FileDescriptor> file = directory.open_file(file_name, true);
    if (file) {
        const off_t bytes = ::lseek(file->get(), 0, SEEK_END);
        if (bytes >= static_cast<off_t>(PLUMB_CHANNEL_HEADER_BYTES)) {
            Result<MappedRegion> region =
                map_file(*file, static_cast<std::size_t>(bytes), true, directory.path_of_file(file_name));
            if (region) {
                auto* base = static_cast<std::byte*>(region->get_address());
                const plumb_channel_header header = *reinterpret_cast<const plumb_channel_header*>(base);
                const std::uint64_t rings =
                    static_cast<std::uint64_t>(header.ring_count) + header.extra_ring_count;
                const bool sound =
                    (header.magic == PLUMB_CHANNEL_MAGIC || header.magic == PLUMB_COUNTS_MAGIC) &&
                    header.control_offset % 64 == 0 && header.control_offset < region->get_size() &&
                    rings <= PLUMB_CHANNEL_MAX_RINGS &&
                    rings * PLUMB_RING_CONTROL_BYTES <= region->get_size() - header.control_offset;
                if (sound) close_rings(base, header.control_offset, rings);
            }
        }
    }
}

Status remove_dead_channel(const UserDirectory& directory, const std::string& file_name) {
    close_dead_channel(directory, file_name);
    return directory.unlink_file(file_name);
}

} // namespace plumb
