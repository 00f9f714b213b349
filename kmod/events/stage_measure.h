/* SPDX-License-Identifier: GPL-2.0 */
/* How many bytes the fields of `entry` take when they are packed, added to `bytes`. */
#undef __field
#define __field(type, item) bytes += sizeof(type);
#undef __field_struct
#define __field_struct(type, item) bytes += sizeof(type);
#undef __array
#define __array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(entry->item, sizeof(type[len])) : sizeof(type[len]); \
	bytes += PLUMB_IS_IO_FLAGS(item) ? sizeof(u32) : 0;
#undef __dynamic_array
#define __dynamic_array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(plumb_located(entry, entry->__data_loc_##item), entry->__data_loc_##item >> 16) : \
				sizeof(u16) + (entry->__data_loc_##item >> 16);
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(plumb_located(&entry->__rel_loc_##item + 1, entry->__rel_loc_##item), entry->__rel_loc_##item >> 16) : \
				sizeof(u16) + (entry->__rel_loc_##item >> 16);
#include "stage_rest.h"
