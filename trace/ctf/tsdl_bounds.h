/* A type is made with what it takes at least, and no deeper than readers go. */
#ifndef PLUMB_TRACE_CTF_TSDL_BOUNDS_H
#define PLUMB_TRACE_CTF_TSDL_BOUNDS_H

#include "trace/ctf/tsdl_parser.h"

#include <cstdint>

namespace plumb::tsdl {

TypePtr shared(Type type);
/* Names let a type grow without nesting in the text, so what counts is the depth of the type itself. `line`: for the error. */
Result<TypePtr> shared_bounded(Type type, uint32_t line);

} // namespace plumb::tsdl

#endif
