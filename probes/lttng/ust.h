/*
 * What the probe exports by LTTng-UST's names.
 *
 * What always holds for all of it: it works before the probe's constructors have run, since the program's may come first, and
 * nothing of it ends the program, whatever it is given.
 */
#ifndef PLUMB_PROBES_LTTNG_UST_H
#define PLUMB_PROBES_LTTNG_UST_H

#include "abi.h"

#define UST_EXPORT __attribute__((visibility("default")))

/* Asked for by programs with dlsym(), or linked. */
UST_EXPORT int lttng_ust_tracepoint_module_register(struct ust_tracepoint* const* tracepoints, int count);
UST_EXPORT int lttng_ust_tracepoint_module_unregister(struct ust_tracepoint* const* tracepoints);
UST_EXPORT int lttng_ust_tracepoint_provider_register(const char* provider, const char* event,
                                                      ust_function function, void* data,
                                                      const char* signature);
UST_EXPORT int lttng_ust_tracepoint_provider_unregister(const char* provider, const char* event,
                                                        ust_function function, void* data);
UST_EXPORT void* lttng_ust_probe_register(const struct ust_provider* provider);
UST_EXPORT void lttng_ust_probe_unregister(void* registered);
UST_EXPORT void lttng_ust_tp_rcu_read_lock(void);
UST_EXPORT void lttng_ust_tp_rcu_read_unlock(void);
UST_EXPORT void* lttng_ust_tp_rcu_dereference_sym(void* pointer);
UST_EXPORT void lttng_ust_tp_disable_destructors(void);
UST_EXPORT int lttng_ust_tp_get_destructors_state(void);
UST_EXPORT void lttng_ust_urcu_register(void);
UST_EXPORT void lttng_ust_urcu_register_thread(void);
UST_EXPORT void lttng_ust_urcu_read_lock(void);
UST_EXPORT void lttng_ust_urcu_read_unlock(void);
UST_EXPORT void lttng_ust_urcu_synchronize_rcu(void);

#endif
