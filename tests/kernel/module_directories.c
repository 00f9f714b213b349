/*
 * module_calls: users' directories (PLUMB_OPERATION_DIRECTORY). What is asked for is given to whom it is for, is private, and what
 * is in there keeps its size once it is fixed.
 */
#define _GNU_SOURCE
#include "module_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* const way = "directories";

static int ask(uint32_t flags, int descriptor, int* given) {
    struct plumb_descriptor_request request = {flags, descriptor};
    const long result = by_device(PLUMB_OPERATION_DIRECTORY, &request, sizeof(request));
    if (given != NULL) *given = result == 0 ? request.descriptor : -1;
    return result == 0 ? 0 : -errno;
}

/* In a child, which may become somebody else; how much was wrong. */
static void in_child(int (*what)(void), const char* name) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(what());
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, way, name);
}

static int is_own(int directory, uid_t user) {
    struct stat info;
    return fstat(directory, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == user &&
           (info.st_mode & 07777) == 0700;
}

/* Of a user without rights: one of his own, another's is out of reach by any way. */
static int as_user(void) {
    int own, all;
    if (setgid(1001) != 0 || setuid(1001) != 0) return 1;
    umask(0777);
    if (ask(0, -1, &own) != 0 || !is_own(own, 1001)) return 2;
    if (ask(PLUMB_DIRECTORY_OF_ALL, -1, &all) != -EPERM) return 3;
    if (openat(own, "..", O_RDONLY | O_DIRECTORY) >= 0) { /* may be entered, and not listed */
        return 4;
    }
    if (openat(own, "../plumb-0", O_RDONLY | O_DIRECTORY) >= 0 || errno != EACCES) return 5;
    if (mkdirat(own, "../plumb-1002", 0700) == 0 || errno != EACCES) return 6;
    if (unlinkat(own, "../plumb-1001", AT_REMOVEDIR) == 0) return 7;
    umask(022);
    const int file = openat(own, "mine", O_RDWR | O_CREAT, 0600);
    if (file < 0 || unlinkat(own, "mine", 0) != 0) return 8;
    return 0;
}

static int in_namespace(int flags) {
    int given;
    if (unshare(flags) != 0) return 1;
    if ((flags & CLONE_NEWPID) != 0) {
        const pid_t child = fork();
        if (child == 0) _exit(ask(0, -1, &given) == -EXDEV ? 0 : 2);
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    }
    return ask(0, -1, &given) == -EXDEV ? 0 : 2;
}
static int in_processes(void) {
    return in_namespace(CLONE_NEWPID);
}
static int in_users(void) {
    return in_namespace(CLONE_NEWUSER);
}

/* Whatever is done to it, what is mapped stays there. */
static void check_size(int directory) {
    const int file = openat(directory, "fixed", O_RDWR | O_CREAT, 0600);
    const int unnamed = openat(directory, ".", O_RDWR | O_TMPFILE, 0600);
    expect(file >= 0 && unnamed >= 0, way, "files");
    expect(ftruncate(file, 8192) == 0 && ftruncate(unnamed, 8192) == 0, way, "may have a size");
    for (int which = 0; which < 2; which++) {
        const int each = which == 0 ? file : unnamed;
        expect(ask(PLUMB_DIRECTORY_FIX_SIZE, each, NULL) == 0, way, "fixed");
        expect(ask(PLUMB_DIRECTORY_FIX_SIZE, each, NULL) == 0, way, "fixed twice");
        char* const mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, each, 0);
        expect(mapped != MAP_FAILED, way, "mapped");
        expect(ftruncate(each, 0) == -1 && errno == EPERM, way, "cut");
        expect(ftruncate(each, 16384) == -1 && errno == EPERM, way, "made longer");
        const int again = openat(directory, "fixed", O_RDWR | O_TRUNC);
        expect(which != 0 || (again == -1 && errno == EPERM), way, "cut as it is opened");
        if (again >= 0) close(again);
        expect(fallocate(each, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) == 0, way, "a hole");
        mapped[0] = mapped[8191] = 1;
        munmap(mapped, 8192);
    }
    const int read_only = openat(directory, "fixed", O_RDONLY);
    expect(ask(PLUMB_DIRECTORY_FIX_SIZE, read_only, NULL) == -EPERM, way, "fixed by who may read it");
    expect(ask(PLUMB_DIRECTORY_FIX_SIZE, directory, NULL) == -EINVAL, way, "fixed: a directory");
    expect(ask(PLUMB_DIRECTORY_FIX_SIZE, -1, NULL) == -EBADF, way, "fixed: nothing");
    expect(ask(PLUMB_DIRECTORY_FIX_SIZE, 12345, NULL) == -EBADF, way, "fixed: not open");
    const int elsewhere = open("/dev/shm", O_RDWR | O_TMPFILE, 0600);
    expect(ask(PLUMB_DIRECTORY_FIX_SIZE, elsewhere, NULL) == -EINVAL, way, "fixed: a file of another place");
    expect(unlinkat(directory, "fixed", 0) == 0, way, "removed");
    close(elsewhere);
    close(read_only);
    close(unnamed);
    close(file);
}

