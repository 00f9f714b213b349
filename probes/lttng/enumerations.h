/*
 * Names of an enumeration's values and ranges, as labels of the field that has them.
 */
#ifndef PLUMB_PROBES_LTTNG_ENUMERATIONS_H
#define PLUMB_PROBES_LTTNG_ENUMERATIONS_H

#include "abi.h"
#include "arena.h"

#include <plumb/detail/fields.h>

#include <stdbool.h>
#include <stddef.h>

/* The field is an integer, and stays one where there are no names, or where they take more than `*bytes` of a description. Those that they
 * take are put there. False: there was no memory. */
bool give_labels(struct arena* arena, struct plumb_event_field* field, const struct ust_enumeration* from,
                 size_t* bytes);

#endif
