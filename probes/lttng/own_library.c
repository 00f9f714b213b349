/*
 * What LTTng's own liblttng-ust.so asks of the two libraries that it needs, for which ours stand in: a program that brings it by
 * another name than its soname (liblttng-ust.so, or a path) has both. It is not to end there, as it would for a symbol that is
 * missing. There is nothing to do: LTTng has no tracepoints then, since they are ours.
 */
#include "ust.h"

UST_EXPORT void lttng_ust_tp_init(void);
UST_EXPORT void lttng_ust_tp_exit(void);
UST_EXPORT void lttng_ust_tp_probe_prune_release_queue(void);
void lttng_ust_tp_init(void) {}
void lttng_ust_tp_exit(void) {}
void lttng_ust_tp_probe_prune_release_queue(void) {}

/* 0: it is done. What they are given is not looked at. */
UST_EXPORT int lttng_ust_tp_probe_register_queue_release(void);
UST_EXPORT int lttng_ust_tp_probe_unregister_queue_release(void);
UST_EXPORT int lttng_ust_cancelstate_disable_push(void);
UST_EXPORT int lttng_ust_cancelstate_disable_pop(void);
int lttng_ust_tp_probe_register_queue_release(void) {
    return 0;
}
int lttng_ust_tp_probe_unregister_queue_release(void) {
    return 0;
}
int lttng_ust_cancelstate_disable_push(void) {
    return 0;
}
int lttng_ust_cancelstate_disable_pop(void) {
    return 0;
}
