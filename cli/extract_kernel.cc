#include "cli/extract_kernel.h"

#include "base/output_buffer.h"
#include "cli/output.h"
#include "consumerd/drain/kernel_source.h"
#include "consumerd/kernel/kernel_session.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <string>
#include <utility>

namespace plumb {
namespace {

/* Names are those that there are now, and what the events themselves tell: threads that have begun before, and are gone, have
 * none. */
Status tell_nameless(RecordSummary& summary) {
    auto reader = TraceReader::open(summary.directory);
    if (!reader) return reader.error();
    ThreadCache cache;
    std::uint64_t nameless = 0;
    while (const Event* event = reader->next())
        if (event->stream->has_named_spans && !event->stream->is_statedump && event->thread_id != 0 &&
            reader->thread_span_of(*event, cache).thread == nullptr)
            nameless++;
    if (nameless != 0) summary.totals.not_described.push_back({"ended_before", nameless});
    return ok();
}

} // namespace

Status add_kernel_events(std::uint64_t session_cookie, const Drain& beside, RecordSummary& summary) {
    auto session = KernelSession::adopt(session_cookie);
    if (!session) return session.error();
    KernelDrainOptions options;
    options.directory = summary.directory;
    options.identity = beside.identity();
    options.clock = beside.clock_page();
    options.statedump.clock_mode = static_cast<plumb_clock_mode>(options.clock.mode);
    options.is_snapshot = true;
    options.ends_at_failure = true;
    options.log = [](const std::string& line) { print_error("plumb: {}\n", without_controls(line)); };
    auto drain = drain_kernel(**session, std::move(options));
    if (!drain) return drain.error();
    Status finished = (*drain)->finish();
    (*drain)->add_to(summary.totals);
    drain->reset(); /* an instance that is read from can not be removed */
    if (!finished) return finished;
    if (Status told = tell_nameless(summary); !told) summary.problems.push_back(told.error().message());
    if (Status removed = (*session)->remove(); !removed)
        summary.problems.push_back(removed.error().message());
    return ok();
}

} // namespace plumb
