/*
 * Sixteen bytes of a string at once, of which nobody knows yet where it ends.
 *
 * They may lie behind the string's end, but never outside of memory that is mapped. Memory checkers see that as an error, and so it
 * is done with rseq only, which valgrind does not have, and not in code built for a sanitizer.
 */
#ifndef PLUMB_DETAIL_CHUNK_H
#define PLUMB_DETAIL_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLUMB_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLUMB_SANITIZED
#endif
#endif

#if defined(__SSE2__) && !defined(PLUMB_SANITIZED)
#define PLUMB_COPY_WIDE
#include <emmintrin.h>
#endif

#define PLUMB_CHUNK_BYTES 16u

#if defined(PLUMB_COPY_WIDE)
/* Whether they may be read although the string may end before: never across a page that it may not reach into. */
__attribute__((always_inline)) static inline bool plumb_has_chunk(const char* from) {
    return ((uintptr_t)from & 4095u) <= 4096u - PLUMB_CHUNK_BYTES;
}
/* Copies them: how many bytes stand before the first NUL, PLUMB_CHUNK_BYTES if there is none. What was behind the NUL is overwritten
 * by the next field, or by the zeros at the payload's end. */
__attribute__((always_inline, no_sanitize("address", "thread", "undefined"))) static inline uint64_t
plumb_copy_chunk(unsigned char* to, const char* from) {
    __m128i chunk = _mm_loadu_si128((const __m128i*)from);
    __asm__("" : "+x"(chunk)); /* what is measured is what is stored: it is not loaded a second time */
    const uint32_t zeros = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_setzero_si128()));
    _mm_storeu_si128((__m128i*)to, chunk);
    return (uint32_t)__builtin_ctz(zeros | 1u << PLUMB_CHUNK_BYTES);
}
/* A string in it, with nothing but zeros behind it, and its bytes; not if they are PLUMB_CHUNK_BYTES. */
__attribute__((always_inline, no_sanitize("address", "thread", "undefined"))) static inline __m128i
plumb_short_string(const char* from, uint64_t* bytes) {
    static const unsigned char masks[2 * PLUMB_CHUNK_BYTES] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                               255, 255, 255, 255, 255, 255, 255, 255};
    __m128i chunk = _mm_loadu_si128((const __m128i*)from);
    __asm__("" : "+x"(chunk)); /* as above */
    const uint32_t zeros = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_setzero_si128()));
    *bytes = (uint32_t)__builtin_ctz(zeros | 1u << PLUMB_CHUNK_BYTES);
    return _mm_and_si128(chunk, _mm_loadu_si128((const __m128i*)(masks + PLUMB_CHUNK_BYTES - *bytes)));
}
#else
static inline bool plumb_has_chunk(const char* from) {
    (void)from;
    return false;
}
static inline uint64_t plumb_copy_chunk(unsigned char* to, const char* from) {
    (void)to, (void)from;
    return 0;
}
#endif

#endif
