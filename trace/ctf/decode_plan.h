/*
 * How the bytes of a trace become values: one flat list of steps for each struct that a trace describes, made
 * once when it is opened. Reading an event walks its list; nothing is looked up by name, nothing allocated.
 *
 *   struct { u16 __n_length; u8 _n[__n_length] (UTF8); struct { u32 a; } s; }
 *
 *   0  integer  u16 "_n_length"  stores its value in slot 0
 *   1  text     "n"              as many bytes as slot 0 says
 *   2  structure "s"             up to step 4
 *   3    integer u32 "a"
 */
#ifndef PLUMB_TRACE_CTF_DECODE_PLAN_H
#define PLUMB_TRACE_CTF_DECODE_PLAN_H

#include "trace/ctf/tsdl.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace plumb {

enum class StepKind : uint8_t { integer, floating, string, text, structure, array, variant };

/* What a value means to the reader itself. */
enum class Role : uint8_t {
    none,
    magic,
    uuid,
    stream_id,
    stream_instance_id,
    timestamp_begin,
    timestamp_end,
    content_size,
    packet_size,
    packet_seq_num,
    events_discarded,
    cpu_id,
    event_id,
    thread_id,
    process_id,
    process_name,
    count
};

struct Step {
    StepKind kind = StepKind::integer;
    Role role = Role::none;
    uint8_t base = 10;
    uint8_t size_bits = 0;
    bool is_signed = false;
    bool big_endian = false;
    bool direct = false;     /* a little-endian integer of 1, 2, 4 or 8 bytes on a byte boundary */
    bool maps_clock = false; /* its value sets the stream's clock */
    bool is_length = false;  /* says only how long the next field is: not shown */
    bool has_flags = false;  /* `labels` are of bits */
    bool counted = false;    /* text, array: the number of elements is in `from_slot`, not in `length` */
    uint32_t align_mask = 0; /* alignment in bits, less one */
    uint32_t next = 0;       /* the step behind this one and all that is in it */
    int32_t slot = -1;       /* where its value is kept for later steps */
    int32_t from_slot = -1;  /* where its length or tag is */
    uint32_t choices = 0;    /* variant: index in Plan::choices */
    uint64_t length = 0;     /* text, array: elements */
    uint64_t element_min_bits = 0;
    const std::vector<tsdl::Label>* labels = nullptr; /* of an enumeration */
    std::string_view
        name; /* as shown, without the underscore in front; the metadata's own, which outlives all plans */
};

/* One option of a variant: taken if the tag is between first and last. */
struct Choice {
    uint64_t first;
    uint64_t last;
    uint32_t step;
};

struct Choices {
    bool tag_is_signed = false;
    std::vector<Choice> options;
};

struct Plan {
    std::vector<Step> steps;
    std::vector<Choices> choices;
    uint32_t align_mask = 0;
    bool empty() const { return steps.empty(); }
};

} // namespace plumb

#endif
