#include "tests/support/test_session.h"

#include "tests/support/claims.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <plumb/abi/module.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace plumb::test {

namespace {

[[noreturn]] void die(const char* what) {
    perror(what);
    abort();
}

uint64_t now_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

unsigned char* map(int fd, uint64_t bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) die("mmap");
    return static_cast<unsigned char*>(base);
}

uint64_t new_cookie() {
    static std::atomic<uint64_t> counter = 0;
    return now_ns(CLOCK_REALTIME) << 8 | (++counter & 0xff);
}

bool is_alive(uint32_t process_id) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/stat", process_id);
    FILE* file = fopen(path, "re");
    if (file == nullptr) return false;
    char line[512] = {};
    const bool read = fgets(line, sizeof(line), file) != nullptr;
    fclose(file);
    const char* after_name = strrchr(line, ')');
    return read && after_name != nullptr && after_name[1] != '\0' && after_name[2] != 'Z' &&
           after_name[2] != 'X';
}

} // namespace

// In a guest whose kernel has plumb.ko it is the module's that programs look in.
static int directory_of_module() {
    plumb_descriptor_request request = {0, -1};
    const int device = open(PLUMB_DEVICE, O_RDONLY | O_CLOEXEC);
    if (device < 0) return -1;
    if (ioctl(device, PLUMB_IOCTL(PLUMB_OPERATION_DIRECTORY, sizeof(request)), &request) != 0)
        request.descriptor = -1;
    close(device);
    return request.descriptor;
}

std::string user_directory() {
    static const int of_module = directory_of_module();
    if (of_module >= 0) return "/proc/self/fd/" + std::to_string(of_module);
    char path[64];
    snprintf(path, sizeof(path), PLUMB_STATE_DIRECTORY, static_cast<unsigned>(geteuid()));
    mkdir(path, 0700);
    return path;
}

TestChannel::TestChannel(const ChannelShape& shape) : cookie_(new_cookie()) {
    plumb_channel_header header = {};
    header.magic = PLUMB_CHANNEL_MAGIC;
    header.version_major = PLUMB_CHANNEL_VERSION_MAJOR;
    header.version_minor = PLUMB_CHANNEL_VERSION_MINOR;
    header.header_bytes = sizeof(header);
    header.domain = PLUMB_DOMAIN_USER;
    header.mode = shape.mode;
    header.ring_count =
        shape.ring_count != 0 ? shape.ring_count : static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_CONF));
    header.extra_ring_count = shape.extra_ring_count;
    header.subbuf_bytes = shape.subbuf_bytes;
    header.subbuf_count = shape.subbuf_count;
    header.ring_bytes = uint64_t{shape.subbuf_bytes} * shape.subbuf_count;
    header.event_slots = shape.event_slots;
    header.entry_slots = shape.entry_slots;
    header.event_slots_offset = PLUMB_CHANNEL_HEADER_BYTES;
    header.entry_slots_offset = round_up(header.event_slots_offset + uint64_t{8} * shape.event_slots, 64);
    header.heap_offset = round_up(header.entry_slots_offset + uint64_t{8} * shape.entry_slots, 64);
    header.heap_bytes = shape.heap_bytes;
    header.control_offset = round_up(header.heap_offset + shape.heap_bytes, 64);
    const uint64_t rings = uint64_t{header.ring_count} + header.extra_ring_count;
    header.data_offset = round_up(header.control_offset + rings * PLUMB_RING_CONTROL_BYTES, 4096);
    header.total_bytes = header.data_offset + rings * header.ring_bytes + PLUMB_CHANNEL_GUARD;
    header.block_timeout_ns = shape.block_timeout_ns;
    header.session_cookie = cookie_;
    header.creator_namespace = space_here();
    header.clock.mode = shape.clock_mode;
    bytes_ = header.total_bytes;

    char name[64];
    snprintf(name, sizeof(name), PLUMB_CHANNEL_FILE, static_cast<unsigned long long>(cookie_));
    path_ = user_directory() + "/" + name;
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) die(path_.c_str());
    if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes_)); error != 0) {
        errno = error;
        die("fallocate");
    }
    base_ = map(fd, bytes_);
    ::close(fd);
    memcpy(base_, &header, sizeof(header));
}

TestChannel::~TestChannel() {
    unlink();
    munmap(base_, bytes_);
}

