/*
 * What a person may have meant by a field that no event has, or that has parts: the place of a name within structs and
 * variants, names that are nearly it, and how a part or an element is named.
 */
#ifndef PLUMB_TRACE_SHOW_CONDITION_NAMES_H
#define PLUMB_TRACE_SHOW_CONDITION_NAMES_H

#include "base/condition_parser.h"
#include "trace/trace_reader.h"

#include <string>

namespace plumb {

/* Of a field that is a number or a text in no event. */
std::string why_no_value(const TraceReader& reader, const FieldPath& wanted);

} // namespace plumb

#endif
