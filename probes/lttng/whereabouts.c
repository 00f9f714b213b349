#include "whereabouts.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 256
#define LOOK_BYTES_MAX 65536u

/* "NUMBER ARGUMENT... SP PC", "-1 SP PC" outside of any system call, or "running". 0: it is not known. */
static uintptr_t stack_pointer_of(uint32_t thread_id, bool* is_in_call) {
    char text[LINE_BYTES];
    snprintf(text, sizeof(text), "/proc/self/task/%u/syscall", thread_id);
    const int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const ssize_t bytes = read(file, text, sizeof(text) - 1);
    close(file);
    if (bytes <= 0) return 0;
    text[bytes] = '\0';
    *is_in_call = text[0] != '-';
    const char* word = strrchr(text, ' ');
    if (word == NULL) return 0;
    while (word > text && word[-1] != ' ')
        word--;
    return (uintptr_t)strtoull(word, NULL, 16);
}

struct line {
    uintptr_t begin, end;
};

/* Beginnings of the lines of /proc/self/maps: what stands behind the two numbers does not matter, nor how long it is. */
static bool next_line(int file, struct line* line, char* buffer, size_t* used, size_t* at) {
    uintptr_t numbers[2] = {0, 0};
    for (int which = 0, is_rest = 0;;) {
        if (*at == *used) {
            const ssize_t bytes = read(file, buffer, LINE_BYTES);
            if (bytes <= 0) return false;
            *used = (size_t)bytes;
            *at = 0;
        }
        const char each = buffer[(*at)++];
        if (each == '\n') break;
        if (each == '-' && which == 0)
            which = 1;
        else if (each == ' ')
            is_rest = 1;
        else if (!is_rest)
            numbers[which] = numbers[which] << 4 | (uintptr_t)(each <= '9' ? each - '0' : each - 'a' + 10);
    }
    line->begin = numbers[0];
    line->end = numbers[1];
    return true;
}

static bool are_on_one_stack(uintptr_t lower, uintptr_t higher) {
    char buffer[LINE_BYTES];
    size_t used = 0, at = 0;
    struct line line;
    bool are = false;
    const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    while (!are && next_line(file, &line, buffer, &used, &at))
        are = line.begin <= lower && higher < line.end;
    close(file);
    return are;
}

/* What a handler returns to. */
static bool is_end_of_handler(int memory, uintptr_t address) {
#if defined(__x86_64__)
    static const unsigned char code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* rt_sigreturn */
    unsigned char there[sizeof(code)];
    return address <= INTPTR_MAX && pread(memory, there, sizeof(there), (off_t)address) == sizeof(there) &&
           memcmp(there, code, sizeof(code)) == 0;
#else
    (void)memory, (void)address;
    return true;
#endif
}

static bool is_in(uintptr_t address, struct code code) {
    return address >= code.begin && address < code.end;
}

/*
 * Of a thread in a system call. If it is in the tracepoint yet, then by way of a probe function or of ours, to which it will return, or in a
 * handler that came between. Such addresses may be left over from before, so that it is only taken to be there.
 */
static bool may_return_to(int memory, uintptr_t stack_pointer, uintptr_t frame, struct code code) {
    const struct code ours = code_of((const void*)(uintptr_t)&whereabouts_of);
    uintptr_t words[64];
    for (uintptr_t at = stack_pointer & ~(sizeof(words[0]) - 1); at < frame;) {
        const size_t left = frame - at < sizeof(words) ? frame - at : sizeof(words);
        const ssize_t bytes = pread(memory, words, left, (off_t)at);
        if (bytes < (ssize_t)sizeof(words[0])) return true;
        for (size_t i = 0; i < (size_t)bytes / sizeof(words[0]); i++)
            if (is_in(words[i], code) || is_in(words[i], ours) || is_end_of_handler(memory, words[i]))
                return true;
        at += (uintptr_t)bytes & ~(sizeof(words[0]) - 1);
    }
    return false;
}

static bool was_jumped_out_of(uintptr_t stack_pointer, uintptr_t frame, struct code code) {
    if (frame - stack_pointer > LOOK_BYTES_MAX) return false;
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0) return false;
    const bool may = may_return_to(memory, stack_pointer, frame, code);
    close(memory);
    return !may;
}

enum whereabouts whereabouts_of(uint32_t thread_id, uintptr_t frame, struct code code) {
    bool is_in_call = false;
    const uintptr_t stack_pointer =
        thread_id != 0 && frame != 0 ? stack_pointer_of(thread_id, &is_in_call) : 0;
    if (stack_pointer == 0) return WHERE_UNKNOWN;
    if (stack_pointer > frame) return are_on_one_stack(frame, stack_pointer) ? WHERE_LEFT : WHERE_BELOW;
    if (!is_in_call || !are_on_one_stack(stack_pointer, frame)) return WHERE_BELOW;
    return was_jumped_out_of(stack_pointer, frame, code) ? WHERE_LEFT : WHERE_BELOW;
}
