/*
 * The first process of a machine that is to be recorded from its first instruction: it stands in front of the real init, as
 * `init=/usr/lib/plumb/plumb-init` on the kernel's command line (docs/plumb-boot.md). It mounts what a recording needs, begins
 * one, waits until all is on, and becomes the real init by exec().
 *
 *   plumb-init [WORDS...]      as process 1; the words are the real init's
 *   plumb-init --begin         in an initramfs, from its scripts: begins the recording, and comes back when all is on
 *   plumb-init --move          there, before the real root gets its place: the recorder is to follow (follow.c)
 *   plumb-init --hold FILE     the command that is recorded: makes FILE, with its process id, when all is on, and sleeps until
 *                              it is ended
 *
 * The machine has to come up whatever is missing or wrong: each step that fails is said in the kernel's log, and the next one
 * is taken. It is static, and needs nothing but the kernel; what it does is in BOOT_FILE, as `plumb boot enable` writes it, and on
 * the kernel's command line:
 *
 *   plumb.rules="-a -k sched:*"    further options of the recording; they do where there is no BOOT_FILE
 *   plumb.boot=off                 all is left out, but for becoming the real init
 */
#include "plumb-init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MODPROBE "/sbin/modprobe"

void say(const char* format, ...) {
    char line[512];
    va_list more;
    va_start(more, format);
    const int prefix = snprintf(line, sizeof(line), "<4>plumb-init: ");
    vsnprintf(line + prefix, sizeof(line) - (size_t)prefix, format, more);
    va_end(more);
    const int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    if (log < 0) return;
    if (write(log, line, strlen(line)) < 0) errno = 0; /* nobody is left to tell */
    close(log);
}

double seconds_since(const struct timespec* begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) / 1e9;
}

