// Where tracepoints come to when the fast path does not write their record: asks the session's condition, if it has one, and has
// the record written, quickly where that can be.
#include "../context/context.h"
#include "../runtime.h"

#include "../condition/tests.h"
#include "../count/count.h"

#include "inject.h"
#include "quick.h"
#include "write.h"

namespace plumb {

namespace {

// False: the gate was closed.
bool write_through(const Gate& gate, plumb_event& event, uint32_t session, const Payload& payload) {
    if (is_counting(session)) {
        if (!payload.is_large && count_quickly(event, session, gate, payload.at, payload.bytes)) return true;
        return write_slowly(event, session, payload, gate);
    }
    if (!payload.is_large && emit_quickly(event, session, gate, payload.at, payload.bytes)) return true;
    return write_slowly(event, session, payload, gate);
}

// What fulfilled a condition that is another one by now is asked by that one: both may want it.
void emit_on_condition(plumb_event& event, uint32_t session, const Payload& payload) {
    constexpr int tries_max = 64;
    if (writers_are_wiped()) { // it is another process that is asked
        after_fork();
        if (writers_are_wiped()) {
            add_seq_cst(runtime.unguarded_losses, uint64_t{1});
            return;
        }
    }
    for (int tries = 0; tries < tries_max; tries++) {
        const condition::Program* const program = condition::program_of(event, session);
        if (program == nullptr) return;
        inject(InjectionPoint::condition_found);
        const uint32_t version = load_acquire(program->version);
        if (version % 2 != 0 || condition::program_of(event, session) != program) continue;
        const auto answer = condition::ask(*program, version, *event.info, payload.at, payload.bytes);
        if (answer == condition::Answer::changed) continue;
        if (answer == condition::Answer::holds_not) return;
        if (answer == condition::Answer::not_known) return lose_held(event, session, payload);
        inject(InjectionPoint::condition_held);
        const Gate gate = gate_of(*program, version);
        if (load_relaxed(program->context) != 0 ? context::write(*program, gate, event, session, payload)
                                                : write_through(gate, event, session, payload))
            return;
    }
    add_seq_cst(runtime.unguarded_losses, uint64_t{1});
}

// `place`: of a bit in `enabled`.
void emit_to(plumb_event& event, uint32_t place, const Payload& payload) {
    if (place >= PLUMB_MAX_SESSIONS)
        emit_on_condition(event, place - PLUMB_MAX_SESSIONS, payload);
    else
        (void)write_through(gate_of(event, place), event, place, payload);
}

void emit_to_each(plumb_event& event, uint32_t places, const Payload& payload) {
    for (; places != 0; places &= places - 1)
        emit_to(event, static_cast<uint32_t>(__builtin_ctz(places)), payload);
}

} // namespace

} // namespace plumb

using namespace plumb;

#define PLUMB_EXPORT __attribute__((visibility("default")))

extern "C" {

PLUMB_EXPORT void plumb_emit_slow(plumb_event* event, uint32_t session, const void* payload,
                                  uint32_t payload_bytes) {
    emit_to(*event, session, {payload, payload_bytes, false, false, __builtin_dwarf_cfa()});
}

PLUMB_EXPORT void plumb_emit_from(plumb_event* event, uint32_t session, const void* payload,
                                  uint32_t payload_bytes, const void* entry) {
    emit_to(*event, session, {payload, payload_bytes, false, false, entry});
}

PLUMB_EXPORT void plumb_emit_large(plumb_event* event, const void* payload, uint32_t payload_bytes, int cut) {
    emit_to_each(*event, load_relaxed(event->enabled),
                 {payload, payload_bytes, true, cut != 0, __builtin_dwarf_cfa()});
}

PLUMB_EXPORT void plumb_lose(plumb_event* event) {
    for (uint32_t places = load_relaxed(event->enabled); places != 0; places &= places - 1)
        lose(*event, static_cast<uint32_t>(__builtin_ctz(places)) % PLUMB_MAX_SESSIONS,
             {nullptr, 0, false, false}, cause_without_scratch());
}

PLUMB_EXPORT void plumb_emit_large_to(plumb_event* event, uint32_t sessions, const void* payload,
                                      uint32_t payload_bytes, int cut) {
    emit_to_each(*event, load_relaxed(event->enabled) & sessions,
                 {payload, payload_bytes, true, cut != 0, __builtin_dwarf_cfa()});
}

} // extern "C"
