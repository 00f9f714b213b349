/* Filters of the kernel's events (<plumb/abi/kernel_filter.h>): wrong ones, each wrong in one word, and any. */
#define _GNU_SOURCE
#include "module_filters.h"

#include "module_calls.h"

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/kernel_filter.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

static const char way[] = "filters";

static int filter(int events, const struct plumb_kernel_filter* request) {
    return ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_FILTER, sizeof(*request)), request) == 0
               ? 0
               : errno;
}

/* `number < 5 && name ~ "a*"` */
static struct plumb_kernel_filter good_filter(void) {
    struct plumb_kernel_filter request;
    memset(&request, 0, sizeof(request));
    request.event_id = 60000;
    request.field_count = 3;
    request.fields[0] =
        (struct plumb_filter_field){.type = PLUMB_FIELD_INTEGER, .size = 4, .flags = PLUMB_FIELD_SIGNED};
    request.fields[1] = (struct plumb_filter_field){.type = PLUMB_FIELD_ARRAY, .size = 8, .array_length = 2};
    request.fields[2] = (struct plumb_filter_field){.type = PLUMB_FIELD_STRING, .size = 1};
    request.test_count = 2;
    request.tests[0] = (struct plumb_filter_test){.operation = PLUMB_FILTER_LESS,
                                                  .if_true = 1,
                                                  .if_false = PLUMB_FILTER_LEAVE,
                                                  .mask = UINT64_MAX,
                                                  .value = 5};
    request.tests[1] = (struct plumb_filter_test){.field = 2,
                                                  .operation = PLUMB_FILTER_MATCHES,
                                                  .if_true = PLUMB_FILTER_TAKE,
                                                  .if_false = PLUMB_FILTER_LEAVE};
    request.text_bytes = 3;
    memcpy(request.texts, "a*", 3);
    return request;
}

#define WRONG(field, number) WRONG_WORD(struct plumb_kernel_filter, field, number, EINVAL)

static const struct wrong all_wrong[] = {
    WRONG(event_id, 0),
    WRONG(event_id, 65536),
    WRONG(field_count, 33),
    WRONG(field_count, 2), /* the text's is not there */
    WRONG(test_count, 0),
    WRONG(test_count, 65),
    WRONG(test_count, 1), /* the first one leads behind the last */
    WRONG(text_bytes, 2), /* without an end */
    WRONG(text_bytes, 0),
    WRONG(text_bytes, 1025),
    WRONG(reserved, 1),
    WRONG(reserved2, 1),
    WRONG(fields[0].type, PLUMB_FIELD_FLOAT),
    WRONG(fields[0].type, PLUMB_FIELD_ARRAY), /* which can not be tested */
    WRONG(fields[0].size, 0),
    WRONG(fields[0].size, 3),
    WRONG(fields[0].flags, 2),
    WRONG(fields[0].array_length, 1),
    WRONG(fields[1].size, 16),
    WRONG(fields[2].size, 2),
    WRONG(fields[2].type, PLUMB_FIELD_INTEGER), /* and a pattern */
    WRONG(tests[0].field, 1),
    WRONG(tests[0].field, 3),
    WRONG(tests[0].field, 0x84),
    WRONG(tests[0].field, PLUMB_FILTER_COMM), /* and a number */
    WRONG(tests[0].operation, PLUMB_FILTER_MATCHES),
    WRONG(tests[0].operation, 8),
    WRONG(tests[0].is_negative, 1), /* and 5 */
    WRONG(tests[0].is_negative, 2),
    WRONG(tests[0].turns_sign, 2),
    WRONG(tests[0].if_true, 0), /* itself */
    WRONG(tests[0].if_true, 2),
    WRONG(tests[0].if_false, 0xfffd),
    WRONG(tests[1].if_true, 0), /* back */
    WRONG(tests[1].operation, PLUMB_FILTER_LESS),
    WRONG(tests[1].value, 3),
    WRONG(tests[1].mask, 1),
    WRONG(tests[1].turns_sign, 1), /* of a text */
};

void check_filters_without_channel(int events) {
    const struct plumb_kernel_filter request = good_filter();
    expect(filter(events, &request) == ENOTCONN, way, "without a channel");
}

