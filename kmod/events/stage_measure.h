/* SPDX-License-Identifier: GPL-2.0 */
/* How many bytes the fields of `entry` take when they are packed, added to `bytes`. */
#undef __field
#define __field(type, item) bytes += sizeof(type);
#undef __field_ext
#define __field_ext(type, item, filter_type) __field(type, item)
#undef __field_struct
#define __field_struct(type, item) bytes += sizeof(type);
#undef __field_struct_ext
#define __field_struct_ext(type, item, filter_type) __field_struct(type, item)
#undef __array
#define __array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(entry->item, sizeof(type[len])) : sizeof(type[len]); \
	bytes += PLUMB_IS_IO_FLAGS(item) ? sizeof(u32) : 0;
#undef __dynamic_array
#define __dynamic_array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(plumb_located(entry, entry->__data_loc_##item), entry->__data_loc_##item >> 16) : \
				sizeof(u16) + (entry->__data_loc_##item >> 16);
#undef __string
#define __string(item, src) __dynamic_array(char, item, -1)
#undef __string_len
#define __string_len(item, src, len) __dynamic_array(char, item, -1)
#undef __vstring
#define __vstring(item, fmt, ap) __dynamic_array(char, item, -1)
#undef __bitmask
#define __bitmask(item, nr_bits) __dynamic_array(unsigned long, item, -1)
#undef __cpumask
#define __cpumask(item) __dynamic_array(unsigned long, item, -1)
#undef __sockaddr
#define __sockaddr(item, len) __dynamic_array(u8, item, len)
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len) \
	bytes += PLUMB_IS_CHAR(type) ? plumb_text_bytes(plumb_located(&entry->__rel_loc_##item + 1, entry->__rel_loc_##item), entry->__rel_loc_##item >> 16) : \
				sizeof(u16) + (entry->__rel_loc_##item >> 16);
#undef __rel_string
#define __rel_string(item, src) __rel_dynamic_array(char, item, -1)
#undef __rel_string_len
#define __rel_string_len(item, src, len) __rel_dynamic_array(char, item, -1)
#undef __rel_bitmask
#define __rel_bitmask(item, nr_bits) __rel_dynamic_array(unsigned long, item, -1)
#undef __rel_cpumask
#define __rel_cpumask(item) __rel_dynamic_array(unsigned long, item, -1)
#undef __rel_sockaddr
#define __rel_sockaddr(item, len) __rel_dynamic_array(u8, item, len)
