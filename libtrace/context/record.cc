// A record with context: what the session wants is gathered into a buffer, the event's payload behind it, and that is written
// as any payload is.
//
// A record that would be too large for its channel loses frames of its call stack first, and then of its own fields what cut.cc
// takes of them; either is counted as cut.
#include "../bytes.h"
#include "context.h"

#include "../ring/quick.h"
#include "../ring/sequence.h"
#include "../runtime.h"
#include "callstack.h"
#include "process.h"

#include <plumb/abi/context.h>

#include <sys/prctl.h>

namespace plumb::context {

namespace {

constexpr uint32_t plain_bytes_max = 96; // of everything but the call stack
constexpr uint32_t stack_head_bytes = 3; // why it ends, and the count
constexpr uint32_t small_bytes = 1024;   // on the writer's stack
constexpr uint32_t walk_bytes = 4608; // of it, beside these, where tables are read, and all that comes behind
constexpr uint32_t slack_bytes = 8;   // zeros up to the next word

// The program may be another one by now, and what stands in it anything: then nothing is published, but it is written here.
struct Wanted {
    uint32_t context;
    uint32_t depth;
    uint32_t payload_limit;
    bool may_walk = true;

    explicit Wanted(const condition::Program& program)
        : context(load_relaxed(program.context)),
          depth(load_relaxed(program.callstack_depth)),
          payload_limit(load_relaxed(program.record_limit)) {
        if (depth > PLUMB_CALLSTACK_MAX_DEPTH) depth = PLUMB_CALLSTACK_MAX_DEPTH;
        if (payload_limit > PLUMB_RECORD_MAX_BYTES) payload_limit = PLUMB_RECORD_MAX_BYTES;
        if (payload_limit < PLUMB_SUBBUF_MIN_BYTES / 4) payload_limit = PLUMB_SUBBUF_MIN_BYTES / 4;
        payload_limit -= PLUMB_RECORD_HEADER_BYTES + 8;
    }
    bool has(uint32_t bit) const { return (context & bit) != 0; }
    bool has_stack() const { return has(PLUMB_CONTEXT_CALLSTACK); }
    uint32_t bytes_max() const { return plain_bytes_max + (has_stack() ? stack_head_bytes + depth * 8 : 0); }
};

class Buffer {
public:
    explicit Buffer(unsigned char* start) : start_(start), at_(start) {}
    template <typename T>
    void put(const T& value) {
        __builtin_memcpy(at_, &value, sizeof(value));
        at_ += sizeof(value);
    }
    void put_bytes(const void* from, uint32_t bytes) {
        __builtin_memcpy(at_, from, bytes);
        at_ += bytes;
    }
    void skip(uint32_t bytes) { at_ += bytes; }
    unsigned char* at() const { return at_; }
    uint32_t used() const { return static_cast<uint32_t>(at_ - start_); }

private:
    unsigned char* start_;
    unsigned char* at_;
};

// Some of it takes a system call, and is not known where none may be made.
class Gatherer {
public:
    Gatherer(const Wanted& wanted, Buffer& buffer) : wanted_(wanted), buffer_(buffer) {}

    void gather() {
        if (wanted_.has(PLUMB_CONTEXT_VPID)) buffer_.put(process_id());
        if (wanted_.has(PLUMB_CONTEXT_PROCNAME)) put_name();
        if (wanted_.has(PLUMB_CONTEXT_CPU)) buffer_.put(cpu());
        if (wanted_.has(PLUMB_CONTEXT_UID)) buffer_.put(asked(SYS_getuid));
        if (wanted_.has(PLUMB_CONTEXT_EUID)) buffer_.put(asked(SYS_geteuid));
        if (wanted_.has(PLUMB_CONTEXT_GID)) buffer_.put(asked(SYS_getgid));
        if (wanted_.has(PLUMB_CONTEXT_EGID)) buffer_.put(asked(SYS_getegid));
        for (uint32_t i = 0; i < namespace_count; i++)
            if (wanted_.has(PLUMB_CONTEXT_PID_NS << i)) buffer_.put(load_relaxed(process.namespaces[i]));
        if (wanted_.has(PLUMB_CONTEXT_CGROUP)) buffer_.put(load_relaxed(process.cgroup));
    }

private:
    static constexpr uint32_t not_known = UINT32_MAX;