void rest_ms(long ms) {
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static int is_mounted(const char* place) {
    struct stat here, above;
    char parent[64];
    snprintf(parent, sizeof(parent), "%s/..", place);
    return stat(place, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

static void mount_one(const char* kind, const char* place, unsigned long flags, const char* options) {
    mkdir(place, 0755);
    if (is_mounted(place)) return;
    if (mount(kind, place, kind, flags, options) != 0) say("could not mount %s: %s", place, strerror(errno));
}

/* What a recording needs. An init that finds them mounted leaves them. */
static void mount_all(void) {
    mount_one("devtmpfs", "/dev", MS_NOSUID, "mode=0755");
    mount_one("sysfs", "/sys", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
    mount_one("tracefs", "/sys/kernel/tracing", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
    mount_one("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
    mount_one("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
}

void join(char* to, size_t bytes, const char* folder, const char* name) {
    snprintf(to, bytes, "%s/%s", folder, name);
}

/* In a process of its own, which does not come back. */
void become_recorder(struct settings* settings, const char* self, const char* ready) {
    char log[256];
    join(log, sizeof(log), settings->folder, "log");
    setsid();
    const int in = open("/dev/null", O_RDWR);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (in >= 0) dup2(in, 0);
    if (out >= 0) {
        dup2(out, 1);
        dup2(out, 2);
    }
    int count = settings->word_count;
    settings->words[count++] = "--";
    settings->words[count++] = self;
    settings->words[count++] = "--hold";
    settings->words[count] = ready;
    settings->words[count + 1] = NULL;
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 0);
    execv(settings->words[0], (char* const*)settings->words);
    say("could not run %s: %s", settings->words[0], strerror(errno));
    _exit(127);
}

/* Until all is on, the process that has the recorder in it has ended, or it has taken too long. */
static void wait_until_on(pid_t recorder, const char* ready) {
    struct stat there;
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        if (stat(ready, &there) == 0) return;
        int status;
        if (waitpid(recorder, &status, WNOHANG) == recorder) {
            say("the recorder has ended with status %d: see its log",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1);
            return;
        }
        rest_ms(10);
    } while (seconds_since(&begin) < 10);
    say("the recorder has not begun within 10 s: it may yet, and the machine goes on");
}

/* `moves`: this is an initramfs, whose root is not the machine's for long. */
static void begin_recording(struct settings* settings, const char* self, int moves) {
    char ready[256];
    if (settings->word_count == 0 || settings->folder == NULL) {
        say("%s says nothing of a recording", BOOT_FILE);
        return;
    }
    if (mkdir(settings->folder, 0700) != 0 && errno != EEXIST) {
        say("could not make %s: %s", settings->folder, strerror(errno));
        return;
    }
    join(ready, sizeof(ready), settings->folder, "hold");
    unlink(ready);
    const pid_t recorder = fork();
    if (recorder < 0) say("could not fork: %s", strerror(errno));
    if (recorder == 0 && moves) _exit(record_and_follow(settings, self, ready));
    if (recorder == 0) become_recorder(settings, self, ready);
    if (recorder > 0) wait_until_on(recorder, ready);
}

/* By who began in the initramfs. */
static int is_being_recorded(const struct settings* settings) {
    char ready[256], text[32] = "";
    if (settings->folder == NULL) return 0;
    join(ready, sizeof(ready), settings->folder, "hold");
    const int file = open(ready, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0) close(file);
    const long process = bytes > 0 ? strtol(text, NULL, 10) : 0;
    return process > 1 && kill((pid_t)process, 0) == 0;
}

/* plumb.ko, where it is wanted; without it, a recording is one by the update signal and /dev/shm. */
static void load_module(const struct settings* settings) {
    struct stat there;
    struct timespec begin;
    int status = 0;
    if (!settings->wants_module || stat("/dev/plumb", &there) == 0) return;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const pid_t child = fork();
    if (child == 0) {
        char* const words[] = {(char*)MODPROBE, (char*)"-q", (char*)"plumb", NULL};
        execv(MODPROBE, words);
        _exit(127);
    }
    if (child < 0) return say("could not fork: %s", strerror(errno));
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (seconds_since(&begin) > 10) return say(MODPROBE " plumb has not ended within 10 s");
        rest_ms(5);
    }
    if (status != 0)
        say(MODPROBE " plumb has failed (status %d): the recording goes without plumb.ko",
            WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* What systemd starts does not get its own environment. It reads this at its start; /run is of this boot alone. */
static void tell_systemd(const char* preload) {
    const char* const folders[] = {"/run/systemd", "/run/systemd/system.conf.d"};
    char text[2048];
    for (size_t i = 0; i < 2; i++)
        mkdir(folders[i], 0755);
    const int length =
        snprintf(text, sizeof(text), "[Manager]\nDefaultEnvironment=\"LD_PRELOAD=%s\"\n", preload);
    const int file =
        open("/run/systemd/system.conf.d/plumb.conf", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || length >= (int)sizeof(text) || write(file, text, (size_t)length) != length)
        say("could not write /run/systemd/system.conf.d/plumb.conf: %s", strerror(errno));
    if (file >= 0) close(file);
}

static int is_ourselves(const char* path) {
    struct stat there, here;
    return stat(path, &there) == 0 && stat("/proc/self/exe", &here) == 0 && there.st_dev == here.st_dev &&
           there.st_ino == here.st_ino;
}

/* As the kernel would have, had it not been told of us. */
static void become_init(const struct settings* settings, char** arguments) {
    const char* const others[] = {settings->init, "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"};
    if (settings->preload != NULL) {
        if (setenv("LD_PRELOAD", settings->preload, 1) != 0) say("no memory for LD_PRELOAD");
        tell_systemd(settings->preload);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (others[i] == NULL || is_ourselves(others[i])) continue;
        arguments[0] = (char*)others[i];
        execv(others[i], arguments);
        say("could not run %s: %s", others[i], strerror(errno));
    }
}

static int hold(const char* ready) {
    sigset_t end;
    int number;
    char text[32];
    const int file = open(ready, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, (size_t)snprintf(text, sizeof(text), "%d\n", (int)getpid())) < 0)
        return 1;
    close(file);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* without its recorder it holds nothing */
    sigprocmask(SIG_BLOCK, &end, NULL);
    sigwait(&end, &number);
    return 0;
}

/* Both ways to begin: in front of the real init, and in an initramfs. */
static void begin(struct settings* settings, const char* self, int moves) {
    struct asked asked;
    mount_one("proc", "/proc", MS_NOSUID | MS_NOEXEC | MS_NODEV,
              NULL); /* the kernel's command line is there */
    read_command_line(&asked);
    /* The initramfs is the same whether the boot loader asks for it or not, as in its recovery mode. */
    if (moves && !asked.is_front && asked.rules == NULL) return;
    if (asked.is_off) return read_init(settings);
    mount_all();
    if (!read_settings(settings, &asked) || is_being_recorded(settings)) return;
    load_module(settings);
    begin_recording(settings, self, moves);
}

int main(int count, char** arguments) {
    struct settings settings;
    const char* const self = arguments[0];
    memset(&settings, 0, sizeof(settings));
    if (count == 3 && strcmp(arguments[1], "--hold") == 0) return hold(arguments[2]);
    if (getpid() != 1 && count == 2 && strcmp(arguments[1], "--begin") == 0) {
        begin(&settings, self, 1);
        return 0;
    }
    if (getpid() != 1 && count == 2 && strcmp(arguments[1], "--move") == 0) {
        struct asked asked;
        read_command_line(&asked);
        if (!asked.is_off && read_settings(&settings, &asked) && is_being_recorded(&settings))
            announce_move(&settings);
        return 0;
    }
    if (getpid() != 1) {
        fprintf(stderr, "plumb-init is the first process of a machine: see `plumb boot --help`.\n");
        return 2;
    }
    begin(&settings, self, 0);
    become_init(&settings, arguments);
    return 1;
}
