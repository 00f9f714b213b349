// For the variables that every start touches: on the page that holds .data, which the dynamic linker has written anyway. Each
// further page costs every program with tracepoints a fault.
#pragma once

#define PLUMB_OF_EVERY_START [[gnu::section(".data.runtime")]]
