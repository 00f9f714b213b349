/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes for all events of one of the kernel's headers:
 *
 *   #include <trace/events/sched.h>
 *   #define PLUMB_HEADER <trace/events/sched.h>
 *   #define PLUMB_EVENTS plumb_sched_events    // a function that tells of each of them
 *   #include "stages.h"
 *
 * The header is read once for each stage, as the kernel itself does for ftrace and perf (include/trace/stages), with another
 * meaning of TRACE_EVENT and of its fields each time: raw events are made by the kernel's own assignments, and then packed as
 * <plumb/abi/event.h> says.
 */
#include <linux/limits.h>
#include <linux/stringify.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>

#include "pack.h"

#define TRACE_HEADER_MULTI_READ

/* All that is not a class or an event. */
#undef TRACE_EVENT
#define TRACE_EVENT(name, proto, args, tstruct, assign, print)                                             \
	DECLARE_EVENT_CLASS(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), PARAMS(print)) \
	DEFINE_EVENT(name, name, PARAMS(proto), PARAMS(args))
#undef TRACE_EVENT_FN
#define TRACE_EVENT_FN(name, proto, args, tstruct, assign, print, reg, unreg) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), PARAMS(print))
#undef TRACE_EVENT_FN_COND
#define TRACE_EVENT_FN_COND(name, proto, args, cond, tstruct, assign, print, reg, unreg) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), PARAMS(print))
#undef TRACE_EVENT_CONDITION
#define TRACE_EVENT_CONDITION(name, proto, args, cond, tstruct, assign, print) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), PARAMS(print))
#undef TRACE_EVENT_FLAGS
#define TRACE_EVENT_FLAGS(event, flags)
#undef TRACE_EVENT_PERF_PERM
#define TRACE_EVENT_PERF_PERM(event, expression...)
#undef TRACE_EVENT_NOP
#define TRACE_EVENT_NOP(name, proto, args, tstruct, assign, print)
#undef DECLARE_EVENT_CLASS_NOP
#define DECLARE_EVENT_CLASS_NOP(name, proto, args, tstruct, assign, print)
#undef DEFINE_EVENT_NOP
#define DEFINE_EVENT_NOP(template, name, proto, args)
#undef DEFINE_EVENT_FN
#define DEFINE_EVENT_FN(template, name, proto, args, reg, unreg) \
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print) \
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))
#undef DEFINE_EVENT_CONDITION
#define DEFINE_EVENT_CONDITION(template, name, proto, args, cond) \
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))
#undef DECLARE_TRACE
#define DECLARE_TRACE(name, proto, args)
#undef DECLARE_TRACE_CONDITION
#define DECLARE_TRACE_CONDITION(name, proto, args, cond)
#undef TRACE_DEFINE_ENUM
#define TRACE_DEFINE_ENUM(name)
#undef TRACE_DEFINE_SIZEOF
#define TRACE_DEFINE_SIZEOF(name)
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, name, proto, args)

/* The raw event. */
#include <trace/stages/stage1_struct_define.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print) \
	struct plumb_raw_##call {                                      \
		tstruct                                                \
		char __data[];                                         \
	};
#include PLUMB_HEADER

/* Where its strings and arrays begin. */
#include <trace/stages/stage2_data_offsets.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print) \
	struct plumb_offsets_##call {                                  \
		tstruct                                                \
	};
#include PLUMB_HEADER

#include <trace/stages/stage5_get_offsets.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                                       \
	static inline notrace size_t plumb_measure_##call(struct plumb_offsets_##call *__data_offsets, proto) \
	{                                                                                                    \
		struct plumb_raw_##call __maybe_unused *entry;                                               \
		int __maybe_unused __item_length;                                                            \
		size_t __data_size = 0;                                                                      \
                                                                                                             \
		tstruct;                                                                                     \
		return __data_size;                                                                          \
	}
#include PLUMB_HEADER

/* Its fields, packed: how many bytes that are; and they themselves. */
#include "stage_measure.h"
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                             \
	static inline notrace size_t plumb_packed_bytes_##call(const struct plumb_raw_##call *entry) \
	{                                                                                          \
		size_t bytes = 0;                                                                  \
                                                                                                   \
		tstruct return bytes;                                                              \
	}
#include PLUMB_HEADER

#include "stage_pack.h"
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                             \
	static inline notrace void plumb_pack_##call(const struct plumb_raw_##call *entry, u8 *to) \
	{                                                                                          \
		tstruct                                                                            \
	}
#include PLUMB_HEADER

/* Whether the recording follows a thread that it is about. */
#include "stage_follow.h"
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                                  \
	static inline notrace bool plumb_is_about_followed_##call(const struct plumb_writing *writing,  \
								  const struct plumb_raw_##call *entry) \
	{                                                                                               \
		static const char class[] __maybe_unused = #call;                                       \
		bool is_followed = false;                                                               \
                                                                                                        \
		tstruct return is_followed;                                                             \
	}
#include PLUMB_HEADER

/* The probe. */
#include <trace/stages/stage3_trace_output.h>
#include <trace/stages/stage6_event_callback.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                       \
	static notrace void plumb_probe_##call(void *__data, proto)                        \
	{                                                                                    \
		const struct plumb_active_event *__event = __data;                          \
		struct plumb_offsets_##call __maybe_unused __data_offsets;                   \
		struct plumb_writing __writing;                                                \
		struct plumb_raw_##call *entry;                                              \
		size_t __bytes;                                                              \
		u8 *__to = NULL;                                                             \
                                                                                             \
		entry = plumb_enter(&__writing, __event);                                       \
		if (!entry)                                                                  \
			return;                                                              \
		if (plumb_fits(&__writing, sizeof(*entry),                                     \
			       plumb_measure_##call(&__data_offsets, args))) {               \
			tstruct                                                              \
			{                                                                    \
				assign;                                                      \
			}                                                                    \
			if (likely(!__writing.is_of_other) || plumb_is_about_followed_##call(&__writing, entry)) { \
				__bytes = plumb_packed_bytes_##call(entry);                  \
				__to = plumb_begin_payload(&__writing, __event, __bytes);      \
			}                                                                    \
			if (__to) {                                                          \
				plumb_pack_##call(entry, __to);                                \
				plumb_end_payload(&__writing, __event, __to, __bytes);         \
			}                                                                    \
		}                                                                            \
		plumb_leave(&__writing);                                                       \
	}
#include PLUMB_HEADER

/* What the fields are. */
#include "stage_describe.h"
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)                 \
	static const struct plumb_event_field *plumb_fields_##call(size_t *count)      \
	{                                                                              \
		static const struct plumb_event_field fields[] = { tstruct };          \
                                                                                       \
		*count = ARRAY_SIZE(fields);                                           \
		return fields;                                                         \
	}
#include PLUMB_HEADER

/* Statements: what the header declares besides may stand between them. */
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, call, proto, args)                                                    \
	{                                                                                            \
		static const struct plumb_event_probe event = { __stringify(TRACE_SYSTEM), #call,    \
								plumb_probe_##template,             \
								plumb_fields_##template };          \
                                                                                                     \
		check_trace_callback_type_##call(plumb_probe_##template);                            \
		take(&event);                                                                        \
	}
void PLUMB_EVENTS(void (*take)(const struct plumb_event_probe *event))
{
#include PLUMB_HEADER
}
