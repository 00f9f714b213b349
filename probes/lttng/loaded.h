/*
 * What is loaded for as long as the process lives: its destructors run at the end alone, when other threads go on.
 */
#ifndef PLUMB_PROBES_LTTNG_LOADED_H
#define PLUMB_PROBES_LTTNG_LOADED_H

#include "landing_pads.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the address is in the executable, in a shared object that this needs, or one of these, or in one that is never unloaded
 * (-z nodelete). False if that can not be told.
 */
bool is_loaded_for_good(const void* address);

/* Whether the address is in an object that goes if the one of `of` does: that one, or what it needs. True if that can not be told. */
bool may_go_with(const void* address, const void* of);

/* From the first to the last byte that may be run of the object of an address; everything if that is not known. */
struct code {
    uintptr_t begin, end;
};
struct code code_of(const void* address);

/* Of that the segment alone in which the address is, as far as the file goes: all of it can be read. 0, 0: that is not known. */
struct code code_around(const void* address);

/* How the object of an address is unwound. */
struct unwind_index unwind_index_of(const void* address);

/* The same object again: from now on dlclose() leaves it where it is. False: it could not be done. */
bool keep_loaded(const void* address);

#endif
