/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a thread that `entry` names is followed, added to `is_followed`. */
#undef __field
#define __field(type, item)                                                                        \
	if (PLUMB_IS_ABOUT(class, #item))                                                          \
		is_followed |= plumb_is_followed(writing, &entry->item, sizeof(entry->item));
#undef __field_struct
#define __field_struct(type, item)
#undef __array
#define __array(type, item, len)
#undef __dynamic_array
#define __dynamic_array(type, item, len)
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len)
#include "stage_rest.h"
