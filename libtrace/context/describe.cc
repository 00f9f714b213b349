// The fields of context as descriptions have them.
#include "context.h"

#include <plumb/abi/context.h>

namespace plumb::context {

namespace {

constexpr uint8_t a_signed = PLUMB_FIELD_SIGNED | PLUMB_FIELD_CONTEXT;
constexpr uint8_t an_unsigned = PLUMB_FIELD_CONTEXT;
constexpr uint8_t an_address = PLUMB_FIELD_HEX | PLUMB_FIELD_CONTEXT;

constexpr plumb_event_field integer(const char* name, uint8_t size, uint8_t flags) {
    return {name, nullptr, 0, 0, PLUMB_FIELD_INTEGER, size, flags, 0};
}

constexpr plumb_event_label ends[] = {
    {PLUMB_CALLSTACK_WHOLE, "whole"},
    {PLUMB_CALLSTACK_DEEPER, "deeper"},
    {PLUMB_CALLSTACK_UNKNOWN, "unknown_code"},
    {PLUMB_CALLSTACK_UNREADABLE, "unreadable"},
    {PLUMB_CALLSTACK_CUT, "cut"},
    {PLUMB_CALLSTACK_UNABLE, "unable"},
};

struct ContextField {
    uint32_t bit;
    plumb_event_field field;
};
constexpr ContextField fields[] = {
    {PLUMB_CONTEXT_VPID, integer("vpid", 4, a_signed)},
    {PLUMB_CONTEXT_PROCNAME, {"procname", nullptr, 0, 0, PLUMB_FIELD_STRING, 1, PLUMB_FIELD_CONTEXT, 0}},
    {PLUMB_CONTEXT_CPU, integer("cpu_id", 4, a_signed)},
    {PLUMB_CONTEXT_UID, integer("vuid", 4, an_unsigned)},
    {PLUMB_CONTEXT_EUID, integer("veuid", 4, an_unsigned)},
    {PLUMB_CONTEXT_GID, integer("vgid", 4, an_unsigned)},
    {PLUMB_CONTEXT_EGID, integer("vegid", 4, an_unsigned)},
    {PLUMB_CONTEXT_PID_NS, integer("pid_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_USER_NS, integer("user_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_MNT_NS, integer("mnt_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_NET_NS, integer("net_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_IPC_NS, integer("ipc_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_UTS_NS, integer("uts_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_CGROUP_NS, integer("cgroup_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_TIME_NS, integer("time_ns", 4, an_unsigned)},
    {PLUMB_CONTEXT_CGROUP, integer("cgroup", 8, an_unsigned)},
    {PLUMB_CONTEXT_CALLSTACK,
     {"callstack_user_end", ends, sizeof(ends) / sizeof(ends[0]), 0, PLUMB_FIELD_ENUM, 1, PLUMB_FIELD_CONTEXT,
      0}},
    {PLUMB_CONTEXT_CALLSTACK, {"callstack_user", nullptr, 0, 0, PLUMB_FIELD_SEQUENCE, 8, an_address, 0}},
};
static_assert(sizeof(fields) / sizeof(fields[0]) <= PLUMB_CONTEXT_MAX_FIELDS);

} // namespace

const plumb_event_field* field(uint32_t context, uint32_t index) {
    for (const ContextField& each : fields)
        if ((context & each.bit) != 0 && index-- == 0) return &each.field;
    return nullptr;
}

} // namespace plumb::context
