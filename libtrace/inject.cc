// The hooks of the injection points; only in the build for stress tests.
#include "ring/inject.h"

#ifdef PLUMB_INJECT
extern "C" {
__attribute__((visibility("default"))) void (*plumb_inject_hook)(uint32_t point);
// How often each PLUMB_RSEQ_LOOP of the sequences goes round.
__attribute__((visibility("default"))) uint32_t plumb_inject_loops[8];
}
#endif
