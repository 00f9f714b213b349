/* The declarations of abi.h against headers of LTTng-UST: those that are installed, and the newest. Compiling it is the test. */
#include <lttng/tracepoint-types.h>
#include <lttng/ust-events.h>
#include <lttng/ust-ringbuffer-context.h>

#include "../abi.h"

#define SAME_NUMBER(own, theirs) _Static_assert((unsigned)(own) == (unsigned)(theirs), #theirs)
#define SAME_SIZE(own, theirs) _Static_assert(sizeof(struct own) == sizeof(struct theirs), #theirs)
#define SAME(own, field, theirs, their_field)                                                       \
    _Static_assert(offsetof(struct own, field) == offsetof(struct theirs, their_field) &&           \
                       sizeof(((struct own*)0)->field) == sizeof(((struct theirs*)0)->their_field), \
                   #theirs "." #their_field)

_Static_assert(LTTNG_UST_PROVIDER_MAJOR >= UST_PROVIDER_MAJOR_FIRST &&
                   LTTNG_UST_PROVIDER_MAJOR <= UST_PROVIDER_MAJOR_LAST,
               "major");
SAME_NUMBER(UST_ENUM_AUTO, LTTNG_UST_ENUM_ENTRY_OPTION_IS_AUTO);
SAME_NUMBER(UST_INTEGER, lttng_ust_type_integer);
SAME_NUMBER(UST_STRING, lttng_ust_type_string);
SAME_NUMBER(UST_FLOAT, lttng_ust_type_float);
SAME_NUMBER(UST_DYNAMIC, lttng_ust_type_dynamic);
SAME_NUMBER(UST_ENUM, lttng_ust_type_enum);
SAME_NUMBER(UST_ARRAY, lttng_ust_type_array);
SAME_NUMBER(UST_SEQUENCE, lttng_ust_type_sequence);
SAME_NUMBER(UST_STRUCT, lttng_ust_type_struct);
SAME_NUMBER(UST_UTF8, lttng_ust_string_encoding_UTF8);
SAME_NUMBER(UST_ASCII, lttng_ust_string_encoding_ASCII);

SAME_SIZE(ust_tracepoint_probe, lttng_ust_tracepoint_probe);
SAME(ust_tracepoint_probe, function, lttng_ust_tracepoint_probe, func);
SAME(ust_tracepoint_probe, data, lttng_ust_tracepoint_probe, data);

SAME_SIZE(ust_tracepoint, lttng_ust_tracepoint);
SAME(ust_tracepoint, provider_name, lttng_ust_tracepoint, provider_name);
SAME(ust_tracepoint, event_name, lttng_ust_tracepoint, event_name);
SAME(ust_tracepoint, state, lttng_ust_tracepoint, state);
SAME(ust_tracepoint, probes, lttng_ust_tracepoint, probes);
SAME(ust_tracepoint, signature, lttng_ust_tracepoint, signature);

SAME_SIZE(ust_integer, lttng_ust_type_integer);
SAME(ust_integer, size_bits, lttng_ust_type_integer, size);
SAME(ust_integer, alignment_bits, lttng_ust_type_integer, alignment);
SAME(ust_integer, base, lttng_ust_type_integer, base);
SAME_SIZE(ust_float, lttng_ust_type_float);
SAME(ust_float, exponent_bits, lttng_ust_type_float, exp_dig);
SAME(ust_float, mantissa_bits, lttng_ust_type_float, mant_dig);
SAME_SIZE(ust_enum_value, lttng_ust_enum_value);
SAME_SIZE(ust_enum_entry, lttng_ust_enum_entry);
SAME(ust_enum_entry, first, lttng_ust_enum_entry, start);
SAME(ust_enum_entry, last, lttng_ust_enum_entry, end);
SAME(ust_enum_entry, name, lttng_ust_enum_entry, string);
SAME(ust_enum_entry, options, lttng_ust_enum_entry, options);
SAME_SIZE(ust_enumeration, lttng_ust_enum_desc);
SAME(ust_enumeration, entries, lttng_ust_enum_desc, entries);
SAME(ust_enumeration, entry_count, lttng_ust_enum_desc, nr_entries);
SAME_SIZE(ust_enum, lttng_ust_type_enum);
SAME(ust_enum, enumeration, lttng_ust_type_enum, desc);
SAME(ust_enum, container, lttng_ust_type_enum, container_type);
SAME_SIZE(ust_array, lttng_ust_type_array);
SAME(ust_array, element, lttng_ust_type_array, elem_type);
SAME(ust_array, length, lttng_ust_type_array, length);
SAME(ust_array, encoding, lttng_ust_type_array, encoding);
SAME_SIZE(ust_sequence, lttng_ust_type_sequence);
SAME(ust_sequence, length_name, lttng_ust_type_sequence, length_name);
SAME(ust_sequence, element, lttng_ust_type_sequence, elem_type);
SAME(ust_sequence, encoding, lttng_ust_type_sequence, encoding);
#if LTTNG_UST_PROVIDER_MAJOR >= 4
SAME_NUMBER(UST_FIXED_BLOB, lttng_ust_type_fixed_length_blob);
SAME_NUMBER(UST_VARIABLE_BLOB, lttng_ust_type_variable_length_blob);
SAME_NUMBER(UST_VARIABLE_BLOB + 1, NR_LTTNG_UST_TYPE);
SAME_SIZE(ust_fixed_blob, lttng_ust_type_fixed_length_blob);
SAME(ust_fixed_blob, length, lttng_ust_type_fixed_length_blob, length);
SAME(ust_fixed_blob, media_type, lttng_ust_type_fixed_length_blob, media_type);
SAME_SIZE(ust_variable_blob, lttng_ust_type_variable_length_blob);
SAME(ust_variable_blob, length_name, lttng_ust_type_variable_length_blob, length_name);
SAME(ust_variable_blob, media_type, lttng_ust_type_variable_length_blob, media_type);
#else
SAME_NUMBER(UST_FIXED_BLOB, NR_LTTNG_UST_TYPE);
#endif
SAME_SIZE(ust_field, lttng_ust_event_field);
SAME(ust_field, name, lttng_ust_event_field, name);
SAME(ust_field, type, lttng_ust_event_field, type);

SAME_SIZE(ust_class, lttng_ust_tracepoint_class);
SAME(ust_class, fields, lttng_ust_tracepoint_class, fields);
SAME(ust_class, field_count, lttng_ust_tracepoint_class, nr_fields);
SAME(ust_class, callback, lttng_ust_tracepoint_class, probe_callback);
SAME(ust_class, signature, lttng_ust_tracepoint_class, signature);
SAME_SIZE(ust_event, lttng_ust_event_desc);
SAME(ust_event, name, lttng_ust_event_desc, event_name);
SAME(ust_event, provider, lttng_ust_event_desc, probe_desc);
SAME(ust_event, class_of, lttng_ust_event_desc, tp_class);
SAME(ust_event, log_level, lttng_ust_event_desc, loglevel);
SAME_SIZE(ust_provider, lttng_ust_probe_desc);
SAME(ust_provider, name, lttng_ust_probe_desc, provider_name);
SAME(ust_provider, events, lttng_ust_probe_desc, event_desc);
SAME(ust_provider, event_count, lttng_ust_probe_desc, nr_events);
SAME(ust_provider, major, lttng_ust_probe_desc, major);

SAME_SIZE(ust_context, lttng_ust_ring_buffer_ctx);
SAME(ust_context, recorder, lttng_ust_ring_buffer_ctx, client_priv);
SAME(ust_context, data_bytes, lttng_ust_ring_buffer_ctx, data_size);
SAME(ust_context, own, lttng_ust_ring_buffer_ctx, priv);
SAME_SIZE(ust_operations, lttng_ust_channel_buffer_ops);
SAME(ust_operations, reserve, lttng_ust_channel_buffer_ops, event_reserve);
SAME(ust_operations, commit, lttng_ust_channel_buffer_ops, event_commit);
SAME(ust_operations, write, lttng_ust_channel_buffer_ops, event_write);
SAME(ust_operations, write_string, lttng_ust_channel_buffer_ops, event_strcpy);
SAME(ust_operations, write_padded, lttng_ust_channel_buffer_ops, event_pstrcpy_pad);
SAME_SIZE(ust_session, lttng_ust_session);
SAME(ust_session, is_active, lttng_ust_session, active);
SAME_SIZE(ust_channel_common, lttng_ust_channel_common);
SAME(ust_channel_common, type, lttng_ust_channel_common, type);
SAME(ust_channel_common, is_enabled, lttng_ust_channel_common, enabled);
SAME(ust_channel_common, session, lttng_ust_channel_common, session);
SAME_SIZE(ust_channel, lttng_ust_channel_buffer);
SAME(ust_channel, parent, lttng_ust_channel_buffer, parent);
SAME(ust_channel, operations, lttng_ust_channel_buffer, ops);
SAME_SIZE(ust_recorder, lttng_ust_event_recorder);
SAME(ust_recorder, parent, lttng_ust_event_recorder, parent);
SAME(ust_recorder, channel, lttng_ust_event_recorder, chan);
SAME_SIZE(ust_event_common, lttng_ust_event_common);
SAME(ust_event_common, type, lttng_ust_event_common, type);
SAME(ust_event_common, child, lttng_ust_event_common, child);
SAME(ust_event_common, is_enabled, lttng_ust_event_common, enabled);
SAME(ust_event_common, has_filter, lttng_ust_event_common, eval_filter);
SAME(ust_event_common, run_filter, lttng_ust_event_common, run_filter);
_Static_assert((int)UST_FILTER_ACCEPTS == (int)LTTNG_UST_EVENT_FILTER_ACCEPT &&
                   (int)UST_FILTER_REJECTS == (int)LTTNG_UST_EVENT_FILTER_REJECT,
               "what a filter says");