void TestChannel::unlink() {
    ::unlink(path_.c_str());
}

uint64_t TestChannel::lost(plumb_loss cause) const {
    uint64_t sum = 0;
    for (uint32_t ring = 0; ring < ring_count(); ring++)
        sum += __atomic_load_n(&control(ring).lost[cause], __ATOMIC_SEQ_CST);
    return sum;
}

uint64_t TestChannel::lost_events() const {
    return lost(PLUMB_LOST_FULL) + lost(PLUMB_LOST_BLOCK_TIMEOUT) + lost(PLUMB_LOST_TOO_LARGE) +
           lost(PLUMB_LOST_CONTENDED) + lost(PLUMB_LOST_HELD);
}

std::vector<uint64_t> TestChannel::write_positions() const {
    std::vector<uint64_t> positions;
    for (uint32_t ring = 0; ring < ring_count(); ring++)
        positions.push_back(__atomic_load_n(&control(ring).write_pos, __ATOMIC_SEQ_CST));
    return positions;
}

uint64_t TestChannel::now() const {
#if defined(__x86_64__)
    if (header().clock.mode == PLUMB_CLOCK_TSC) {
        _mm_mfence();
        _mm_lfence();
        const uint64_t cycles = __rdtsc();
        _mm_lfence();
        return cycles;
    }
#endif
    return now_ns(CLOCK_MONOTONIC);
}

void TestChannel::close() {
    __atomic_store_n(&header().closed, 1u, __ATOMIC_SEQ_CST);
    for (uint32_t ring = 0; ring < ring_count(); ring++)
        __atomic_store_n(&control(ring).limit, uint64_t{0}, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&header().space_futex, 1u, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &header().space_futex, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

TestState::TestState() {
    const std::string path = user_directory() + "/" PLUMB_STATE_FILE;
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) die(path.c_str());
    flock(fd_, LOCK_EX);
    struct stat info {};
    fstat(fd_, &info);
    const bool fresh = info.st_size == 0;
    if (fresh && posix_fallocate(fd_, 0, PLUMB_STATE_TOTAL_BYTES) != 0) die("fallocate");
    base_ = map(fd_, PLUMB_STATE_TOTAL_BYTES);
    if (fresh) {
        header().magic = PLUMB_STATE_MAGIC;
        header().version_major = PLUMB_STATE_VERSION_MAJOR;
        header().header_bytes = sizeof(plumb_state_header);
        header().total_bytes = PLUMB_STATE_TOTAL_BYTES;
        header().rule_sets_offset = PLUMB_STATE_RULE_SETS_OFFSET;
        header().processes_offset = PLUMB_STATE_PROCESSES_OFFSET;
        header().process_count = PLUMB_MAX_PROCESSES;
    }
    flock(fd_, LOCK_UN);
}

TestState::~TestState() {
    munmap(base_, PLUMB_STATE_TOTAL_BYTES);
    ::close(fd_);
}

plumb_process& TestState::slot(uint32_t index) const {
    return reinterpret_cast<plumb_process*>(base_ + PLUMB_STATE_PROCESSES_OFFSET)[index];
}

plumb_process* TestState::slot_of(uint32_t process_id) const {
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        if (PLUMB_CLAIM_PROCESS(__atomic_load_n(&slot(i).claim, __ATOMIC_SEQ_CST)) == process_id)
            return &slot(i);
    }
    return nullptr;
}

uint32_t TestState::used_slots() const {
    uint32_t used = 0;
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        used += __atomic_load_n(&slot(i).claim, __ATOMIC_SEQ_CST) != 0;
    return used;
}

uint64_t TestState::edit(const std::function<void(plumb_rule_set&)>& change) {
    // The lock belongs to the open file: threads of one process need their own, so this one takes turns.
    flock(fd_, LOCK_EX);
    const uint64_t generation = __atomic_load_n(&header().generation, __ATOMIC_SEQ_CST) + 1;
    auto* sets = reinterpret_cast<plumb_rule_set*>(base_ + PLUMB_STATE_RULE_SETS_OFFSET);
    plumb_rule_set& next = sets[generation % 2];
    memcpy(&next, &sets[(generation - 1) % 2], sizeof(next));
    change(next);
    next.generation = generation;
    __atomic_store_n(&header().generation, generation, __ATOMIC_SEQ_CST);
    flock(fd_, LOCK_UN);
    return generation;
}

