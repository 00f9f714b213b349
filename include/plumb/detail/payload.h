/*
 * Writing fields into a record's payload: packed, little-endian, in the order of the fields.
 *
 * A payload starts in a small buffer on the caller's stack. Only strings, texts and sequences can outgrow it;
 * the trace function then starts over with a scratch buffer of the largest size a record may have. What does not
 * fit there is cut, in such a way that what is short stays whole and the longest share the rest: the fields are
 * put once more for each level of that. So the common path has no size computation, and one pass over each string.
 */
#ifndef PLUMB_DETAIL_PAYLOAD_H
#define PLUMB_DETAIL_PAYLOAD_H

#include <plumb/abi/record.h>
#include <plumb/runtime.h>

#ifdef __cplusplus
extern "C++" {
#include <string_view>
#include <type_traits>
} // extern "C++"
extern "C" {
#endif

/* Who chooses at each record which sessions are told of it defines his own, in all files of a program or shared object alike. */
#ifndef PLUMB_EMIT_
#define PLUMB_EMIT_ plumb_emit
#define PLUMB_EMIT_LARGE_ plumb_emit_large
#endif

/* Room for strings, texts and sequences in the stack buffer, all of an event's together. */
#define PLUMB_SMALL_ROOM 240u
/* plumb_copy_string and the copy into the ring touch a little more than they use. */
#define PLUMB_SLACK 24u

struct plumb_payload {
    unsigned char* at; /* next byte to write */
    uint64_t room;     /* bytes that variable-length fields may still take */
    uint64_t most;     /* and each of them; a constant on the common path */
    uint32_t cut;      /* how many did not fit */
    uint32_t rounds;   /* in which they were shortened */
};

/*
 * How a trace function uses them; `fixed_bytes` (what the fields take at least) and `varies` (how many
 * fields are of variable length) are constants, and so the compiler decides what depends on them:
 *
 *     plumb_payload_begin(&p, buffer, fixed_bytes, varies);
 *     put each field
 *     if (plumb_payload_fits(&p, varies)) {
 *         plumb_payload_emit(&p, event, buffer, fixed_bytes, varies);
 *     } else {
 *         unsigned char* scratch = plumb_payload_begin_large(&p, buffer, fixed_bytes);
 *         do {
 *             put each field
 *         } while (plumb_payload_is_shared(&p, buffer, scratch, fixed_bytes, varies));
 *         plumb_payload_emit_large(&p, event, buffer, scratch);
 *     }
 *
 * Written out twice and not as one loop: that keeps its state in memory, which the usual path pays for.
 */
static inline void plumb_payload_begin(struct plumb_payload* payload, unsigned char* buffer,
                                       uint64_t fixed_bytes, int varies) {
    payload->at = buffer;
    payload->room = PLUMB_SMALL_ROOM;
    payload->most = UINT64_MAX;
    payload->cut = 0;
    payload->rounds = 0;
    /* The bytes between the last field and the next multiple of 8 go into the ring: not what was on the
     * stack. */
    if (!varies && (fixed_bytes % 8 || fixed_bytes == 0))
        __builtin_memset(buffer + fixed_bytes / 8 * 8, 0, 8);
}

/* Threads hand scratch buffers on to each other in the runtime, and strings are read there, which ThreadSanitizer does not see. */
#if defined(__SANITIZE_THREAD__)
#define PLUMB_THREAD_SANITIZER_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLUMB_THREAD_SANITIZER_ 1
#endif
#endif
#ifdef PLUMB_THREAD_SANITIZER_
void __tsan_acquire(void* address);                // NOLINT(bugprone-reserved-identifier): its own
void __tsan_release(void* address);                // NOLINT(bugprone-reserved-identifier)
void __tsan_read_range(void* address, long bytes); // NOLINT(bugprone-reserved-identifier): as gcc knows it
/* One word for all of them: a use begins at another place in the buffer than the one before. */
#define PLUMB_TAKE_FROM_OTHERS_() __tsan_acquire((void*)(uintptr_t)&plumb_scratch_acquire)
#define PLUMB_HAND_TO_OTHERS_() __tsan_release((void*)(uintptr_t)&plumb_scratch_acquire)
#define PLUMB_WAS_READ_(from, bytes) \
    ((from) ? __tsan_read_range((void*)(uintptr_t)(from), (long)(bytes)) : (void)0)
#else
#define PLUMB_WAS_READ_(from, bytes) ((void)0)
#define PLUMB_TAKE_FROM_OTHERS_() ((void)0)
#define PLUMB_HAND_TO_OTHERS_() ((void)0)
#endif

static inline int plumb_payload_fits(const struct plumb_payload* payload, int varies) {
    return !varies || __builtin_expect(!payload->cut, 1);
}

static inline void plumb_payload_emit(struct plumb_payload* payload, struct plumb_event* event,
                                      const unsigned char* buffer, uint64_t fixed_bytes, int varies) {
    if (!varies) {
        PLUMB_EMIT_(event, buffer, (uint32_t)fixed_bytes);
        return;
    }
    __builtin_memset(payload->at, 0, 8); /* the unused bytes behind the payload go into the ring, too */
    PLUMB_EMIT_(event, buffer, (uint32_t)(payload->at - buffer));
}

static inline void plumb_payload_restart(struct plumb_payload* payload, unsigned char* buffer,
                                         unsigned char* scratch, uint64_t fixed_bytes) {
    payload->at = scratch ? scratch : buffer;
    payload->room =
        scratch ? PLUMB_RECORD_MAX_BYTES - PLUMB_RECORD_HEADER_BYTES - fixed_bytes : PLUMB_SMALL_ROOM;
    payload->cut = 0;
}

/* The scratch buffer, now in use; NULL if there is none, then it is the small one again. */
static inline unsigned char* plumb_payload_begin_large(struct plumb_payload* payload, unsigned char* buffer,
                                                       uint64_t fixed_bytes) {
    unsigned char* scratch = (unsigned char*)plumb_scratch_acquire();
    PLUMB_TAKE_FROM_OTHERS_();
    plumb_payload_restart(payload, buffer, scratch, fixed_bytes);
    return scratch;
}

/*
 * Whether the fields are to be put once more, as they did not all fit, or not all that there is room for was used. First
 * each may take the same; in each round what the short ones left is shared by those that were cut. So every round makes another
 * one whole, or is the last.
 */
static inline int plumb_payload_is_shared(struct plumb_payload* payload, unsigned char* buffer,
                                          unsigned char* scratch, uint64_t fixed_bytes, uint32_t varies) {
    const uint32_t cut = payload->cut;
    const uint64_t left = payload->room;
    if (varies < 2 || cut == 0) return 0;
    if (payload->rounds > varies + 8) return 0; /* somebody writes there meanwhile */
    if (payload->rounds != 0 && left < cut) return 0;
    plumb_payload_restart(payload, buffer, scratch, fixed_bytes);
    payload->most = payload->rounds++ == 0 ? payload->room / varies : payload->most + left / cut;
    return 1;
}

static inline void plumb_payload_emit_large(struct plumb_payload* payload, struct plumb_event* event,
                                            const unsigned char* buffer, unsigned char* scratch) {
    const unsigned char* start = scratch ? scratch : buffer;
    __builtin_memset(payload->at, 0, 8);
    PLUMB_EMIT_LARGE_(event, start, (uint32_t)(payload->at - start), payload->cut != 0);
    PLUMB_HAND_TO_OTHERS_();
    plumb_scratch_release(scratch);
}

static inline void plumb_put_bytes(struct plumb_payload* payload, const void* from, uint64_t bytes) {
    __builtin_memcpy(payload->at, from, bytes);
    payload->at += bytes;
}

static inline uint64_t plumb_payload_room(const struct plumb_payload* payload) {
    return payload->room < payload->most ? payload->room : payload->most;
}

static inline uint64_t plumb_address_of(const volatile void* pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* 0 or 1, also of a bool that was never set, or was read from damaged memory: its byte may be any, and compilers count on it. */
static inline unsigned char plumb_truth_of(unsigned char byte) {
    __asm__("" : "+r"(byte));
    return byte != 0;
}

/* A string that ends at its first NUL, or, in C++, where its view ends: behind that nothing may be read. */
static inline void plumb_put_string(struct plumb_payload* payload, const char* from, uint64_t bytes_max) {
    const uint64_t room = plumb_payload_room(payload);
    uint64_t bytes = bytes_max == UINT64_MAX ? plumb_copy_string(payload->at, from, room)
                                             : plumb_copy_view(payload->at, from, bytes_max, room);
    if (__builtin_expect(bytes > room, 0)) {
        bytes = room;
        payload->cut++;
    }
    PLUMB_WAS_READ_(from, bytes);
    payload->at += bytes + 1;
    payload->room -= bytes;
}

/* `count` elements of `size` bytes, after their count. */
static inline void plumb_put_counted(struct plumb_payload* payload, const void* from, uint64_t count,
                                     uint32_t size) {
    const uint64_t room = plumb_payload_room(payload);
    uint16_t fits = (uint16_t)count;
    /* Where gcc knows the object behind `from`, but not that `count` is its size, it would warn of the branch
     * below, which copies more. It forgets the object here. */
    __asm__("" : "+r"(from));
    if (!from) fits = 0, count = 0;
    if (__builtin_expect(count > room / size, 0)) {
        fits = (uint16_t)(room / size);
        payload->cut++;
        payload->room -=
            room - (uint64_t)fits * size; /* no share of anybody's: it may have it, and has no use for it */
    }
    __builtin_memcpy(payload->at, &fits, 2);
    if (fits) __builtin_memcpy(payload->at + 2, from, (uint64_t)fits * size);
    payload->at += 2 + (uint64_t)fits * size;
    payload->room -= (uint64_t)fits * size;
}

/* The first bytes of a string, as printf's precision means it: behind them, or behind a NUL, nothing is read. */
static inline void plumb_put_string_part(struct plumb_payload* payload, const char* from, int64_t bytes_max) {
    uint64_t bytes = 0;
    if (!from || bytes_max < 0) {
        plumb_put_string(payload, from, UINT64_MAX);
        return;
    }
    while (bytes < (uint64_t)bytes_max && __atomic_load_n(from + bytes, __ATOMIC_RELAXED))
        bytes++;
    plumb_put_string(payload, from, bytes);
}

/* As printf's `%p` shows it: nothing is read there. */
__attribute__((cold)) static inline void plumb_put_address(struct plumb_payload* payload,
                                                           const void* address) {
    char text[2 + 2 * sizeof(uintptr_t) + 1];
    char* digit = text + sizeof(text) - 1;
    uintptr_t left = (uintptr_t)address;
    *digit = '\0';
    for (; left != 0; left >>= 4)
        *--digit = "0123456789abcdef"[left & 15];
    *--digit = 'x';
    *--digit = '0';
    plumb_put_string(payload, address ? digit : "(nil)", UINT64_MAX);
}

static inline void plumb_put_array(struct plumb_payload* payload, const void* from, uint64_t bytes) {
    if (from)
        __builtin_memcpy(payload->at, from, bytes);
    else
        __builtin_memset(payload->at, 0, bytes);
    payload->at += bytes;
}

#ifdef __cplusplus
} // extern "C"

extern "C++" {
namespace plumb::detail {

// What a `string` field takes in C++.
struct string_argument {
    const char* data;
    uint64_t bytes_max;
    string_argument(const char* text) : data(text), bytes_max(UINT64_MAX) {}
    template <typename Text, std::enable_if_t<std::is_convertible_v<const Text&, std::string_view> &&
                                                  !std::is_convertible_v<const Text&, const char*>,
                                              int> = 0>
    string_argument(const Text& text) {
        const std::string_view view = text;
        data = view.data() ? view.data() : "";
        bytes_max = view.size();
    }
};

// What a `text` field takes in C++, instead of a pointer and a length.
struct text_argument {
    const char* data;
    size_t bytes;
    template <typename Text, std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>, int> = 0>
    text_argument(const Text& text) : data(nullptr), bytes(0) {
        if constexpr (std::is_convertible_v<const Text&, const char*>)
            if (static_cast<const char*>(text) == nullptr) return;
        const std::string_view view = text;
        data = view.data();
        bytes = view.size();
    }
};

// What an `enum` field takes in C++: its integer type, or any enumeration.
template <typename Integer>
struct enum_argument {
    Integer value;
    template <typename Value, std::enable_if_t<std::is_enum_v<Value> || std::is_integral_v<Value>, int> = 0>
    constexpr enum_argument(Value v) : value(static_cast<Integer>(v)) {}
};

} // namespace plumb::detail
} // extern "C++"
#endif

#endif
