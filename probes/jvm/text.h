/*
 * Names as the JVM has them, in modified UTF-8 (JNI specification, chapter 3), made plain UTF-8 in place. What comes out is never longer
 * than what went in.
 */
#ifndef PLUMB_PROBES_JVM_TEXT_H
#define PLUMB_PROBES_JVM_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct plumb_text {
    char* at; /* NULL: empty */
    size_t bytes;
};

/* Ends where the text has its NUL. */
struct plumb_text plumb_utf8_in_place(char* modified);

/* Of a class's signature: Ljava/lang/String; to java.lang.String. */
struct plumb_text plumb_class_name_in_place(char* signature);

/* FNV-1a: by which one text differs from others, most likely. */
uint64_t plumb_hash_of_text(const char* text, size_t bytes);

/* Of UTF-16, as much as there is room for. Returns the bytes written. */
size_t plumb_utf8_of_utf16(const uint16_t* from, size_t count, char* to, size_t room);

#endif
