#include "consumerd/sink/stream_keeper.h"

#include "base/file.h"
#include "base/process_title.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <vector>

namespace plumb {

/* `is_kept` is stored last: who sees it sees the rest. Of a file with another inode under that name nothing is cut. */
struct KeptStream::Entry {
    std::atomic<std::uint32_t> is_kept;
    std::atomic<std::uint64_t> whole_bytes;
    dev_t device;
    ino_t inode;
    char path[1024];
};

class StreamKeeper {
public:
    using Entry = KeptStream::Entry;
    static constexpr std::size_t entry_count = 4096;

    static StreamKeeper& instance() {
        static StreamKeeper keeper;
        return keeper;
    }

    void start() {
        if (entries_ != nullptr) return;
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) return;
        void* const memory = ::mmap(nullptr, entry_count * sizeof(Entry), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            ::close(ends[0]);
            ::close(ends[1]);
            return;
        }
        entries_ = static_cast<Entry*>(memory);
        life_ = FileDescriptor(ends[1]);
        const pid_t between = ::fork();
        if (between == 0) {
            /* Nobody's child: who waits for children of the recorder waits for the command. */
            ::close(life_.release());
            if (::fork() == 0) keep(ends[0]);
            ::_exit(0);
        }
        ::close(ends[0]);
        while (between > 0 && ::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    Entry* take() {
        if (entries_ == nullptr) return nullptr;
        const std::lock_guard<std::mutex> lock(lock_);
        if (!given_back_.empty()) {
            Entry* const entry = given_back_.back();
            given_back_.pop_back();
            return entry;
        }
        return used_ < entry_count ? &entries_[used_++] : nullptr;
    }

    void give_back(Entry* entry) {
        const std::lock_guard<std::mutex> lock(lock_);
        given_back_.push_back(entry);
    }

private:
    [[noreturn]] void keep(int life) {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, nullptr);
        take_process_title("stream-keeper"); /* it is no recorder */
        constexpr int kept = 0;
        ::dup2(life, kept);
        close_files_from(1);
        if (::chdir("/") != 0) ::_exit(0);
        ::setsid();
        char byte = 0;
        errno = 0;
        while (::read(kept, &byte, 1) != 0 && (errno == EINTR || errno == 0)) {
        }
        for (std::size_t i = 0; i < entry_count; i++)
            cut(entries_[i]);
        ::_exit(0);
    }

    static void cut(const Entry& entry) {
        if (entry.is_kept.load() == 0) return;
        const int fd = ::open(entry.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) return;
        struct stat info {};
        const std::uint64_t whole = entry.whole_bytes.load();
        if (::fstat(fd, &info) == 0 && info.st_dev == entry.device && info.st_ino == entry.inode &&
            static_cast<std::uint64_t>(info.st_size) >= whole) {
            if (whole == 0)
                ::unlink(entry.path); /* empty, too: its first packet was still to come */
            else if (static_cast<std::uint64_t>(info.st_size) > whole &&
                     ::ftruncate(fd, static_cast<off_t>(whole)) != 0)
                ::_exit(1);
        }
        ::close(fd);
    }

    Entry* entries_ = nullptr; /* pages that nobody has touched take no memory */
    FileDescriptor life_;
    std::mutex lock_;
    std::size_t used_ = 0;
    std::vector<Entry*> given_back_;
};

void start_stream_keeper() {
    StreamKeeper::instance().start();
}

namespace {

/* Where an open file is now; false if that can not be told, or does not fit. */
bool find_path(int fd, char* path, std::size_t room) {
    const ssize_t bytes = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, room);
    if (bytes <= 0 || static_cast<std::size_t>(bytes) >= room || path[0] != '/') return false;
    path[bytes] = '\0';
    return true;
}

} // namespace

void KeptStream::begin(int fd) {
    Entry* const entry = entry_ != nullptr ? entry_ : StreamKeeper::instance().take();
    struct stat info {};
    entry_ = entry;
    if (entry == nullptr || ::fstat(fd, &info) != 0 || !find_path(fd, entry->path, sizeof(entry->path)))
        return;
    entry->device = info.st_dev;
    entry->inode = info.st_ino;
    entry->whole_bytes.store(0);
    entry->is_kept.store(1);
}

KeptStream::~KeptStream() {
    end();
    if (entry_ != nullptr) StreamKeeper::instance().give_back(entry_);
}

void KeptStream::follow(int fd) const {
    char path[sizeof(Entry::path)];
    if (entry_ == nullptr || entry_->is_kept.load() == 0 || !find_path(fd, path, sizeof(path)) ||
        std::strcmp(path, entry_->path) == 0)
        return;
    entry_->is_kept.store(0);
    std::strcpy(entry_->path, path);
    entry_->is_kept.store(1);
}

void KeptStream::set_whole_bytes(std::uint64_t bytes) {
    if (entry_ != nullptr) entry_->whole_bytes.store(bytes);
}

void KeptStream::end() {
    if (entry_ != nullptr) entry_->is_kept.store(0);
}

} // namespace plumb
