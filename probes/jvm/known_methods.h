/*
 * Methods that are told, or were, by number. Of a name there is one, whichever class of that name has it, and it stays: a thread may be in
 * the code of a class that was given back long ago.
 */
#ifndef PLUMB_PROBES_JVM_KNOWN_METHODS_H
#define PLUMB_PROBES_JVM_KNOWN_METHODS_H

#include "text.h"

#include <stdbool.h>
#include <stdint.h>

struct plumb_known_method {
    struct plumb_known_method* next;
    int32_t number;
    uint32_t generation; /* of the last wish for which it was looked at */
    bool came_unwanted;
    struct plumb_text class_name, method, signature; /* with a NUL behind each */
};

/* Adds it, if it is not there. NULL: there are too many. */
struct plumb_known_method* plumb_know_method(struct plumb_text class_name, struct plumb_text method,
                                             struct plumb_text signature);
/* NULL: it is not there. */
struct plumb_known_method* plumb_find_known_method(struct plumb_text class_name, struct plumb_text method,
                                                   struct plumb_text signature);
/* By a number that was given. */
struct plumb_known_method* plumb_known_method(int32_t number);
void plumb_known_methods_forget_unwanted(void);
void plumb_known_methods_forget_looked_at(void);

#endif
