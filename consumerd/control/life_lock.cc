#include "consumerd/control/life_lock.h"

#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/control/channel.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace plumb {

namespace {

/* Of this process. A child has none: its copies are closed before anything else runs there. */
class Held {
public:
    static Held& instance() {
        static Held held;
        return held;
    }
    void add(int fd) {
        const std::lock_guard lock(mutex_);
        fds_.push_back(fd);
    }
    void drop(int fd) {
        const std::lock_guard lock(mutex_);
        const auto place = std::find(fds_.begin(), fds_.end(), fd);
        if (place == fds_.end()) return;
        fds_.erase(place);
        ::close(fd);
    }

private:
    Held() {
        ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         [] { instance().close_in_child(); });
    }
    void close_in_child() {
        for (const int fd : fds_)
            ::close(fd);
        fds_.clear();
        mutex_.unlock();
    }
    std::mutex mutex_;
    std::vector<int> fds_;
};

} // namespace

Result<LifeLock> LifeLock::hold(int fd) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    FileDescriptor own(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!own.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    if (::flock(own.get(), LOCK_EX | LOCK_NB) != 0)
        return Error::from_errno(errno, "Could not lock what tells that a recorder lives");
    const int kept = own.release();
    Held::instance().add(kept);
    return LifeLock(kept);
}

LifeLock::~LifeLock() {
    if (fd_ >= 0) Held::instance().drop(fd_);
}
LifeLock::LifeLock(LifeLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
LifeLock& LifeLock::operator=(LifeLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

bool channel_maker_lives(const UserDirectory& directory, const std::string& file_name) {
    const Result<FileDescriptor> file = directory.open_file(file_name, false);
    if (!file) {
        const int number = file.error().number();
        return number == EMFILE || number == ENFILE || number == ENOMEM || number == EINTR;
    }
    /* Shared, so that two who ask at once do not take each other for the maker. */
    if (::flock(file->get(), LOCK_SH | LOCK_NB) == 0) return false;
    return true;
}

static bool is_there(const UserDirectory& directory, const std::string& file_name) {
    return ::faccessat(directory.fd(), file_name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool is_kept_for_next(const UserDirectory& directory, const plumb_session& session) {
    return (session.flags & PLUMB_SESSION_KEPT) != 0 &&
           is_there(directory, channel_file_name(session.cookie));
}

bool session_lives(const UserDirectory& directory, const plumb_session& session) {
    const std::string channel = channel_file_name(session.cookie);
    if (channel_maker_lives(directory, channel)) return true;
    if (is_there(directory, channel)) return false;
    /* Somebody removed its channel by hand. */
    return session.controller_namespace != 0 && session.controller_namespace == own_namespace() &&
           is_same_process(session.controller_process_id, session.controller_boottime_ns);
}

} // namespace plumb