/* Tests that share a pattern of so many bytes, each tried if those before it did not match. */
static struct plumb_kernel_filter dear_filter(uint16_t tests, uint16_t pattern_bytes) {
    struct plumb_kernel_filter request = good_filter();
    request.event_id = 60001;
    request.test_count = tests;
    for (uint16_t i = 0; i < tests; i++)
        request.tests[i] = (struct plumb_filter_test){
            .field = 2,
            .operation = i % 2 == 0 ? PLUMB_FILTER_MATCHES : PLUMB_FILTER_MATCHES_NOT,
            .if_true = PLUMB_FILTER_TAKE,
            .if_false = i + 1 == tests ? PLUMB_FILTER_LEAVE : (uint16_t)(i + 1)};
    request.text_bytes = (uint16_t)(pattern_bytes + 1);
    memset(request.texts, 'b', pattern_bytes);
    request.texts[0] = '*';
    request.texts[pattern_bytes] = 0;
    return request;
}

static void check_costs(int events) {
    struct plumb_kernel_filter request = dear_filter(64, 1023);
    expect(filter(events, &request) == E2BIG, way, "as dear as it can be");
    request = dear_filter(64, 17);
    expect(filter(events, &request) == E2BIG, way, "many tests of one pattern");
    request = dear_filter(2, 513);
    expect(filter(events, &request) == E2BIG, way, "two tests of a long pattern");
    request = dear_filter(64, 16);
    expect(filter(events, &request) == 0, way, "the dearest that is taken");
}

void check_filters(int events) {
    struct plumb_kernel_filter request;
    for (size_t i = 0; i < sizeof(all_wrong) / sizeof(all_wrong[0]); i++) {
        const struct wrong* const wrong = &all_wrong[i];
        request = good_filter();
        memcpy((char*)&request + wrong->offset, &wrong->value, wrong->bytes);
        expect(filter(events, &request) == wrong->error, way, wrong->what);
    }
    expect(ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_FILTER, sizeof(request)), NULL) == -1 &&
               errno == EFAULT,
           way, "no memory");
    check_costs(events);
    request = good_filter();
    expect(filter(events, &request) == 0, way, "a good one");
    expect(filter(events, &request) == EBUSY, way, "twice");
}

static struct plumb_filter_field random_field(uint64_t (*any)(void)) {
    struct plumb_filter_field field = {.type = PLUMB_FIELD_INTEGER, .size = (uint8_t)(1u << any() % 4)};
    const uint64_t kind = any() % 8;
    if (kind == 0) {
        field.type = PLUMB_FIELD_STRING;
        field.size = 1;
    } else if (kind == 1) {
        field.type = PLUMB_FIELD_SEQUENCE;
    } else if (kind == 2) {
        field.type = PLUMB_FIELD_ARRAY;
        field.array_length = (uint16_t)(any() % 3 ? any() % 20 : any());
    } else {
        field.flags = any() % 2 ? PLUMB_FIELD_SIGNED : 0;
    }
    return field;
}

/* Of another event than those whose payloads it is laid out as: it finds its fields where they are not. */
void random_filter(int events, uint64_t (*any)(void)) {
    struct plumb_kernel_filter request;
    memset(&request, 0, sizeof(request));
    request.event_id = (uint32_t)(any() % 70);
    request.field_count = (uint16_t)(1 + any() % PLUMB_EVENT_MAX_FIELDS);
    for (uint16_t i = 0; i < request.field_count; i++)
        request.fields[i] = random_field(any);
    request.text_bytes = 64;
    for (unsigned i = 0; i + 1 < request.text_bytes; i++)
        request.texts[i] = "*?[]a-\\!z"[any() % 9];
    request.test_count = (uint16_t)(1 + any() % PLUMB_FILTER_TESTS_MAX);
    for (uint16_t i = 0; i < request.test_count; i++) {
        struct plumb_filter_test* const test = &request.tests[i];
        test->field = (uint8_t)(any() % 3 ? any() % request.field_count : PLUMB_FILTER_COMM + any() % 4);
        const int is_text =
            test->field == PLUMB_FILTER_COMM ||
            (test->field < PLUMB_FILTER_COMM && request.fields[test->field].type == PLUMB_FIELD_STRING);
        test->operation = (uint8_t)(is_text ? any() % 2 + (any() % 2 ? PLUMB_FILTER_MATCHES : 0) : any() % 6);
        test->mask = is_text ? 0 : any() % 2 ? UINT64_MAX : any();
        test->turns_sign = is_text ? 0 : any() % 2;
        test->value = is_text ? any() % request.text_bytes : any() % 3 ? any() % 300 : any() >> 1;
        const uint64_t to = i + 1u + any() % 8u, or = i + 1u + any() % 8u;
        test->if_true = (uint16_t)(to < request.test_count ? to : PLUMB_FILTER_TAKE);
        test->if_false = (uint16_t)(or < request.test_count ? or : PLUMB_FILTER_LEAVE);
    }
    if (any() % 4 == 0) ((unsigned char*)&request)[any() % sizeof(request)] = (unsigned char)any();
    filter(events, &request);
}
