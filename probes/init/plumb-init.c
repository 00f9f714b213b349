/*
 * The first process of a machine that is to be recorded from its first instruction: it stands in front of the real init, as
 * `init=/usr/lib/plumb/plumb-init` on the kernel's command line (docs/plumb-boot.md). It mounts what a recording needs, begins
 * one, waits until all is on, and becomes the real init by exec().
 *
 *   plumb-init [WORDS...]      as process 1; the words are the real init's
 *   plumb-init --hold FILE     the command that is recorded: makes FILE, with its process id, when all is on, and sleeps until
 *                              it is ended
 *
 * The machine has to come up whatever is missing or wrong: each step that fails is said in the kernel's log, and the next one
 * is taken. `plumb.boot=off` on the kernel's command line leaves out all but the last one. It is static, and needs nothing
 * but the kernel; what it reads is BOOT_FILE, as `plumb boot enable` writes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BOOT_FILE "/etc/plumb/boot"
#define WORDS_MAX 128

/* Lines of BOOT_FILE, "name=value"; words of the recorder's command line are those named "record", in their order. */
struct settings {
    const char* init;
    const char* preload; /* for LD_PRELOAD of the real init; NULL: nothing */
    const char* folder;  /* of the recording */
    const char* words[WORDS_MAX];
    int word_count;
};

static void say(const char* format, ...) {
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
    mount_one("proc", "/proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
    mount_one("sysfs", "/sys", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
    mount_one("tracefs", "/sys/kernel/tracing", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
    mount_one("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
    mount_one("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
}

/* The content is the lines' memory, for good. */
static int read_settings(struct settings* settings) {
    static char content[16384];
    const int file = open(BOOT_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever it is */
    const ssize_t bytes = file < 0 ? -1 : read(file, content, sizeof(content) - 1);
    if (file >= 0) close(file);
    if (bytes < 0) {
        say("could not read %s: %s", BOOT_FILE, strerror(errno));
        return 0;
    }
    content[bytes] = '\0';
    for (char* line = strtok(content, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char* const value = strchr(line, '=');
        if (line[0] == '#' || value == NULL) continue;
        *value = '\0';
        if (strcmp(line, "init") == 0) settings->init = value + 1;
        if (strcmp(line, "preload") == 0) settings->preload = value + 1;
        if (strcmp(line, "folder") == 0) settings->folder = value + 1;
        if (strcmp(line, "record") == 0 && settings->word_count < WORDS_MAX - 8)
            settings->words[settings->word_count++] = value + 1;
    }
    return 1;
}

static int is_switched_off(void) {
    char line[4096];
    const int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file < 0 ? -1 : read(file, line, sizeof(line) - 1);
    if (file >= 0) close(file);
    if (bytes < 0) return 0;
    line[bytes] = '\0';
    return strstr(line, "plumb.boot=off") != NULL;
}

static void join(char* to, size_t bytes, const char* folder, const char* name) {
    snprintf(to, bytes, "%s/%s", folder, name);
}

/* In a process of its own, which does not come back. */
static void become_recorder(struct settings* settings, const char* self, const char* ready) {
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

/* Until all is on, the recorder has ended, or it has taken too long. */
static void wait_until_on(pid_t recorder, const char* ready) {
    struct stat there;
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        if (stat(ready, &there) == 0) return;
        int status;
        if (waitpid(recorder, &status, WNOHANG) == recorder) {
            say("the recorder has ended with status %d: see its log",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1);
            return;
        }
        const struct timespec pause = {0, 10 * 1000 * 1000};
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < 10);
    say("the recorder has not begun within 10 s: it may yet, and the machine goes on");
}

static void begin_recording(struct settings* settings, const char* self) {
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
    if (recorder == 0) become_recorder(settings, self, ready);
    if (recorder > 0) wait_until_on(recorder, ready);
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

/* As the kernel would have, had it not been told of us. */
static void become_init(const struct settings* settings, char** arguments) {
    const char* const others[] = {settings->init, "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"};
    if (settings->preload != NULL) {
        if (setenv("LD_PRELOAD", settings->preload, 1) != 0) say("no memory for LD_PRELOAD");
        tell_systemd(settings->preload);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (others[i] == NULL) continue;
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
    sigprocmask(SIG_BLOCK, &end, NULL);
    sigwait(&end, &number);
    return 0;
}

int main(int count, char** arguments) {
    struct settings settings;
    const char* const self = arguments[0];
    if (count == 3 && strcmp(arguments[1], "--hold") == 0) return hold(arguments[2]);
    if (getpid() != 1) {
        fprintf(stderr, "plumb-init is the first process of a machine: see `plumb boot --help`.\n");
        return 2;
    }
    memset(&settings, 0, sizeof(settings));
    mount_all();
    if (read_settings(&settings) && !is_switched_off()) begin_recording(&settings, self);
    become_init(&settings, arguments);
    return 1;
}
