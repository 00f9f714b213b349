// A shared library in C++ with tracepoints: it links tp-async-lib.o.
#include "kiosk.h"

#include <cstdarg>
#include <cstdio>

void print_line(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::putchar('\n');
}

void trace_in_library(std::uint64_t round, bool print) {
    trace_counts(round, print);
    Stack<std::string> names;
    names.push("library");
    if (print)
        print_line("{\"event\": \"kiosk:pushed\", \"fields\": {\"size\": 1, \"element_bytes\": %zu}}",
                   sizeof(std::string));
}
