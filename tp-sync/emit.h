// The part that all small objects share: plumb_emit(), plumb_copy_string() and the registration of this
// executable or shared object. Each of the three object files includes it once; everything in it is hidden,
// so every executable and shared object has its own.
//
// In a static library or a shared object the constructor runs before the program's own constructors that
// could trace, as far as priorities go (101 is the first that programs may use); before it, tracepoints are
// off.
#pragma once

#define PLUMB_SMALL_OBJECT_
#include <plumb/detail/chunk.h>
#include <plumb/detail/writer.h>
#include <plumb/runtime.h>

#define PLUMB_HIDDEN __attribute__((visibility("hidden")))

// By this name programs ask for the function in which it stands (plumb/runtime.h). A label, not an alias, which would have a
// function's type and length: debuggers and profilers show the function's own name.
#define PLUMB_NAME_FOR_LINKERS(name)                                                                \
    __asm__ volatile(".globl " #name PLUMB_MISSING_OBJECT_ "\n.hidden " #name PLUMB_MISSING_OBJECT_ \
                     "\n.set " #name PLUMB_MISSING_OBJECT_ ", . - (. - " #name ")")

extern "C" {

// The linker makes these two at the ends of section plumb_events; there are none where an object has no
// events.
extern plumb_event* __start_plumb_events[] __attribute__((weak, visibility("hidden")));
extern plumb_event* __stop_plumb_events[] __attribute__((weak, visibility("hidden")));

PLUMB_HIDDEN plumb_writer_setup plumb_setup;

// Where no record is written: a session that counts, or one that writes what fulfils a condition, or a page that fork has
// wiped. By itself, so that who records goes no step further for it.
__attribute__((noinline)) static void emit_no_record(plumb_event* event, uint32_t session,
                                                     const void* payload, uint64_t payload_bytes,
                                                     const void* entry) {
#if defined(__x86_64__)
    const plumb_writer* writer = plumb_setup.writers + session;
    if (plumb_setup.rseq_offset != 0 &&
        __atomic_load_n(&writer->mode, __ATOMIC_RELAXED) == PLUMB_MODE_COUNT) {
        if (__builtin_expect(plumb_count_fast(event, writer) != PLUMB_SLOW, 1)) return;
    }
#endif
    plumb_emit_from(event, session, payload, static_cast<uint32_t>(payload_bytes), entry);
}

// The usual case, one session, stands alone, so that it needs no loop and saves fewer registers.
__attribute__((always_inline)) static inline void emit_to(plumb_event* event, uint32_t session,
                                                          const void* payload, uint64_t payload_bytes,
                                                          const void* entry) {
#if defined(__x86_64__)
    const plumb_writer* writer = plumb_setup.writers + session;
    const uint64_t length = PLUMB_RECORD_HEADER_BYTES + payload_bytes;
    if (__builtin_expect(plumb_setup.rseq_offset != 0, 1) &&
        __builtin_expect(length <= __atomic_load_n(&writer->record_limit, __ATOMIC_RELAXED), 1)) {
        const plumb_write_result result = plumb_write_fast(event, writer, payload, payload_bytes);
        if (__builtin_expect(result != PLUMB_SLOW, 1)) return;
        plumb_emit_slow(event, session, payload, static_cast<uint32_t>(payload_bytes));
        return;
    }
#endif
    emit_no_record(event, session, payload, payload_bytes, entry);
}

__attribute__((noinline)) PLUMB_HIDDEN void plumb_emit_to(plumb_event* event, uint32_t sessions,
                                                          const void* payload, uint32_t payload_bytes,
                                                          const void* entry) {
    PLUMB_NAME_FOR_LINKERS(plumb_emit_to);
    for (; sessions != 0; sessions &= sessions - 1)
        emit_to(event, static_cast<uint32_t>(__builtin_ctz(sessions)), payload, payload_bytes, entry);
}

PLUMB_HIDDEN void plumb_emit(plumb_event* event, const void* payload, uint32_t payload_bytes) {
    PLUMB_NAME_FOR_LINKERS(plumb_emit);
    const uint32_t sessions = __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
    if (__builtin_expect((sessions & (sessions - 1)) == 0, 1)) {
        if (__builtin_expect(sessions != 0, 1))
            emit_to(event, static_cast<uint32_t>(__builtin_ctz(sessions)), payload, payload_bytes,
                    __builtin_dwarf_cfa());
    } else {
        plumb_emit_to(event, sessions, payload, payload_bytes, __builtin_dwarf_cfa());
    }
}

// The program's other threads may change a string while it is copied. Which of its bytes are then in the record is
// open, but the record is whole: its length is that of the bytes that were written, so each is loaded once, and
// nothing is measured at the source.
static char load_once(const char* from) {
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

// After the first `done` bytes, none of which is NUL. A chunk is copied only if all of it fits: if it has no
// NUL, `done` is at most `room`, and the loop below decides whether the string ends there or is cut.
__attribute__((noinline)) static uint64_t copy_rest(unsigned char* to, const char* from, uint64_t room,
                                                    uint64_t done) {
    if (from == nullptr) from = "(null)";
    while (plumb_setup.rseq_offset != 0 && done + PLUMB_CHUNK_BYTES <= room && plumb_has_chunk(from + done)) {
        const uint64_t bytes = plumb_copy_chunk(to + done, from + done);
        done += bytes;
        if (bytes < PLUMB_CHUNK_BYTES) return done;
    }
    char next = load_once(from + done);
    for (; done < room && next != '\0'; next = load_once(from + done))
        to[done++] = static_cast<unsigned char>(next);
    __builtin_memset(to + done, 0, 8);
    return next != '\0' ? room + 1 : done;
}

// The first chunk, in which most names end, stands alone.
PLUMB_HIDDEN uint64_t plumb_copy_string(unsigned char* to, const char* from, uint64_t room) {
    PLUMB_NAME_FOR_LINKERS(plumb_copy_string);
    uint64_t done = 0;
    if (__builtin_expect(plumb_setup.rseq_offset != 0 && from != nullptr && room >= PLUMB_CHUNK_BYTES, 1) &&
        plumb_has_chunk(from)) {
        done = plumb_copy_chunk(to, from);
        if (__builtin_expect(done < PLUMB_CHUNK_BYTES, 1)) return done;
    }
    return copy_rest(to, from, room, done);
}

// Not by strlen() or memchr(): MemorySanitizer ends a program in which they look at what code that is not instrumented has written.
// One is at `bytes` at the latest.
static uint64_t find_nul(const unsigned char* at, uint64_t bytes) {
    constexpr uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t place = 0;
    for (; bytes - place >= sizeof(uint64_t); place += sizeof(uint64_t)) {
        uint64_t word;
        __builtin_memcpy(&word, at + place, sizeof(word));
        const uint64_t zeros = (word - ones) & ~word & tops; // the lowest is where the first is
        if (zeros != 0) return place + static_cast<uint64_t>(__builtin_ctzll(zeros)) / 8;
    }
    for (unsigned char byte = at[place];; byte = at[++place]) {
        __asm__("" : "+r"(byte)); // no call of strlen()
        if (byte == 0) return place;
    }
}

PLUMB_HIDDEN uint64_t plumb_copy_view(unsigned char* to, const char* from, uint64_t bytes, uint64_t room) {
    PLUMB_NAME_FOR_LINKERS(plumb_copy_view);
    const uint64_t copied = bytes < room ? bytes : room;
    __builtin_memcpy(to, from, copied);
    to[copied] = '\0';
    const uint64_t length = find_nul(to, copied);
    // A view that goes on behind the room, but whose NUL is there, is whole.
    return length == room && bytes > room && load_once(from + room) != '\0' ? room + 1 : length;
}

} // extern "C"

// What a small object registers; initialised by the linker, so that a start does not touch more pages.
constexpr plumb_object describe_this_object(uint32_t flags) {
    return {PLUMB_RUNTIME_VERSION,
            flags,
            __start_plumb_events,
            __stop_plumb_events,
            &plumb_setup,
            nullptr,
            nullptr,
            {}};
}
