// An event in a session that counts: what <plumb/detail/writer.h> leaves of it, which is all that has a key or a value, a
// condition, or no restartable sequences.
#pragma once

#include "../ring/gate.h"

namespace plumb {

inline bool is_counting(uint32_t session) {
    return load_relaxed(runtime.writers[session].mode) == PLUMB_MODE_COUNT;
}

// By sequences, with nothing held. Whether it is counted; if not, nothing happened, and the slow path has to look.
bool count_quickly(plumb_event& event, uint32_t session, const Gate& gate, const void* payload,
                   uint32_t payload_bytes);

enum class Counted { counted, off, closed };
// With a guard held: by sequences if this thread has some, else by atomic operations.
Counted count_guarded(const Attachment& attachment, plumb_event& event, uint32_t session, const Gate& gate,
                      const void* payload, uint32_t payload_bytes, bool has_sequences);

} // namespace plumb
