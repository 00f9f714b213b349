/*
 * The channel that plumb.ko writes the kernel's events to, as a source: as that of programs, but that it has no entries, and the
 * module wakes us by its descriptor. Who is who the trace says in the kernel's statedump: who was there at the beginning, and, in
 * the order of time, who began or got another name since, as the events task_newtask and task_rename tell, which are taken for
 * that whether or not they are asked for.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_MODULE_SOURCE_H
#define PLUMB_CONSUMERD_DRAIN_MODULE_SOURCE_H

#include "base/result.h"
#include "consumerd/control/channel.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/kernel/module_events.h"

#include <memory>

namespace plumb {

/* `events` and `channel`, to which they are attached, must live as long. */
Result<std::unique_ptr<Drain>> drain_module_channel(const ModuleEvents& events, Channel& channel,
                                                    KernelDrainOptions options);

} // namespace plumb

#endif
