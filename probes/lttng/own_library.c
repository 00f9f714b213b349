/*
 * What LTTng's own liblttng-ust.so asks of the two libraries that it needs, for which ours stand in: a program that brings it by
 * another name than its soname (liblttng-ust.so, or a path) has both. It is not to end there, as it would for a symbol that is
 * missing. There is nothing to do: LTTng has no tracepoints then, since they are ours.
 */
#include "ust.h"

#include <pthread.h>

UST_EXPORT void lttng_ust_tp_init(void);
UST_EXPORT void lttng_ust_tp_exit(void);
UST_EXPORT void lttng_ust_tp_probe_prune_release_queue(void);
void lttng_ust_tp_init(void) {}
void lttng_ust_tp_exit(void) {}
void lttng_ust_tp_probe_prune_release_queue(void) {}

/* 0: it is done. What they are given is not looked at. */
UST_EXPORT int lttng_ust_tp_probe_register_queue_release(void);
UST_EXPORT int lttng_ust_tp_probe_unregister_queue_release(void);
int lttng_ust_tp_probe_register_queue_release(void) {
    return 0;
}
int lttng_ust_tp_probe_unregister_queue_release(void) {
    return 0;
}

/* A thread of its own, or one in its functions, is not to be cancelled between the two, which nest. */
UST_EXPORT int lttng_ust_cancelstate_disable_push(void);
UST_EXPORT int lttng_ust_cancelstate_disable_pop(void);
static __thread int cancelling_before __attribute__((tls_model("initial-exec")));
static __thread int depth __attribute__((tls_model("initial-exec")));
int lttng_ust_cancelstate_disable_push(void) {
    return depth++ == 0 ? -pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling_before) : 0;
}
int lttng_ust_cancelstate_disable_pop(void) {
    return --depth == 0 ? -pthread_setcancelstate(cancelling_before, NULL) : 0;
}