static uint16_t place_condition(plumb_rule_set& set, uint8_t session, const std::vector<uint8_t>& code) {
    for (uint16_t i = 0; i < PLUMB_MAX_CONDITIONS; i++) {
        plumb_condition& condition = set.conditions[i];
        if (condition.code_bytes != 0) continue;
        condition.session = session;
        condition.code_bytes = static_cast<uint16_t>(code.size());
        std::copy(code.begin(), code.end(), condition.code);
        return static_cast<uint16_t>(i + 1);
    }
    abort();
}

uint64_t TestState::set(uint32_t index, uint64_t cookie, const std::vector<TestRule>& rules) {
    return edit([&](plumb_rule_set& set) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < set.rule_count; i++) {
            if (set.rules[i].session != index) set.rules[kept++] = set.rules[i];
        }
        for (plumb_condition& condition : set.conditions)
            if (condition.session == index) condition = {};
        set.sessions[index] = {};
        set.sessions[index].cookie = cookie;
        set.sessions[index].controller_process_id = static_cast<uint32_t>(getpid());
        set.sessions[index].controller_namespace = 0; // else the test, which traces itself, would be left out
        set.sessions[index].controller_boottime_ns = now_ns(CLOCK_BOOTTIME);
        set.sessions[index].flags = PLUMB_SESSION_FILTERED_TOO; // filters are what some tests are about
        for (const TestRule& rule : rules) {
            plumb_rule& to = set.rules[kept++];
            to = {};
            to.session = static_cast<uint8_t>(index);
            to.who = rule.who;
            to.who_id = rule.who_id;
            to.who_namespace = rule.who == PLUMB_WHO_PROCESS ? space_here() : 0;
            to.flags = rule.flags;
            to.log_level = rule.log_level;
            rule.pattern.copy(to.pattern, sizeof(to.pattern) - 1);
            rule.executable.copy(to.executable, sizeof(to.executable) - 1);
            to.log_level_from = rule.log_level_from;
            if (rule.log_level_from != 0) to.who |= PLUMB_WHO_LEVELS;
            if (rule.who == PLUMB_WHO_CGROUP) to.cgroup = rule.cgroup;
            if (!rule.condition.empty()) to.condition = place_condition(set, to.session, rule.condition);
        }
        set.rule_count = kept;
    });
}

uint64_t TestState::remove(uint32_t index) {
    return set(index, 0, {});
}

void TestState::signal_all(uint64_t generation) const {
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        const plumb_process copy = slot(i);
        if (copy.claim == 0 || (copy.flags & PLUMB_PROCESS_ASYNC) == 0) continue;
        sigval value{};
        value.sival_ptr = reinterpret_cast<void*>(PLUMB_SIGNAL_VALUE(i));
        if (copy.acknowledged >= generation) continue;
        const int process = static_cast<int>(PLUMB_CLAIM_PROCESS(copy.claim));
        if (sigqueue(process, static_cast<int>(copy.signal_number), value) != 0 && errno != ESRCH)
            std::perror("sigqueue"); // as where too many wait already; who is not told acknowledges nothing
    }
}

std::vector<uint32_t> TestState::wait(uint64_t generation, uint64_t timeout_ns) const {
    const uint64_t deadline_ns = now_ns(CLOCK_MONOTONIC) + timeout_ns;
    std::vector<uint32_t> missing;
    for (;;) {
        missing.clear();
        const uint32_t seen = __atomic_load_n(&header().ack_futex, __ATOMIC_SEQ_CST);
        for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
            const uint32_t process_id =
                PLUMB_CLAIM_PROCESS(__atomic_load_n(&slot(i).claim, __ATOMIC_SEQ_CST));
            if (process_id == 0 || __atomic_load_n(&slot(i).acknowledged, __ATOMIC_SEQ_CST) >= generation)
                continue;
            if (is_alive(process_id)) missing.push_back(process_id);
        }
        if (missing.empty() || now_ns(CLOCK_MONOTONIC) > deadline_ns) break;
        const timespec patience{0, 20'000'000};
        __atomic_store_n(&header().ack_waiters, 1u, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &header().ack_futex, FUTEX_WAIT, seen, &patience, nullptr, 0);
    }
    return missing;
}

} // namespace plumb::test
