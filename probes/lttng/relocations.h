/*
 * What the linker was asked to put where: for calls that go through a table, by whose name it was filled, or will be.
 */
#ifndef PLUMB_PROBES_LTTNG_RELOCATIONS_H
#define PLUMB_PROBES_LTTNG_RELOCATIONS_H

#include <stdbool.h>

/* Whether the pointer there, in some object, is the address of the function of that name. False if that can not be told. */
bool is_pointer_to_function(const void* pointer, const char* name);

/* Whether the object in which the address is refers to the function of that name, which another one has. */
bool refers_to_function(const void* address, const char* name);

#endif