/* As in /dev/shm, nobody can fill the machine's memory with it; nor is anything run out of it. */
static void check_limits(int directory) {
    const unsigned long flags = ST_NOSUID | ST_NODEV | ST_NOEXEC;
    struct statvfs limits;
    expect(fstatvfs(directory, &limits) == 0 && limits.f_blocks > 0 && limits.f_files > 0, way,
           "without limits");
    expect((limits.f_flag & flags) == flags, way, "programs and devices in there");
}

void check_directories(void) {
    int own = -1, again = -1, all = -1;
    expect(ask(4, -1, NULL) == -EINVAL &&
               ask(PLUMB_DIRECTORY_FIX_SIZE | PLUMB_DIRECTORY_OF_ALL, -1, NULL) == -EINVAL,
           way, "flags");
    expect(ask(0, -1, &own) == 0 && is_own(own, 0), way, "root's own");
    expect((fcntl(own, F_GETFD) & FD_CLOEXEC) != 0, way, "closed on exec");
    struct plumb_descriptor_request request = {0, -1};
    expect(by_syscall(PLUMB_OPERATION_DIRECTORY, &request, sizeof(request)) == 0, way, "by the call");
    again = request.descriptor;
    struct stat one, other;
    expect(fstat(own, &one) == 0 && fstat(again, &other) == 0 && one.st_ino == other.st_ino &&
               one.st_dev == other.st_dev,
           way, "one and the same");
    in_child(as_user, "a user");
    in_child(in_processes, "a process-id namespace");
    in_child(in_users, "a user namespace");
    expect(ask(PLUMB_DIRECTORY_OF_ALL, -1, &all) == 0, way, "all");
    expect(faccessat(all, "plumb-0", F_OK, 0) == 0 && faccessat(all, "plumb-1001", F_OK, 0) == 0, way,
           "everybody's");
    check_size(own);
    check_limits(own);
    /* Removed by its owner: the next who asks gets a new one. */
    expect(unlinkat(all, "plumb-0", AT_REMOVEDIR) == 0, way, "removed");
    close(own);
    expect(ask(0, -1, &own) == 0 && is_own(own, 0), way, "made again");
    close(own);
    close(again);
    close(all);
}

static const char* name_of(int number) {
    static char name[16];
    snprintf(name, sizeof(name), "%d", number);
    return name;
}

void make_files(int count) {
    int own = -1;
    expect(ask(0, -1, &own) == 0, way, "root's own");
    for (int i = 0; i < count; i++) {
        const int file = openat(own, name_of(i), O_WRONLY | O_CREAT, 0600);
        expect(file >= 0, way, "a file");
        close(file);
    }
}

void remove_files(int count) {
    int own = -1;
    expect(ask(0, -1, &own) == 0, way, "root's own");
    for (int i = 0; i < count; i++)
        expect(unlinkat(own, name_of(i), 0) == 0, way, "a file is removed");
}
