// System calls as the runtime needs them: raw, async-signal-safe, -errno instead of errno, never a
// cancellation point.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace plumb::sys {

#if defined(__x86_64__)
// By the instruction: the way through the C library costs a start-up one more page of it, and errno.
inline long word_of(const void* argument) {
    return reinterpret_cast<long>(argument);
}
inline long word_of(int argument) {
    return argument;
}
inline long word_of(unsigned argument) {
    return argument;
}
inline long word_of(long argument) {
    return argument;
}
inline long word_of(unsigned long argument) {
    return static_cast<long>(argument);
}
inline long call_words(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return number;
}
template <typename... Arguments>
inline long call(long number, Arguments... arguments) {
    return call_words(number, word_of(arguments)...);
}
#else
template <typename... Arguments>
inline long call(long number, Arguments... arguments) {
    const int saved = errno;
    long result = syscall(number, arguments...);
    if (result < 0) result = -errno;
    errno = saved;
    return result;
}
#endif

inline int open_at(int directory, const char* name, int flags, int mode = 0) {
    return static_cast<int>(call(SYS_openat, directory, name, flags | O_CLOEXEC, mode));
}
inline int close(int fd) {
    return static_cast<int>(call(SYS_close, fd));
}
inline long read(int fd, void* to, size_t bytes) {
    return call(SYS_read, fd, to, bytes);
}
inline long read_link(const char* path, char* to, size_t bytes) {
    return call(SYS_readlinkat, AT_FDCWD, path, to, bytes);
}
inline int status(int fd, struct stat* to) {
#if defined(__x86_64__) // where the kernel's struct is the C library's
    return static_cast<int>(call(SYS_fstat, fd, to));
#else
    const int saved = errno;
    const int result = fstat(fd, to) == 0 ? 0 : -errno;
    errno = saved;
    return result;
#endif
}
// Of a path, following links.
inline int status_at(int directory, const char* path, struct stat* to) {
#if defined(__x86_64__)
    return static_cast<int>(call(SYS_newfstatat, directory, path, to, 0));
#else
    const int saved = errno;
    const int result = fstatat(directory, path, to, 0) == 0 ? 0 : -errno;
    errno = saved;
    return result;
#endif
}
inline int status_of(const char* path, struct stat* to) {
    return status_at(AT_FDCWD, path, to);
}
#if defined(__SANITIZE_THREAD__)
// By the C library's functions, which ThreadSanitizer sees: it would take memory that is mapped again at the same
// address for memory that two threads share.
inline void* map(size_t bytes, int protection, int flags, int fd) {
    const int saved = errno;
    void* result = mmap(nullptr, bytes, protection, flags, fd, 0);
    errno = saved;
    return result == MAP_FAILED ? nullptr : result;
}
inline void unmap(void* address, size_t bytes) {
    const int saved = errno;
    munmap(address, bytes);
    errno = saved;
}
#else
// The address, or nullptr.
inline void* map(size_t bytes, int protection, int flags, int fd) {
    const long result = call(SYS_mmap, nullptr, bytes, protection, flags, fd, 0L);
    return result < 0 && result > -4096 ? nullptr : reinterpret_cast<void*>(result);
}
inline void unmap(void* address, size_t bytes) {
    call(SYS_munmap, address, bytes);
}
#endif
inline uint32_t thread_id() {
    return static_cast<uint32_t>(call(SYS_gettid));
}
inline uint32_t process_id() {
    return static_cast<uint32_t>(call(SYS_getpid));
}

inline uint32_t effective_user_id() {
    return static_cast<uint32_t>(call(SYS_geteuid));
}

// What the kernel told the program at its start; 0: nothing. It stands on the first stack, which a program may give up: so who wants it
// later asks told_at_start() (process.cc).
inline uint64_t auxiliary(unsigned long type) {
    const int saved = errno;
    const uint64_t value = getauxval(type);
    errno = saved;
    return value;
}

// Without the vDSO, whose first use costs more than a system call; else plumb::now_ns().
inline uint64_t now_once_ns(clockid_t clock) {
    timespec now{};
    call(SYS_clock_gettime, clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline void sleep_ns(uint64_t ns) {
    const timespec time{static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
    call(SYS_nanosleep, &time, nullptr);
}

// Waits until `word` is not `expected`, is woken, or `timeout_ns` has passed. Shared between processes.
inline long futex_wait(uint32_t& word, uint32_t expected, uint64_t timeout_ns) {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1000000000u),
                           static_cast<long>(timeout_ns % 1000000000u)};
    return call(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}
inline void futex_wake_all(uint32_t& word) {
    call(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

} // namespace plumb::sys
