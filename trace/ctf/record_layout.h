/*
 * Which layouts of records can be read without walking a plan: they are recognised by what the metadata describes.
 */
#ifndef PLUMB_TRACE_CTF_RECORD_LAYOUT_H
#define PLUMB_TRACE_CTF_RECORD_LAYOUT_H

#include "trace/ctf/decode_plan.h"

#include <cstdint>

namespace plumb {

/* Whether header and context are those of include/plumb/abi/record.h. */
bool is_plumb_record(const Plan& header, const Plan& context);
/* Whether they may be those that consumerd/sink/record_packer.h draws. */
bool is_compact_record(const Plan& header, const Plan& context);
/* Bytes of all fields together; EventInfo::variable_size if that differs from event to event. */
uint32_t fixed_bytes_of(const Plan& fields);

} // namespace plumb

#endif
