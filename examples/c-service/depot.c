/* A shared library with tracepoints of its own: it links tp-async-lib.o. */
#include "depot.h"

#include "parcel.h"

void depot_work(uint64_t round, int print) {
    parcel_trace_round("library", round, print);
}
