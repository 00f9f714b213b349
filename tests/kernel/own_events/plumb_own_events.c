// SPDX-License-Identifier: GPL-2.0
/* Events that no trace can have, each wrong in one thing: it is loaded if all are refused, and how they are to be. */
#include <linux/limits.h>
#include <linux/module.h>

#include "plumb_events.h"

#define ANY_43 "a_name_of_forty_three_characters_no_more___"
#define ANY_31 "a_system_of_31_characters______"
#define ANY_63 "an_event_of_63_characters______________________________________"

static const struct plumb_event_field good = PLUMB_FIELD(u32, apples);

struct wrong {
	const char *what;
	const char *system;
	const char *name;
	struct plumb_event_field field;
	int error;
};

#define FIELD(its_type, its_size, its_flags, its_length)                                                      \
	{                                                                                                     \
		.name = "f", .type_name = "u32", .type = (its_type), .size = (its_size), .flags = (its_flags), \
		.array_length = (its_length)                                                                  \
	}
#define WRONG_NAMES(its_system, its_name, its_error)                                     \
	{                                                                                \
		.what = "names " #its_system " " #its_name, .system = (its_system),      \
		.name = (its_name), .field = PLUMB_FIELD(u32, f), .error = (its_error)   \
	}
#define WRONG_FIELD(its_error, ...)                                                      \
	{                                                                                \
		.what = #__VA_ARGS__, .system = "own", .name = "own_wrong",              \
		.field = __VA_ARGS__, .error = (its_error)                               \
	}

static const struct wrong all_wrong[] = {
	WRONG_NAMES(ANY_31 "n", "own_wrong", -ENAMETOOLONG),
	WRONG_NAMES("own", ANY_63 "n", -ENAMETOOLONG),
	WRONG_NAMES(NULL, "own_wrong", -EINVAL),
	WRONG_NAMES("own", NULL, -EINVAL),
	WRONG_NAMES("own", "", -EINVAL),
	WRONG_NAMES("sched", "sched_switch", -EEXIST),
	WRONG_FIELD(-ENAMETOOLONG, { ANY_43 "n", "u32", PLUMB_FIELD_INTEGER, 4 }),
	WRONG_FIELD(-EINVAL, { NULL, "u32", PLUMB_FIELD_INTEGER, 4 }),
	WRONG_FIELD(-EINVAL, { "f", NULL, PLUMB_FIELD_INTEGER, 4 }),
	WRONG_FIELD(-EINVAL, FIELD(0, 4, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_SEQUENCE + 1, 4, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_ENUM, 4, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_INTEGER, 3, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_INTEGER, 0, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_INTEGER, 4, PLUMB_FIELD_CONTEXT, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_FLOAT, 2, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_STRING, 2, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_TEXT, 2, 0, 0)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_ARRAY, 16, 0, 2)),
	WRONG_FIELD(-EINVAL, FIELD(PLUMB_FIELD_SEQUENCE, 4, PLUMB_FIELD_FLOATS, 0)),
	WRONG_FIELD(-E2BIG, FIELD(PLUMB_FIELD_ARRAY, 8, 0, 8192)),
};

/* As long as they may be; and they are not there when what is behind them is refused. */
static const struct plumb_event_field longest[] = {
	PLUMB_FIELD(s64, a_name_of_forty_three_characters_no_more___), PLUMB_STRING(text),
	FIELD(PLUMB_FIELD_ARRAY, 8, PLUMB_FIELD_HEX, 8000), FIELD(PLUMB_FIELD_SEQUENCE, 2, PLUMB_FIELD_SIGNED, 0),
	FIELD(PLUMB_FIELD_TEXT, 1, 0, 0), FIELD(PLUMB_FIELD_FLOAT, 8, 0, 0),
};
static struct plumb_module_event events[] = {
	PLUMB_MODULE_EVENT(ANY_31, ANY_63, longest),
	PLUMB_MODULE_EVENT(ANY_31, "own_second", longest),
};

static int __init own_events_init(void)
{
	int failures = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all_wrong); i++) {
		const struct wrong *wrong = &all_wrong[i];
		const struct plumb_event_field fields[] = { good, wrong->field };
		struct plumb_module_event event = { .system = wrong->system, .name = wrong->name, .fields = fields, .field_count = 2 };
		struct plumb_module_event both[] = { events[0], event };
		const int error = plumb_register_events(both, 2);

		if (!error)
			plumb_unregister_events(both, 2);
		if (error == wrong->error)
			continue;
		failures++;
		pr_err("plumb_own_events: %s: %d\n", wrong->what, error);
	}
	return failures ? -EINVAL : plumb_register_events(events, ARRAY_SIZE(events));
}

static void __exit own_events_exit(void)
{
	plumb_unregister_events(events, ARRAY_SIZE(events));
}

module_init(own_events_init);
module_exit(own_events_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Events that can not be");
