/* Traces bytes, of lengths that its headers know and of some that they do not, as many rounds as its argument says. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "blobs.h"

#include <stdlib.h>

int main(int argc, char** argv) {
    static const unsigned char bytes[] = {0, 1, 127, 128, 255, 'a', 'b'};
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        lttng_ust_tracepoint(blobs, fixed, bytes, round);
        lttng_ust_tracepoint(blobs, variable, bytes, sizeof(bytes), round);
        lttng_ust_tracepoint(blobs, variable, bytes, 0, round);
    }
    return 0;
}
