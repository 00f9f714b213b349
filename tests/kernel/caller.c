/*
 * System calls of many kinds, between two getppid(): with strings that are whole, null, not the program's, longer than there is room
 * for, and in a file's page that is not in memory yet; with flags and failures; of 32 bits, and with numbers that no call has.
 *
 *   caller FILE      FILE is some file of at least two pages
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* At the second page of the file, which nobody has read since it was written to the disk; or, without one, not mapped yet. */
static char* not_yet_there(const char* file) {
    const int opened = open(file, O_RDWR);
    static const char text[] = "/not/yet/there";
    if (opened < 0 || pwrite(opened, text, sizeof(text), 4096) < 0) return NULL;
    char* const mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, opened, 0);
    close(opened);
    return mapped == MAP_FAILED ? NULL : mapped + 4096;
}

static long by_interrupt(long number) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number) : "memory", "r8", "r9", "r10", "r11");
    return result;
}

int main(int count, char** arguments) {
    if (count != 2) return 2;
    char* const late = not_yet_there(arguments[1]);
    char* const later = not_yet_there(arguments[1]);
    static char long_name[5000];
    if (late == NULL || later == NULL) return 1;
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[0] = '/';
    syscall(SYS_getppid);
    syscall(SYS_openat, AT_FDCWD, "/etc/no\"thing\n\x01", O_RDONLY | O_CLOEXEC, 0);
    syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY, 0);
    syscall(SYS_openat, AT_FDCWD, 16L, O_WRONLY | O_CREAT, 0644);
    syscall(SYS_openat, AT_FDCWD, long_name, O_RDONLY, 0);
    syscall(SYS_openat, AT_FDCWD, late, O_RDONLY, 0);
    syscall(SYS_renameat2, AT_FDCWD, later, AT_FDCWD, later, 1);
    for (int bytes = 3040; bytes < 3044; bytes++)
        syscall(SYS_rename, long_name + sizeof(long_name) - 1 - bytes, "/target");
    syscall(SYS_open, "/nosuch", O_RDWR, 0);
    syscall(SYS_pread64, 0, NULL, (size_t)1 << 40, INT64_MIN);
    syscall(SYS_mmap, NULL, 4096L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    syscall(SYS_futex, NULL, 1, 2, NULL, NULL, 3);
    syscall(SYS_kill, getpid(), 0);
    for (long number = 450; number < 520; number += 7)
        syscall(number);
    syscall(-1);
    by_interrupt(64); /* getppid() of 32 bits; 64 is semget() here */
    const pid_t child = vfork();
    if (child == 0) {
        char* const nothing[] = {"false", NULL};
        syscall(SYS_execve, "/nosuch", nothing, NULL);
        syscall(SYS_execve, "/bin/busybox", nothing, NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    syscall(SYS_getppid);
    return 0;
}
