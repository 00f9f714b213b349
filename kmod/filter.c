// SPDX-License-Identifier: GPL-2.0
/*
 * See filter.h. A filter is checked when it is made: each test leads only to tests behind it, and is of a field of its kind. Of a
 * payload nothing is believed.
 */
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/err.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "filter.h"
#include "glob.h"

struct plumb_filter {
	u16 field_count;
	u16 test_count;
	struct plumb_filter_field fields[PLUMB_EVENT_MAX_FIELDS];
	char texts[PLUMB_FILTER_TEXT_BYTES];
	struct plumb_filter_test tests[];
};

static bool is_good_size(u8 size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static bool is_good_field(const struct plumb_filter_field *field)
{
	if (field->flags & ~PLUMB_FIELD_SIGNED || field->reserved || field->reserved2)
		return false;
	switch (field->type) {
	case PLUMB_FIELD_STRING:
		return field->size == 1 && !field->array_length;
	case PLUMB_FIELD_ARRAY:
		return is_good_size(field->size);
	case PLUMB_FIELD_INTEGER:
	case PLUMB_FIELD_SEQUENCE:
		return is_good_size(field->size) && !field->array_length;
	default:
		return false;
	}
}

static bool is_good_target(u16 target, u16 test, u16 test_count)
{
	return target == PLUMB_FILTER_TAKE || target == PLUMB_FILTER_LEAVE || (target > test && target < test_count);
}

/* Of a text, an integer, or nothing that can be tested. */
static u8 tested_type(const struct plumb_kernel_filter *request, u8 field)
{
	if (field == PLUMB_FILTER_COMM)
		return PLUMB_FIELD_STRING;
	if (field >= PLUMB_FILTER_CPU && field <= PLUMB_FILTER_PID)
		return PLUMB_FIELD_INTEGER;
	return field < request->field_count ? request->fields[field].type : 0;
}

static bool is_good_test(const struct plumb_kernel_filter *request, u16 i)
{
	const struct plumb_filter_test *test = &request->tests[i];

	if (test->turns_sign > 1 || test->is_negative > 1 || !is_good_target(test->if_true, i, request->test_count) ||
	    !is_good_target(test->if_false, i, request->test_count))
		return false;
	switch (tested_type(request, test->field)) {
	case PLUMB_FIELD_STRING:
		return !test->is_negative && !test->turns_sign && !test->mask && test->value < request->text_bytes &&
		       (test->operation == PLUMB_FILTER_EQUAL || test->operation == PLUMB_FILTER_UNEQUAL ||
			test->operation == PLUMB_FILTER_MATCHES || test->operation == PLUMB_FILTER_MATCHES_NOT);
	case PLUMB_FIELD_INTEGER:
		return test->operation <= PLUMB_FILTER_GREATER_EQUAL && (!test->is_negative || (s64)test->value < 0);
	default:
		return false;
	}
}

static bool is_good(const struct plumb_kernel_filter *request)
{
	u16 i;

	if (request->reserved || request->reserved2 || request->field_count > PLUMB_EVENT_MAX_FIELDS || !request->test_count ||
	    request->test_count > PLUMB_FILTER_TESTS_MAX || request->text_bytes > PLUMB_FILTER_TEXT_BYTES ||
	    (request->text_bytes && request->texts[request->text_bytes - 1]))
		return false;
	for (i = 0; i < request->field_count; i++)
		if (!is_good_field(&request->fields[i]))
			return false;
	for (i = 0; i < request->test_count; i++)
		if (!is_good_test(request, i))
			return false;
	return true;
}

/*
 * A record is filtered with preemption off, and each pattern may be tried from each character of a text on. Tests may share one: what
 * is written of texts bounds nothing.
 */
static bool is_cheap(const struct plumb_kernel_filter *request)
{
	size_t bytes = 0;
	u16 i;

	for (i = 0; i < request->test_count; i++)
		if (request->tests[i].operation >= PLUMB_FILTER_MATCHES)
			bytes += strlen(request->texts + request->tests[i].value);
	return bytes <= PLUMB_FILTER_PATTERN_BYTES;
}

struct plumb_filter *plumb_make_filter(const struct plumb_kernel_filter *request)
{
	struct plumb_filter *filter;

	if (!is_good(request))
		return ERR_PTR(-EINVAL);
	if (!is_cheap(request))
		return ERR_PTR(-E2BIG);
	filter = kvzalloc(struct_size(filter, tests, request->test_count), GFP_KERNEL_ACCOUNT);
	if (!filter)
		return ERR_PTR(-ENOMEM);
	filter->field_count = request->field_count;
	filter->test_count = request->test_count;
	memcpy(filter->fields, request->fields, sizeof(filter->fields));
	memcpy(filter->texts, request->texts, request->text_bytes);
	memcpy(filter->tests, request->tests, request->test_count * sizeof(filter->tests[0]));
	return filter;
}

/* More than `most`: it is not there as a whole. */
static size_t field_bytes(const struct plumb_filter_field *field, const u8 *at, size_t most)
{
	u16 count;

	switch (field->type) {
	case PLUMB_FIELD_STRING:
		return strnlen((const char *)at, most) + 1;
	case PLUMB_FIELD_ARRAY:
		return (size_t)field->size * field->array_length;
	case PLUMB_FIELD_SEQUENCE:
		if (most < sizeof(count))
			return most + 1;
		memcpy(&count, at, sizeof(count));
		return sizeof(count) + (size_t)field->size * count;
	default:
		return field->size;
	}
}

static bool find_fields(const struct plumb_filter *filter, const u8 *payload, size_t bytes, u16 *offsets)
{
	size_t at = 0;
	u16 i;

	for (i = 0; i < filter->field_count; i++) {
		const size_t taken = field_bytes(&filter->fields[i], payload + at, bytes - at);

		if (taken > bytes - at || at > U16_MAX)
			return false;
		offsets[i] = at;
		at += taken;
	}
	return true;
}

/* As it is with its sign. */
static u64 integer_at(const u8 *at, u8 size, bool is_signed)
{
	u64 value = 0;

	memcpy(&value, at, size);
	if (!is_signed || size == sizeof(value))
		return value;
	return (u64)((s64)(value << (64 - 8 * size)) >> (64 - 8 * size));
}

static u64 number_of_thread(u8 field)
{
	switch (field) {
	case PLUMB_FILTER_CPU:
		return raw_smp_processor_id();
	case PLUMB_FILTER_TID:
		return current->pid;
	default:
		return current->tgid;
	}
}

static bool compare(const struct plumb_filter_test *test, u64 value, bool is_signed)
{
	const bool keeps_sign = (test->mask == U64_MAX) != test->turns_sign;
	const bool is_negative = is_signed && keeps_sign && (s64)value < 0;
	bool is_equal, is_less;

	value &= test->mask;
	is_equal = is_negative == test->is_negative && value == test->value;
	is_less = is_negative == test->is_negative ? value < test->value : is_negative;
	switch (test->operation) {
	case PLUMB_FILTER_EQUAL:
		return is_equal;
	case PLUMB_FILTER_UNEQUAL:
		return !is_equal;
	case PLUMB_FILTER_LESS:
		return is_less;
	case PLUMB_FILTER_LESS_EQUAL:
		return is_less || is_equal;
	case PLUMB_FILTER_GREATER:
		return !is_less && !is_equal;
	default:
		return !is_less;
	}
}

static bool compare_text(const struct plumb_filter_test *test, const char *text, const char *wanted)
{
	switch (test->operation) {
	case PLUMB_FILTER_EQUAL:
		return strcmp(text, wanted) == 0;
	case PLUMB_FILTER_UNEQUAL:
		return strcmp(text, wanted) != 0;
	case PLUMB_FILTER_MATCHES:
		return plumb_glob_matches(wanted, text);
	default:
		return !plumb_glob_matches(wanted, text);
	}
}

static bool holds(const struct plumb_filter *filter, const struct plumb_filter_test *test, const u8 *payload, const u16 *offsets)
{
	const struct plumb_filter_field *field;

	if (test->field == PLUMB_FILTER_COMM)
		return compare_text(test, current->comm, filter->texts + test->value);
	if (test->field > PLUMB_FILTER_COMM)
		return compare(test, number_of_thread(test->field), false);
	field = &filter->fields[test->field];
	payload += offsets[test->field];
	if (field->type == PLUMB_FIELD_STRING)
		return compare_text(test, (const char *)payload, filter->texts + test->value);
	return compare(test, integer_at(payload, field->size, field->flags & PLUMB_FIELD_SIGNED),
		       field->flags & PLUMB_FIELD_SIGNED);
}

bool plumb_passes(const struct plumb_filter *filter, const void *payload, size_t bytes)
{
	u16 offsets[PLUMB_EVENT_MAX_FIELDS];
	u16 next = 0;

	if (!find_fields(filter, payload, bytes, offsets))
		return false;
	while (next < PLUMB_FILTER_LEAVE) {
		const struct plumb_filter_test *test = &filter->tests[next];

		next = holds(filter, test, payload, offsets) ? test->if_true : test->if_false;
	}
	return next == PLUMB_FILTER_TAKE;
}

static bool is_unread(const struct plumb_filter_test *test, u32 unread)
{
	BUILD_BUG_ON(PLUMB_EVENT_MAX_FIELDS > 32);
	return test->field < PLUMB_FILTER_COMM && (unread & 1u << test->field);
}

/* Whether somebody who comes there is taken, or may be; `tests`: those behind, a bit for each. */
static bool takes(u16 target, u64 tests)
{
	return target == PLUMB_FILTER_TAKE || (target != PLUMB_FILTER_LEAVE && (tests & BIT_ULL(target)));
}

bool plumb_may_pass(const struct plumb_filter *filter, const void *payload, size_t bytes, u32 unread)
{
	u16 offsets[PLUMB_EVENT_MAX_FIELDS];
	u16 i = filter->test_count;
	u64 tests = 0;

	BUILD_BUG_ON(PLUMB_FILTER_TESTS_MAX > 64);
	if (!find_fields(filter, payload, bytes, offsets))
		return false;
	while (i-- > 0) {
		const struct plumb_filter_test *test = &filter->tests[i];
		const bool is_known = !is_unread(test, unread);
		const bool is_true = is_known && holds(filter, test, payload, offsets);

		if ((takes(test->if_true, tests) && (is_true || !is_known)) || (takes(test->if_false, tests) && !is_true))
			tests |= BIT_ULL(i);
	}
	return tests & BIT_ULL(0);
}
