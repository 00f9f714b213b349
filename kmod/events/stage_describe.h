/* SPDX-License-Identifier: GPL-2.0 */
/* The fields, as struct plumb_event_field. */
#undef __field
#define __field(type, item) \
	{ #item, #type, PLUMB_FIELD_INTEGER, sizeof(type), PLUMB_FLAGS(type), 0 },
#undef __field_struct
#define __field_struct(type, item) \
	{ #item, #type, PLUMB_FIELD_ARRAY, 1, PLUMB_FIELD_HEX, sizeof(type) },
#undef __array
#define __array(type, item, len) \
	{ #item, #type, PLUMB_IS_CHAR(type) ? PLUMB_FIELD_STRING : PLUMB_FIELD_ARRAY, PLUMB_ELEMENT(type), PLUMB_IS_CHAR(type) ? 0 : PLUMB_ELEMENT_FLAGS(type), \
	  PLUMB_IS_CHAR(type) ? 0 : sizeof(type[len]) / PLUMB_ELEMENT(type) },
#undef __dynamic_array
#define __dynamic_array(type, item, len) \
	{ #item, #type, PLUMB_IS_CHAR(type) ? PLUMB_FIELD_STRING : PLUMB_FIELD_SEQUENCE, PLUMB_ELEMENT(type), PLUMB_IS_CHAR(type) ? 0 : PLUMB_ELEMENT_FLAGS(type), 0 },
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len) __dynamic_array(type, item, len)
#include "stage_rest.h"
