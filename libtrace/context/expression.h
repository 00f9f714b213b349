// DWARF expressions, as far as frames use them (DWARF 4, section 2.5): a small stack machine.
#pragma once

#include "cfi.h"

namespace plumb::context {

// Of the one that stands at `at`, behind its length; `first` is on the stack when it begins, unless it is nullptr. False: it makes no
// sense, asks for what is not known, or does not end.
bool evaluate(Memory& memory, const Registers& registers, uint64_t at, const uint64_t* first,
              uint64_t& result);

} // namespace plumb::context
