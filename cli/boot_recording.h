/*
 * The recording of this boot, that plumb-init began: who holds it on, how it is ended, and where its trace is.
 */
#ifndef PLUMB_CLI_BOOT_RECORDING_H
#define PLUMB_CLI_BOOT_RECORDING_H

#include "base/result.h"
#include "cli/record_options.h"

#include <sys/types.h>

#include <optional>
#include <string>

namespace plumb {

inline constexpr const char* boot_folder = "/run/plumb-boot";
inline constexpr const char* boot_trace = "/run/plumb-boot/trace";

/* Who holds it on; nothing if it is over, or there is none. */
std::optional<pid_t> boot_recording_holder();
/* Whether there is one that is whole, or a snapshot. */
bool has_boot_trace();
/* Ends it, and waits until its trace is whole. */
Status stop_boot_recording();

/* plumb record --boot: goes on with it until the time is over or a signal ends it, and brings its trace to where the options
 * say. */
Status bring_boot_recording(const RecordOptions& options);

} // namespace plumb

#endif
