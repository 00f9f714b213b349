/* What a killed recorder had not read of the kernel's buffers becomes a part of the trace that plumb extract makes. */
#ifndef PLUMB_CLI_EXTRACT_KERNEL_H
#define PLUMB_CLI_EXTRACT_KERNEL_H

#include "base/result.h"
#include "cli/record_summary.h"
#include "consumerd/drain/drain.h"

#include <cstdint>

namespace plumb {

/*
 * Beside `beside`. Reading takes events out of those buffers, so what could not be written stays there only as far as it was not
 * read: the first failure ends it. The tracing instance is removed when all of it is in the trace, and not before. ENOENT: it is
 * gone.
 */
Status add_kernel_events(std::uint64_t session_cookie, const Drain& beside, RecordSummary& summary);

} // namespace plumb

#endif
