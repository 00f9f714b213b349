/*
 * What is missing from a trace, and why: one line for each cause, with what to do about it.
 */
#ifndef PLUMB_CLI_LOSSES_H
#define PLUMB_CLI_LOSSES_H

#include "base/result.h"
#include "consumerd/drain/drain_totals.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* "7 events not_written (the trace could not be written: No space left on device)". `noun`: event or sub-buffer. */
std::string loss_text(const NamedCount& lost, const std::string& noun, const std::string& write_error);

/* Kinds of events of which nothing was recorded, since the session had no room for them. */
std::string not_switched_on_text(const NamedCount& missing);

/* Events that are there, but shortened; the note that counts them. */
inline constexpr const char* cut_note = "cut";
std::string cut_text(std::uint64_t count);

/* The same lines for a trace that was recorded before, from the summary.json beside it. An error if there is none, or
 * none of ours. */
Result<std::vector<std::string>> recorded_losses(const std::string& trace);

} // namespace plumb

#endif
