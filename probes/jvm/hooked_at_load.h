/*
 * Which classes were loaded with the hooks of a wish in them, so that nobody gives them to the JVM anew for those. That would not only be in
 * vain: of a method that runs meanwhile the JVM knows neither file nor line any more in what is thrown.
 */
#ifndef PLUMB_PROBES_JVM_HOOKED_AT_LOAD_H
#define PLUMB_PROBES_JVM_HOOKED_AT_LOAD_H

#include <jvmti.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By the hook that loads it. Those of another wish, by its generation, are forgotten. The name as the class's file has it. */
void plumb_note_hooked_at_load(uint32_t generation, const char* name, size_t name_bytes);

bool plumb_was_hooked_at_load(uint32_t generation, jclass class);

void plumb_forget_hooked_at_load(void);

#endif
