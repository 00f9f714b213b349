/*
 * Which methods are asked for: patterns CLASS::METHOD, or CLASS::METHOD(TYPES)RETURNED, in which * stands for any characters, also dots, and
 * ? for one. A wish never changes; another one takes its place. It is there for as long as somebody uses it.
 */
#ifndef PLUMB_PROBES_JVM_METHOD_WISH_H
#define PLUMB_PROBES_JVM_METHOD_WISH_H

#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { plumb_method_patterns_max = 64 };

struct plumb_method_pattern {
    char* text;
    char *class_name, *method, *signature; /* globs, in a copy; no signature: any */
    uint32_t methods, left_alone;          /* how many were found */
};

struct plumb_method_wish {
    uint32_t users;
    uint32_t generation; /* no other wish of the process has it; from 1 on */
    uint32_t limit;      /* of methods that are told at once */
    uint32_t hooked;
    bool limit_was_met;
    uint32_t count;
    struct plumb_method_pattern patterns[plumb_method_patterns_max];
};

/* From the agent's options: methods=PATTERN, any number of them, and methods_limit=N. They take the place of those before when all words
 * are heard. */
bool plumb_method_wish_hear(const char* word, size_t bytes);
void plumb_method_wish_heard(void);

/* The last one, NULL if nothing is asked for. To be released. */
struct plumb_method_wish* plumb_method_wish_take(void);
struct plumb_method_wish* plumb_method_wish_share(struct plumb_method_wish* wish);
void plumb_method_wish_release(struct plumb_method_wish* wish);
uint32_t plumb_method_wish_generation(void); /* of the last one; 0: nothing is asked for */
uint32_t plumb_method_wish_repeated(void);   /* how often the same was asked for as before */

/* Nothing was found, as of a new one. */
void plumb_method_wish_begin_anew(struct plumb_method_wish* wish);

/* A bit for each pattern that matches. Texts end with a NUL. */
uint64_t plumb_wish_matches_class(const struct plumb_method_wish* wish, const char* class_name);
uint64_t plumb_wish_matches_method(const struct plumb_method_wish* wish, uint64_t of_class,
                                   const char* method, const char* signature);

/* Of the patterns from that one on, the first for which no method was found; the number of patterns if there is none. */
uint32_t plumb_wish_unmatched(const struct plumb_method_wish* wish, uint32_t from);

#endif
