/* SPDX-License-Identifier: GPL-2.0 */
/* The fields of `entry`, packed, to `to`. */
#undef __field
#define __field(type, item) to = plumb_put(to, &entry->item, sizeof(type));
#undef __field_struct
#define __field_struct(type, item) to = plumb_put(to, &entry->item, sizeof(type));
#undef __array
#define __array(type, item, len) \
	to = PLUMB_IS_IO_FLAGS(item) ? plumb_put_io_flags(to, entry->item, sizeof(type[len])) : \
	     PLUMB_IS_CHAR(type)     ? plumb_put_text(to, entry->item, sizeof(type[len])) : \
				       plumb_put(to, entry->item, sizeof(type[len]));
#undef __dynamic_array
#define __dynamic_array(type, item, len) \
	to = PLUMB_IS_CHAR(type) ? plumb_put_text(to, plumb_located(entry, entry->__data_loc_##item), entry->__data_loc_##item >> 16) : \
				plumb_put_sequence(to, plumb_located(entry, entry->__data_loc_##item), entry->__data_loc_##item >> 16, PLUMB_ELEMENT(type));
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len) \
	to = PLUMB_IS_CHAR(type) ? plumb_put_text(to, plumb_located(&entry->__rel_loc_##item + 1, entry->__rel_loc_##item), entry->__rel_loc_##item >> 16) : \
				plumb_put_sequence(to, plumb_located(&entry->__rel_loc_##item + 1, entry->__rel_loc_##item), entry->__rel_loc_##item >> 16, PLUMB_ELEMENT(type));
#include "stage_rest.h"