    // A child of vfork() has its parent's memory, and so what that remembers of itself.
    static bool is_in_vfork() { return load_relaxed(plumb_thread_self.in_vfork) != 0; }
    static uint32_t asked(long call) {
        const Permit permit;
        return permit.given() ? static_cast<uint32_t>(sys::call(call)) : not_known;
    }
    static uint32_t process_id() { return is_in_vfork() ? asked(SYS_getpid) : runtime.process_id; }
    static uint32_t cpu() {
        if (uses_sequences()) return current_cpu(runtime.rseq_offset);
        const Permit permit;
        unsigned number = 0;
        if (!permit.given() || sys::call(SYS_getcpu, &number, nullptr, nullptr) != 0) return not_known;
        return number;
    }
    void put_name() {
        char name[16] = {};
        const Permit permit;
        if (permit.given()) sys::call(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
        name[sizeof(name) - 1] = '\0';
        buffer_.put_bytes(name, static_cast<uint32_t>(length_of(name)) + 1);
    }

    const Wanted& wanted_;
    Buffer& buffer_;
};

enum class Composed { whole, cut, too_large };

Composed put_payload(const plumb_event_info& info, const Payload& payload, uint32_t room, Buffer& buffer) {
    if (payload.bytes <= room) {
        buffer.put_bytes(payload.at, payload.bytes);
        return Composed::whole;
    }
    if (!may_be_cut_to(info, room)) return Composed::too_large;
    const uint32_t bytes =
        cut_payload(info, static_cast<const unsigned char*>(payload.at), payload.bytes, buffer.at(), room);
    buffer.skip(bytes);
    return bytes == 0 ? Composed::too_large : Composed::cut;
}

// Whether frames were left out for want of room.
bool put_stack(const Wanted& wanted, uint32_t session, const Payload& payload, Buffer& buffer) {
    unsigned char* const head = buffer.at();
    const uint32_t used = buffer.used() + stack_head_bytes + payload.bytes;
    const uint32_t room = used < wanted.payload_limit ? (wanted.payload_limit - used) / 8 : 0;
    const uint32_t count_max = room < wanted.depth ? room : wanted.depth;
    buffer.skip(stack_head_bytes);
    const Walked walked = wanted.may_walk ? walk_stack(payload.entry, session, buffer.at(), count_max)
                                          : Walked{0, PLUMB_CALLSTACK_UNABLE};
    buffer.skip(walked.count * 8);
    const bool is_cut = walked.end == PLUMB_CALLSTACK_DEEPER && count_max < wanted.depth;
    head[0] = static_cast<unsigned char>(is_cut ? PLUMB_CALLSTACK_CUT : walked.end);
    head[1] = static_cast<unsigned char>(walked.count);
    head[2] = static_cast<unsigned char>(walked.count >> 8);
    return is_cut;
}

Composed compose(const Wanted& wanted, const plumb_event& event, uint32_t session, const Payload& payload,
                 Buffer& buffer) {
    Gatherer(wanted, buffer).gather();
    const bool is_cut = wanted.has_stack() && put_stack(wanted, session, payload, buffer);
    const uint32_t used = buffer.used();
    const uint32_t room = used < wanted.payload_limit ? wanted.payload_limit - used : 0;
    const Composed put = put_payload(*event.info, payload, room, buffer);
    if (put == Composed::too_large) return put;
    __builtin_memset(buffer.at(), 0, slack_bytes);
    return is_cut ? Composed::cut : put;
}

__attribute__((noinline)) bool write_small(const Wanted& wanted, const Gate& gate, plumb_event& event,
                                           uint32_t session, const Payload& payload) {
    alignas(8) unsigned char bytes[small_bytes + slack_bytes];
    Buffer buffer(bytes);
    const Composed composed = compose(wanted, event, session, payload, buffer);
    if (composed == Composed::too_large) {
        lose(event, session, payload, PLUMB_LOST_TOO_LARGE);
        return true;
    }
    const Payload whole = {bytes, buffer.used(), false, payload.is_cut || composed == Composed::cut};
    if (!whole.is_cut && emit_quickly(event, session, gate, whole.at, whole.bytes)) return true;
    return write_slowly(event, session, whole, gate);
}

bool write_large(const Wanted& wanted, const Gate& gate, plumb_event& event, uint32_t session,
                 const Payload& payload) {
    auto* const scratch = static_cast<unsigned char*>(plumb_scratch_acquire());
    if (scratch == nullptr) {
        lose(event, session, payload, cause_without_scratch());
        return true;
    }
    Buffer buffer(scratch);
    const Composed composed = compose(wanted, event, session, payload, buffer);
    bool is_done = true;
    if (composed == Composed::too_large) {
        lose(event, session, payload, PLUMB_LOST_TOO_LARGE);
    } else if (is_scratch_lost(payload.at)) { // somebody else's while it was copied
        lose(event, session, payload, PLUMB_LOST_CONTENDED);
    } else {
        const Payload whole = {scratch, buffer.used(), true, payload.is_cut || composed == Composed::cut};
        is_done = write_slowly(event, session, whole, gate);
    }
    plumb_scratch_release(scratch);
    return is_done;
}

} // namespace

bool write(const condition::Program& program, const Gate& gate, plumb_event& event, uint32_t session,
           const Payload& payload) {
    Wanted wanted(program);
    wanted.may_walk = !wanted.has_stack() || has_stack_left(walk_bytes + small_bytes);
    if (wanted.may_walk && wanted.bytes_max() + payload.bytes <= small_bytes && !payload.is_large)
        return write_small(wanted, gate, event, session, payload);
    return write_large(wanted, gate, event, session, payload);
}

} // namespace plumb::context
