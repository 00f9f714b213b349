/* What `plumb boot enable` has added to the kernel's command line. */
#ifndef PLUMB_CLI_BOOT_PARAMETERS_H
#define PLUMB_CLI_BOOT_PARAMETERS_H

#include "base/result.h"
#include "cli/boot_files.h"
#include "cli/record_options.h"

#include <string>

namespace plumb {

/* What the words say that `plumb record` is given at the boot. */
Result<RecordOptions> recording_of(const BootOptions& options);

/* With `kernel_start`, also that the kernel records its own start: of the recording's events of the kernel those that it can, by the
 * recording's clock, in a buffer of its size. */
Result<std::string> boot_parameters(const BootOptions& options, const std::string& plumb_init);

} // namespace plumb

#endif
