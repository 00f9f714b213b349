/* A plug-in, loaded with dlopen() and unloaded again while the service runs: it links tp-async-lib.o. */
#include "parcel.h"

void plugin_work(uint64_t round, int print);

void plugin_work(uint64_t round, int print) {
    parcel_trace_round("plugin", round, print);
}
