/* The same by the C++ compiler. */
#include "computed.c" // NOLINT: one source, two languages
