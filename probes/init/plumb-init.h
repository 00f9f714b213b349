/* What the parts of plumb-init share: the settings (settings.c), and the recorder that follows the root (follow.c). */
#ifndef PLUMB_INIT_H
#define PLUMB_INIT_H

#include <stddef.h>
#include <time.h>

#define BOOT_FILE "/etc/plumb/boot"
#define DEFAULT_FOLDER "/run/plumb-boot"
#define WORDS_MAX 4608

/* Lines of BOOT_FILE, "name=value"; words of the recorder's command line are those named "record", in their order, and then
 * those of plumb.rules. */
struct settings {
    const char* init;
    const char* preload; /* for LD_PRELOAD of the real init; NULL: nothing */
    const char* folder;  /* of the recording */
    const char* words[WORDS_MAX];
    int word_count;
    int wants_module;
};

/* Into the kernel's log. */
__attribute__((format(printf, 1, 2))) void say(const char* format, ...);
double seconds_since(const struct timespec* begin);
void rest_ms(long ms);
void join(char* to, size_t bytes, const char* folder, const char* name);

/* Of the kernel's command line. */
struct asked {
    char* rules;  /* of all plumb.rules=; NULL: there is none */
    int is_off;   /* plumb.boot=off */
    int is_front; /* init= is plumb-init */
};

/* What they give lives for good. */
void read_command_line(struct asked* asked);
/* Whether there is to be a recording. */
int read_settings(struct settings* settings, const struct asked* asked);
/* Only what the real init is. */
void read_init(struct settings* settings);

/* Does not come back. */
void become_recorder(struct settings* settings, const char* self, const char* ready);
/* The recorder in a process of its own, which goes where the machine's root goes; its exit status, or 0 when it is there. */
int record_and_follow(struct settings* settings, const char* self, const char* ready);
/* Says to that one that the root is about to move, and waits until it has heard. */
void announce_move(const struct settings* settings);

#endif
