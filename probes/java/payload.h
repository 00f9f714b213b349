/* What plumb.internal.Payload has put together goes into the rings. */
#ifndef PLUMB_PROBES_JAVA_PAYLOAD_H
#define PLUMB_PROBES_JAVA_PAYLOAD_H

#include <plumb/detail/payload.h>
#include <plumb/detail/writer.h>
#include <plumb/runtime.h>

#include <jni.h>
#include <string.h>

/* Behind the payload 8 bytes may be written. `fixed_bytes`: of the event's fields at least. `is_cut`: something was shortened already. */
static inline void emit_payload(struct plumb_event* event, uint32_t fixed_bytes, jlong payload, jint bytes,
                                jboolean is_cut) {
    unsigned char* const from = (unsigned char*)(uintptr_t)payload; /* NOLINT(performance-no-int-to-ptr) */
    memset(from + bytes, 0, 8);                                     /* goes into the ring, too */
    if ((uint32_t)bytes <= fixed_bytes + PLUMB_SMALL_ROOM && !is_cut)
        plumb_emit(event, from, (uint32_t)bytes);
    else
        plumb_emit_large(event, from, (uint32_t)bytes, is_cut);
}

#endif
