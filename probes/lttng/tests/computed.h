/* Events whose fields' expressions change what other fields read, and count how often they are computed. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER computed

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./computed.h"

#if !defined(PLUMB_TESTS_COMPUTED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_COMPUTED_H

#include <lttng/tracepoint.h>

#ifndef PLUMB_TESTS_LABELLED /* the rest is read several times */
#define PLUMB_TESTS_LABELLED
struct labelled {
    int number;
    char label[24];
};

/* Its function lies as far behind its beginning as a filter's does in what a probe function is handed. */
struct stepper {
    void* before[5];
    int (*step)(struct stepper* stepper);
    char* text;
};

#ifdef __cplusplus
#define LETTERS(first, second) (second)
extern "C" {
#else
#define LETTERS(first, second) ((char[]){(char)(first), second[0], 0})
#endif
const char* written_into(char* scratch, const char* text, int number);
int released(void* page, int number);
int changed(char* text, int number);
extern int counted[4];
#ifdef __cplusplus
}
#endif
#endif

LTTNG_UST_TRACEPOINT_EVENT(
    computed, scratch, LTTNG_UST_TP_ARGS(char*, scratch, int, number),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(from, written_into(scratch, "from", number))
                            lttng_ust_field_string(to, written_into(scratch, "to", number + 1))))
LTTNG_UST_TRACEPOINT_EVENT(computed, before, LTTNG_UST_TP_ARGS(const char*, text, char*, same, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text) lttng_ust_field_integer(
                               char, first, same[0] = (char)('a' + number % 26))))
LTTNG_UST_TRACEPOINT_EVENT(computed, released, LTTNG_UST_TP_ARGS(const char*, text, void*, page, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)
                                                   lttng_ust_field_integer(int, number,
                                                                           released(page, number))))
LTTNG_UST_TRACEPOINT_EVENT(computed, in_frame, LTTNG_UST_TP_ARGS(int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(one, LETTERS('a' + number % 26, "x"))
                                                   lttng_ust_field_string(two,
                                                                          LETTERS('A' + number % 26, "y"))))
LTTNG_UST_TRACEPOINT_EVENT(computed, by_value,
                           LTTNG_UST_TP_ARGS(struct labelled, labelled, const char*, behind),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(label, labelled.label)
                                                   lttng_ust_field_integer(int, number, labelled.number)
                                                       lttng_ust_field_string(behind, behind)))
LTTNG_UST_TRACEPOINT_EVENT(computed, part, LTTNG_UST_TP_ARGS(const struct labelled*, labelled, int, skip),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(label, labelled->label + (skip ? 2 : 0))
                                                   lttng_ust_field_integer(int, number, labelled->number)))
LTTNG_UST_TRACEPOINT_EVENT(computed, steps, LTTNG_UST_TP_ARGS(const char*, text, struct stepper*, stepper),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)
                                                   lttng_ust_field_integer(int, steps,
                                                                           stepper->step(stepper))))
LTTNG_UST_TRACEPOINT_EVENT(computed, maybe, LTTNG_UST_TP_ARGS(const char*, text, char*, same, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text) lttng_ust_field_integer(
                               int, number, number > 3 ? changed(same, number) : number)))
LTTNG_UST_TRACEPOINT_EVENT(computed, counts, LTTNG_UST_TP_ARGS(const char*, text),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, count, ++counted[0])
                                                   lttng_ust_field_string(text, text)))
LTTNG_UST_TRACEPOINT_EVENT(computed, numbers, LTTNG_UST_TP_ARGS(int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, count, ++counted[1])
                                                   lttng_ust_field_integer(int, number, number)))
/* Without a filter nobody reads what is not written. */
LTTNG_UST_TRACEPOINT_EVENT(computed, unwritten, LTTNG_UST_TP_ARGS(const int*, nowhere, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_nowrite(int, hidden,
                                                                               *nowhere + ++counted[2])
                                                   lttng_ust_field_integer(int, number, number)))
LTTNG_UST_TRACEPOINT_EVENT(computed, unwritten_text,
                           LTTNG_UST_TP_ARGS(const char*, text, const int*, nowhere, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)
                                                   lttng_ust_field_integer_nowrite(int, hidden,
                                                                                   *nowhere + ++counted[3])
                                                       lttng_ust_field_integer(int, number, number)))

#endif

#include <lttng/tracepoint-event.h>
