// The part that all small objects share: plumb_emit(), plumb_copy_string() and the registration of this
// executable or shared object. Each of the three object files includes it once; everything in it is hidden,
// so every executable and shared object has its own.
//
// In a static library or a shared object the constructor runs before the program's own constructors that
// could trace, as far as priorities go (101 is the first that programs may use); before it, tracepoints are
// off.
#pragma once

#include <plumb/detail/writer.h>
#include <plumb/runtime.h>

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

#define PLUMB_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// The linker makes these two at the ends of section plumb_events; there are none where an object has no
// events.
extern plumb_event* __start_plumb_events[] __attribute__((weak, visibility("hidden")));
extern plumb_event* __stop_plumb_events[] __attribute__((weak, visibility("hidden")));

static plumb_writer_setup setup;

// The usual case, one session, stands alone, so that it needs no loop and saves fewer registers.
__attribute__((always_inline)) static inline void emit_to(plumb_event* event, uint32_t session,
                                                          const void* payload, uint32_t payload_bytes) {
#if defined(__x86_64__)
    const int64_t rseq_offset = setup.rseq_offset;
    const plumb_writer* writer = setup.writers + session;
    const uint32_t length = PLUMB_RECORD_HEADER_BYTES + payload_bytes;
    if (__builtin_expect(
            rseq_offset != 0 && length <= __atomic_load_n(&writer->record_limit, __ATOMIC_RELAXED), 1)) {
        const uint64_t header = static_cast<uint64_t>(plumb_thread_self.id) << 32 | length << 16;
        const uint64_t padded_bytes = (payload_bytes + 7u) & ~7u;
        const plumb_write_result result = plumb_write_fast(
            rseq_offset, event, session, writer, plumb_thread_self.epoch, header, payload, padded_bytes);
        if (__builtin_expect(result != PLUMB_SLOW, 1)) return;
    }
#endif
    plumb_emit_slow(event, session, payload, payload_bytes);
}

__attribute__((noinline, cold)) static void emit_to_many(plumb_event* event, uint32_t sessions,
                                                         const void* payload, uint32_t payload_bytes) {
    for (; sessions != 0; sessions &= sessions - 1)
        emit_to(event, static_cast<uint32_t>(__builtin_ctz(sessions)), payload, payload_bytes);
}

PLUMB_HIDDEN void plumb_emit(plumb_event* event, const void* payload, uint32_t payload_bytes) {
    const uint32_t sessions = __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
    if (__builtin_expect((sessions & (sessions - 1)) == 0, 1)) {
        if (__builtin_expect(sessions != 0, 1))
            emit_to(event, static_cast<uint32_t>(__builtin_ctz(sessions)), payload, payload_bytes);
    } else {
        emit_to_many(event, sessions, payload, payload_bytes);
    }
}

#if defined(PLUMB_COPY_WIDE)
// Sixteen bytes at a time, never across a page that the string may not reach into: reads behind the string's
// end, but never outside of memory that is mapped. Memory checkers see that as an error, and so it is used
// with rseq only, which valgrind does not have, and not in code built for a sanitizer.
__attribute__((no_sanitize("address", "thread", "undefined"))) static uint64_t
copy_wide(unsigned char* to, const char* from, uint64_t room) {
    constexpr uint64_t page_bytes = 4096;
    uint64_t done = 0;
    while (done + 16 <= room + 1) {
        if ((reinterpret_cast<uintptr_t>(from + done) & (page_bytes - 1)) > page_bytes - 16) break;
        const __m128i chunk = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done));
        const auto zeros =
            static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_setzero_si128())));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + done), chunk);
        if (zeros != 0) {
            const uint64_t bytes = done + static_cast<uint32_t>(__builtin_ctz(zeros));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + bytes), _mm_setzero_si128());
            return bytes;
        }
        done += 16;
    }
    return done | 1ull << 63;
}
#endif

PLUMB_HIDDEN uint64_t plumb_copy_string(unsigned char* to, const char* from, uint64_t room) {
    uint64_t done = 0;
#if defined(PLUMB_COPY_WIDE)
    if (__builtin_expect(setup.rseq_offset != 0, 1)) {
        const uint64_t bytes = copy_wide(to, from, room);
        if (__builtin_expect(bytes >> 63 == 0, 1)) return bytes;
        done = bytes & ~(1ull << 63);
    }
#endif
    for (; done < room && from[done] != '\0'; done++)
        to[done] = static_cast<unsigned char>(from[done]);
    to[done] = '\0';
    __builtin_memset(to + done, 0, 8);
    if (done == room && from[done] != '\0') return room + 1;
    return done;
}

} // extern "C"

// What a small object registers; initialised by the linker, so that a start does not touch more pages.
constexpr plumb_object describe_this_object(uint32_t flags) {
    return {PLUMB_RUNTIME_VERSION, flags, __start_plumb_events, __stop_plumb_events, &setup, nullptr, {}};
}
