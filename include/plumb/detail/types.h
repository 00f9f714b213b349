/*
 * The field types of PLUMB_EVENT: for each type its kind (which macros handle it), the C type of the argument
 * and how it is shown.
 */
#ifndef PLUMB_DETAIL_TYPES_H
#define PLUMB_DETAIL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kind, C type and flags of an integer type. */

#define PLUMB_KIND_i8 SCALAR
#define PLUMB_CTYPE_i8 int8_t
#define PLUMB_BASE_i8 0u
#define PLUMB_KIND_u8 SCALAR
#define PLUMB_CTYPE_u8 uint8_t
#define PLUMB_BASE_u8 0u
#define PLUMB_KIND_int8_t SCALAR
#define PLUMB_CTYPE_int8_t int8_t
#define PLUMB_BASE_int8_t 0u
#define PLUMB_KIND_uint8_t SCALAR
#define PLUMB_CTYPE_uint8_t uint8_t
#define PLUMB_BASE_uint8_t 0u
#define PLUMB_KIND_i16 SCALAR
#define PLUMB_CTYPE_i16 int16_t
#define PLUMB_BASE_i16 0u
#define PLUMB_KIND_u16 SCALAR
#define PLUMB_CTYPE_u16 uint16_t
#define PLUMB_BASE_u16 0u
#define PLUMB_KIND_int16_t SCALAR
#define PLUMB_CTYPE_int16_t int16_t
#define PLUMB_BASE_int16_t 0u
#define PLUMB_KIND_uint16_t SCALAR
#define PLUMB_CTYPE_uint16_t uint16_t
#define PLUMB_BASE_uint16_t 0u
#define PLUMB_KIND_i32 SCALAR
#define PLUMB_CTYPE_i32 int32_t
#define PLUMB_BASE_i32 0u
#define PLUMB_KIND_u32 SCALAR
#define PLUMB_CTYPE_u32 uint32_t
#define PLUMB_BASE_u32 0u
#define PLUMB_KIND_int32_t SCALAR
#define PLUMB_CTYPE_int32_t int32_t
#define PLUMB_BASE_int32_t 0u
#define PLUMB_KIND_uint32_t SCALAR
#define PLUMB_CTYPE_uint32_t uint32_t
#define PLUMB_BASE_uint32_t 0u
#define PLUMB_KIND_i64 SCALAR
#define PLUMB_CTYPE_i64 int64_t
#define PLUMB_BASE_i64 0u
#define PLUMB_KIND_u64 SCALAR
#define PLUMB_CTYPE_u64 uint64_t
#define PLUMB_BASE_u64 0u
#define PLUMB_KIND_int64_t SCALAR
#define PLUMB_CTYPE_int64_t int64_t
#define PLUMB_BASE_int64_t 0u
#define PLUMB_KIND_uint64_t SCALAR
#define PLUMB_CTYPE_uint64_t uint64_t
#define PLUMB_BASE_uint64_t 0u
#define PLUMB_KIND_char SCALAR
#define PLUMB_CTYPE_char char
#define PLUMB_BASE_char 0u
#define PLUMB_KIND_short SCALAR
#define PLUMB_CTYPE_short short
#define PLUMB_BASE_short 0u
#define PLUMB_KIND_int SCALAR
#define PLUMB_CTYPE_int int
#define PLUMB_BASE_int 0u
#define PLUMB_KIND_unsigned SCALAR
#define PLUMB_CTYPE_unsigned unsigned
#define PLUMB_BASE_unsigned 0u
#define PLUMB_KIND_long SCALAR
#define PLUMB_CTYPE_long long
#define PLUMB_BASE_long 0u
#define PLUMB_KIND_size_t SCALAR
#define PLUMB_CTYPE_size_t size_t
#define PLUMB_BASE_size_t 0u
#define PLUMB_KIND_x8 SCALAR
#define PLUMB_CTYPE_x8 uint8_t
#define PLUMB_BASE_x8 PLUMB_FIELD_HEX
#define PLUMB_KIND_x16 SCALAR
#define PLUMB_CTYPE_x16 uint16_t
#define PLUMB_BASE_x16 PLUMB_FIELD_HEX
#define PLUMB_KIND_x32 SCALAR
#define PLUMB_CTYPE_x32 uint32_t
#define PLUMB_BASE_x32 PLUMB_FIELD_HEX
#define PLUMB_KIND_x64 SCALAR
#define PLUMB_CTYPE_x64 uint64_t
#define PLUMB_BASE_x64 PLUMB_FIELD_HEX

/* The other types. bool is a macro in C11 and has been expanded by the time it gets here. */
#define PLUMB_KIND_f32 FLOAT
#define PLUMB_CTYPE_f32 float
#define PLUMB_KIND_f64 FLOAT
#define PLUMB_CTYPE_f64 double
#define PLUMB_KIND_float FLOAT
#define PLUMB_CTYPE_float float
#define PLUMB_KIND_double FLOAT
#define PLUMB_CTYPE_double double
#define PLUMB_KIND_bool BOOL
#define PLUMB_KIND__Bool BOOL
#define PLUMB_KIND_ptr POINTER
#define PLUMB_KIND_string STRING
#define PLUMB_KIND_text TEXT
#define PLUMB_KIND_enum ENUM
#define PLUMB_KIND_array ARRAY
#define PLUMB_KIND_sequence SEQUENCE

#endif
