/* Traces them as many rounds as its argument says, and says how often the expressions that count have been computed. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "computed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int counted[4];

__attribute__((noinline)) const char* written_into(char* scratch, const char* text, int number) {
    sprintf(scratch, "%s%d", text, number);
    return scratch;
}

__attribute__((noinline)) int released(void* page, int number) {
    munmap(page, 4096);
    return number;
}

__attribute__((noinline)) int changed(char* text, int number) {
    text[0] = (char)('a' + number % 26);
    return number;
}

static int step(struct stepper* stepper) {
    return changed(stepper->text, 7);
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    static char scratch[64], text[] = "0123456789";
    struct stepper stepper = {{NULL}, step, text};
    for (int round = 0; round < rounds; round++) {
        struct labelled labelled = {round, ""};
        sprintf(labelled.label, "label%d", round);
        char* const page =
            (char*)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return 1;
        sprintf(page, "page%d", round);
        text[0] = '0';
        lttng_ust_tracepoint(computed, scratch, scratch, round);
        lttng_ust_tracepoint(computed, before, text, text, round);
        text[0] = '1';
        lttng_ust_tracepoint(computed, steps, text, &stepper);
        text[0] = '2';
        lttng_ust_tracepoint(computed, maybe, text, text, round);
        lttng_ust_tracepoint(computed, released, page, page, round);
        lttng_ust_tracepoint(computed, in_frame, round);
        lttng_ust_tracepoint(computed, by_value, labelled, labelled.label);
        lttng_ust_tracepoint(computed, part, &labelled, round & 1);
        lttng_ust_tracepoint(computed, counts, text);
        lttng_ust_tracepoint(computed, numbers, round);
        lttng_ust_tracepoint(computed, unwritten, round < 3 ? &round : NULL, round);
        lttng_ust_tracepoint(computed, unwritten_text, text, round < 3 ? &round : NULL, round);
    }
    printf("counted %d %d %d %d\n", counted[0], counted[1], counted[2], counted[3]);
    return 0;
}
