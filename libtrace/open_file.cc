#include "open_file.h"

#include "atomic.h"
#include "every_start.h"

#include <cerrno>

namespace plumb {

namespace {

// Within the table as it is: one that grows makes the threads wait for each other, in the kernel.
constexpr uint32_t slots_used = 16;
PLUMB_OF_EVERY_START uint32_t first_number; // of ours; 0: not known
PLUMB_OF_EVERY_START uint32_t outgrown;

bool is_there(int number, dev_t device, ino_t inode) {
    struct stat there;
    return sys::status(number, &there) == 0 && there.st_dev == device && there.st_ino == inode;
}

// Whether what was found is a file of the program, and not that of the path. One that leads nowhere any more tells nothing.
bool is_taken_over(const struct stat& found, int directory, const char* path) {
    struct stat expected;
    return path != nullptr && sys::status_at(directory, path, &expected) == 0 &&
           (found.st_dev != expected.st_dev || found.st_ino != expected.st_ino);
}

} // namespace

void know_descriptor_table(uint32_t slots) {
    store_relaxed(first_number, slots > 2 * slots_used ? slots - slots_used : 0);
    store_relaxed(outgrown, 0u);
}

bool is_descriptor_table_outgrown() {
    return load_relaxed(outgrown) != 0;
}

OpenFile::OpenFile(int directory, const char* path, int flags, int mode) {
    constexpr int tries = 3;
    for (int i = 0; i < tries; i++) {
        number_ = sys::open_at(directory, path, flags, mode);
        if (number_ < 0 || load_relaxed(first_number) == 0) return;
        if (move_away(directory, (flags & O_TMPFILE) == O_TMPFILE ? nullptr : path)) return;
    }
    number_ = -EBUSY;
}

OpenFile OpenFile::taken_over(int number) {
    OpenFile file(number);
    if (load_relaxed(first_number) == 0 || file.move_away(0, nullptr)) return file;
    file.number_ = -EBUSY;
    return file;
}

// False if it is not our file any more, neither here nor there.
bool OpenFile::move_away(int directory, const char* path) {
    const auto first = static_cast<int>(load_relaxed(first_number));
    int number = number_;
    // Where RLIMIT_NOFILE is lower, or all behind it is taken, the file stays where it is.
    if (number_ < first) number = static_cast<int>(sys::call(SYS_fcntl, number_, F_DUPFD_CLOEXEC, first));
    if (number < 0) number = number_;
    if (number >= first + static_cast<int>(slots_used)) store_relaxed(outgrown, 1u);
    struct stat there;
    if (sys::status(number, &there) != 0) return false;
    if (is_taken_over(there, directory, path)) {
        if (number != number_) sys::close(number);
        return false;
    }
    if (number != number_ && is_there(number_, there.st_dev, there.st_ino)) sys::close(number_);
    number_ = number;
    device_ = there.st_dev;
    inode_ = there.st_ino;
    known_ = true;
    return true;
}

OpenFile::~OpenFile() {
    if (number_ < 0) return;
    if (!known_ || is_there(number_, device_, inode_)) sys::close(number_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : number_(other.number_), known_(other.known_), device_(other.device_), inode_(other.inode_) {
    other.number_ = -EBADF;
}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
    const OpenFile before(static_cast<OpenFile&&>(*this));
    number_ = other.number_;
    known_ = other.known_;
    device_ = other.device_;
    inode_ = other.inode_;
    other.number_ = -EBADF;
    return *this;
}

} // namespace plumb
