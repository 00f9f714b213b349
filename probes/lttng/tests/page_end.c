/* Traces texts that end where a page does behind which there is none: without a NUL, and with one in them. With an argument, long arrays. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "page_end.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

static void trace_all(const char* end) {
    lttng_ust_tracepoint(page_end, array_1, end - 1);
    lttng_ust_tracepoint(page_end, array_5, end - 5);
    lttng_ust_tracepoint(page_end, array_16, end - 16);
    lttng_ust_tracepoint(page_end, array_40, end - 40);
    for (size_t bytes = 1; bytes <= 40; bytes++)
        lttng_ust_tracepoint(page_end, sequence, end - bytes, bytes);
}

/* More than a record holds. */
static void trace_long_ones(void) {
    static unsigned char bytes[65536] __attribute__((aligned(8)));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i % 251);
    lttng_ust_tracepoint(page_end, long_array, bytes, 7);
    lttng_ust_tracepoint(page_end, long_arrays, bytes, 8);
}

/* By mistake, as of a message that was not checked: nothing of it is there. With -1 LTTng's own sums go beyond 2^64. */
static void trace_wrong_lengths(const char* end) {
    static const size_t lengths[] = {0, 16, 1u << 20, 1ul << 31, 1ul << 40, 1ul << 63, -64ul, -16ul, -1ul};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        lttng_ust_tracepoint(page_end, wrong, end - 32, lengths[i]);
}

int main(int count, char** arguments) {
    if (count > 1 && strcmp(arguments[1], "long") == 0) {
        trace_long_ones();
        return 0;
    }
    char* const page = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page + PAGE_BYTES, PAGE_BYTES, PROT_NONE) != 0) return 1;
    memset(page, 'e', PAGE_BYTES);
    if (count > 1) {
        trace_wrong_lengths(page + PAGE_BYTES);
        return 0;
    }
    trace_all(page + PAGE_BYTES);
    page[PAGE_BYTES - 3] = '\0';
    trace_all(page + PAGE_BYTES);
    puts("done");
    return 0;
}
