/*
 * A recording that begins in an initramfs, whose root is emptied when the machine's own one is mounted: the recorder has to go with
 * it. A process of its own has its root and working directory in common with the recorder (CLONE_FS), waits until process 1 has
 * another root, and goes there, and with it the recorder.
 *
 * From when /proc, /sys, /dev and /run are moved until then, the recorder would find none of them, and take all programs for
 * ended. So it is stopped before (`plumb-init --move`), for 0.3 s in an emulated guest; events stay in their rings meanwhile.
 */
#include "plumb-init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The boot has come to a halt then, as in a rescue shell. */
#define STOPPED_MAX_S 20.0

static int is_there(const char* folder, const char* name) {
    char path[256];
    struct stat there;
    join(path, sizeof(path), folder, name);
    return stat(path, &there) == 0;
}

static void make(const char* folder, const char* name) {
    char path[256];
    join(path, sizeof(path), folder, name);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
}

static void remove_one(const char* folder, const char* name) {
    char path[256];
    join(path, sizeof(path), folder, name);
    unlink(path);
}

static int status_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

/* Whether the machine has got another root than we have; we have it then. */
static int goes_along(int proc) {
    struct stat ours, theirs;
    if (stat("/", &ours) != 0 || fstatat(proc, "1/root", &theirs, 0) != 0) return 0;
    if (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) return 0;
    const int root = openat(proc, "1/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int is_done = root >= 0 && fchdir(root) == 0 && chroot(".") == 0;
    if (!is_done) say("the recorder could not go to the machine's root: %s", strerror(errno));
    if (root >= 0) close(root);
    return 1;
}

int record_and_follow(struct settings* settings, const char* self, const char* ready) {
    int status, is_stopped = 0;
    struct timespec begin, stopped = {0, 0};
    const int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    setsid();
    const pid_t recorder = (pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, 0);
    if (recorder == 0) become_recorder(settings, self, ready);
    if (recorder < 0) {
        say("could not fork: %s", strerror(errno));
        return 126;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!goes_along(proc)) {
        if (waitpid(recorder, &status, WNOHANG) == recorder) return status_of(status);
        if (!is_stopped && is_there(settings->folder, "move")) {
            kill(recorder, SIGSTOP);
            /* No thread of it is under way any more. */
            if (waitpid(recorder, &status, WUNTRACED) == recorder && !WIFSTOPPED(status))
                return status_of(status);
            is_stopped = 1;
            clock_gettime(CLOCK_MONOTONIC, &stopped);
            remove_one(settings->folder, "move");
            make(settings->folder, "moves");
        }
        if (is_stopped && seconds_since(&stopped) > STOPPED_MAX_S) {
            kill(recorder, SIGCONT);
            is_stopped = 0;
        }
        rest_ms(is_stopped ? 1 : seconds_since(&begin) < 120 ? 20 : 500);
    }
    kill(recorder, SIGCONT);
    remove_one(settings->folder, "moves");
    return 0;
}

void announce_move(const struct settings* settings) {
    struct timespec begin;
    remove_one(settings->folder, "moves");
    make(settings->folder, "move");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!is_there(settings->folder, "moves") && seconds_since(&begin) < 2)
        rest_ms(5);
    if (!is_there(settings->folder, "moves")) say("the recorder has not heard that the root moves");
}
