/*
 * Why a process, or a program, that shows no sign of Plumb can not be recorded; and what to do if its tracepoints are LTTng-UST's.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_NO_TRACEPOINTS_H
#define PLUMB_CONSUMERD_CONTROL_NO_TRACEPOINTS_H

#include <cstdint>
#include <string>

namespace plumb {

/* Of a running process, by what it maps. */
std::string why_no_tracepoints(std::uint32_t process_id);
bool is_why_no_tracepoints(const std::string& why);

/* Whether it has tracepoints that `--preload lttng` records, or is linked with the library that they are for. */
bool has_lttng_tracepoints(const std::string& elf_path);
/* Whether it is linked with the library of LTTng-UST 2.12 or older, whose tracepoints nothing here records. */
/* Why nothing can be preloaded into who runs the file, for "it is ..."; nullptr: it can. */
const char* why_no_preload(const std::string& elf_path);

bool needs_old_lttng(const std::string& elf_path);

} // namespace plumb

#endif
