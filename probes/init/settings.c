/* What is to be recorded: of BOOT_FILE, and of the kernel's command line. */
#include "plumb-init.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES 16384
#define LINE_BYTES 4096
/* A part of them would be another recording, and the last might be an option without its value. */
_Static_assert(WORDS_MAX > FILE_BYTES / sizeof("record=") + LINE_BYTES / 2 + 8,
               "as many words as there may be");

/* How much there was, or -1. */
static ssize_t read_text(const char* path, char* text, size_t bytes) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever it is */
    const ssize_t got = file < 0 ? -1 : read(file, text, bytes - 1);
    const int error = errno;
    if (file >= 0) close(file);
    text[got < 0 ? 0 : got] = '\0';
    errno = error;
    return got;
}

static void add_word(struct settings* settings, const char* word) {
    if (settings->word_count < WORDS_MAX - 8)
        settings->words[settings->word_count++] = word;
    else
        say("%s is one word too many for a recording, and left out", word);
}

static void take_line(struct settings* settings, const char* name, const char* value) {
    if (strcmp(name, "init") == 0) settings->init = value;
    if (strcmp(name, "preload") == 0) settings->preload = value;
    if (strcmp(name, "folder") == 0) settings->folder = value;
    if (strcmp(name, "module") == 0) settings->wants_module = strcmp(value, "yes") == 0;
    if (strcmp(name, "record") == 0) add_word(settings, value);
}

static int read_boot_file(struct settings* settings) {
    static char content[FILE_BYTES];
    if (read_text(BOOT_FILE, content, sizeof(content)) < 0) return 0;
    for (char* line = strtok(content, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char* const value = strchr(line, '=');
        if (line[0] == '#' || value == NULL) continue;
        *value = '\0';
        take_line(settings, line, value + 1);
    }
    return 1;
}

/* Takes the next word off `*rest`, and the quotes out of it: as the kernel does with double ones, blanks between them are part of
 * it. NULL: there is none. */
static char* next_word(char** rest, char quote) {
    char* from = *rest + strspn(*rest, " \t\n");
    char* const word = from;
    char* to = from;
    int is_quoted = 0;
    if (*from == '\0') return NULL;
    for (; *from != '\0' && (is_quoted || strchr(" \t\n", *from) == NULL); from++) {
        if (*from == quote)
            is_quoted = !is_quoted;
        else
            *to++ = *from;
    }
    *rest = *from == '\0' ? from : from + 1;
    *to = '\0';
    return word;
}

/* Without BOOT_FILE: plumb as it is installed. */
static void add_usual_words(struct settings* settings) {
    static const char* const places[] = {"/usr/bin/plumb", "/usr/local/bin/plumb", "/bin/plumb"};
    size_t i = 0;
    while (i < sizeof(places) / sizeof(*places) - 1 && access(places[i], X_OK) != 0)
        i++;
    const char* const usual[] = {places[i], "record", "-q", "--force", "-o", DEFAULT_FOLDER "/trace",
                                 "--exe",   "*"};
    for (i = 0; i < sizeof(usual) / sizeof(*usual); i++)
        add_word(settings, usual[i]);
    settings->folder = DEFAULT_FOLDER;
}

static int ends_with(const char* text, const char* end) {
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Behind those of an earlier one. */
static void add_rules(struct asked* asked, const char* rules) {
    static char all[LINE_BYTES];
    if (asked->rules == NULL)
        all[0] = '\0'; /* it may be read again */
    else
        strcat(all, " ");
    asked->rules = strcat(all, rules); /* with their name they were longer */
}

void read_command_line(struct asked* asked) {
    static const char rules_name[] = "plumb.rules=";
    static char line[LINE_BYTES];
    char *rest = line, *word;
    memset(asked, 0, sizeof(*asked));
    read_text("/proc/cmdline", line, sizeof(line));
    while ((word = next_word(&rest, '"')) != NULL) {
        asked->is_off |= strcmp(word, "plumb.boot=off") == 0;
        if (strncmp(word, "init=", 5) == 0) asked->is_front = ends_with(word, "/plumb-init");
        if (strncmp(word, rules_name, sizeof(rules_name) - 1) == 0)
            add_rules(asked, word + sizeof(rules_name) - 1);
    }
}

void read_init(struct settings* settings) {
    read_boot_file(settings);
    settings->preload = NULL;
}

int read_settings(struct settings* settings, const struct asked* asked) {
    const int has_file = read_boot_file(settings);
    char *rules = asked->rules, *word;
    if (!has_file && rules == NULL) {
        say("could not read %s: %s", BOOT_FILE, strerror(errno));
        return 0;
    }
    if (!has_file) add_usual_words(settings);
    while (rules != NULL && (word = next_word(&rules, '\'')) != NULL)
        add_word(settings, word);
    return 1;
}
