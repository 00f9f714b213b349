#include "base/mapped_region.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <memory>

namespace plumb {

/* Looked at by the handler while other threads take and leave guards: a range counts once `end` is stored. */
struct MappedRegion::Guard {
    std::atomic<bool> is_taken{false};
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0}; /* 0: guards nothing */
    std::atomic<bool> was_truncated{false};
};

namespace {

/* More are made when all are taken, and never freed: the handler goes through them at any moment. */
struct Guards {
    std::array<MappedRegion::Guard, 256> guards;
    std::atomic<Guards*> next{nullptr};
};

Guards first_guards;
struct sigaction action_before {};
std::atomic<bool> has_action_before{false};
std::uintptr_t machine_page_bytes = 0;

/* What mapped_region wants of the thing it maps. */
class Mappable {
public:
    explicit Mappable(int fd) : fd_(fd) {}
    boost::interprocess::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }

private:
    int fd_;
};

bool replace_pages(std::uintptr_t from, std::uintptr_t end) {
    const long mapped = ::syscall(SYS_mmap, from, end - from, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return mapped == static_cast<long>(from);
}

/* Async-signal-safe, as what follows. */
MappedRegion::Guard* find_guard(std::uintptr_t address) {
    for (Guards* some = &first_guards; some != nullptr; some = some->next.load(std::memory_order_acquire))
        for (MappedRegion::Guard& guard : some->guards)
            if (address < guard.end.load(std::memory_order_acquire) &&
                address >= guard.begin.load(std::memory_order_relaxed))
                return &guard;
    return nullptr;
}

void on_bus_error(int, siginfo_t* info, void*) {
    const int error_before = errno;
    if (info->si_code <= 0) { /* somebody has sent it */
        if (action_before.sa_handler == SIG_IGN) return;
        ::sigaction(SIGBUS, &action_before, nullptr);
        ::syscall(SYS_tgkill, ::getpid(), ::gettid(), SIGBUS); /* once we return */
        errno = error_before;
        return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    bool is_mended = false;
    MappedRegion::Guard* const guard = info->si_code == BUS_ADRERR ? find_guard(address) : nullptr;
    const std::uintptr_t end = guard != nullptr ? guard->end.load() : 0;
    if (address < end) {
        is_mended = replace_pages(address & ~(machine_page_bytes - 1), end);
        guard->was_truncated = true;
    }
    /* Not ours: what is done again meets what would have happened without us. */
    if (!is_mended) ::sigaction(SIGBUS, &action_before, nullptr);
    errno = error_before;
}

void install_handler() {
    machine_page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigaction(SIGBUS, &action, &action_before);
    has_action_before = true;
}

Guards& more_guards(Guards& last) {
    auto made = std::make_unique<Guards>();
    Guards* next = nullptr;
    if (last.next.compare_exchange_strong(next, made.get())) next = made.release();
    return *next;
}

MappedRegion::Guard* take_guard(void* address, std::size_t bytes) {
    [[maybe_unused]] static const bool is_installed = (install_handler(), true);
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    for (Guards* some = &first_guards;;) {
        for (MappedRegion::Guard& guard : some->guards) {
            if (guard.is_taken.exchange(true)) continue;
            guard.was_truncated = false;
            guard.begin.store(begin, std::memory_order_relaxed);
            guard.end.store((begin + bytes + machine_page_bytes - 1) & ~(machine_page_bytes - 1),
                            std::memory_order_release);
            return &guard;
        }
        Guards* const next = some->next.load(std::memory_order_acquire);
        some = next != nullptr ? next : &more_guards(*some);
    }
}

} // namespace

void restore_bus_error_action() {
    if (has_action_before) ::sigaction(SIGBUS, &action_before, nullptr);
}

MappedRegion::MappedRegion(boost::interprocess::mapped_region region)
    : region_(std::move(region)), guard_(take_guard(region_.get_address(), region_.get_size())) {}

MappedRegion::~MappedRegion() {
    if (guard_ == nullptr) return;
    guard_->end = 0; /* before the memory is another's */
    boost::interprocess::mapped_region().swap(region_);
    guard_->is_taken = false;
}

bool MappedRegion::was_truncated() const {
    return guard_ != nullptr && guard_->was_truncated;
}

Result<MappedRegion> map_file(const FileDescriptor& file, std::size_t bytes, bool writable,
                              const std::string& path) {
    try {
        return MappedRegion(boost::interprocess::mapped_region(
            Mappable(file.get()), writable ? boost::interprocess::read_write : boost::interprocess::read_only,
            0, bytes));
    } catch (const boost::interprocess::interprocess_exception& failure) {
        return Error::from_errno(failure.get_native_error(), "Could not map {}", path);
    }
}

} // namespace plumb
