#include "trace/ctf/record_layout.h"

#include "base/ctf_layout.h"
#include "trace/ctf/trace_layout.h"

#include <string_view>

namespace plumb {

/* Whether header and context of events may be those that consumerd/sink/record_packer.h draws: the metadata says so, too. */
bool is_compact_record(const Plan& header, const Plan& context) {
    if (header.steps.empty() || context.steps.size() != 1) return false;
    const Step& kind = header.steps[0];
    const Step& thread = context.steps[0];
    return header.align_mask == 7 && kind.kind == StepKind::integer &&
           kind.size_bits == ctf_compact_kind_bits && kind.next < header.steps.size() &&
           header.steps[kind.next].kind == StepKind::variant &&
           header.steps[kind.next].next == header.steps.size() && thread.direct && !thread.is_signed &&
           thread.size_bits == 32 && thread.align_mask == 7 &&
           (thread.name == "vtid" || thread.name == "tid");
}

/* Of structs of nothing but integers and floating points of whole bytes; else EventInfo::variable_size. */
uint32_t fixed_bytes_of(const Plan& fields) {
    if (fields.align_mask > 7) return EventInfo::variable_size;
    uint32_t bits = 0;
    for (const Step& step : fields.steps) {
        if ((step.kind != StepKind::integer && step.kind != StepKind::floating) || step.align_mask != 7 ||
            step.size_bits % 8 != 0)
            return EventInfo::variable_size;
        bits += step.size_bits;
    }
    return bits / 8;
}

/* Whether header and context of events are those of include/plumb/abi/record.h, little-endian:
 *   struct { u64 timestamp; u16 id; } align(64), then struct { u32 align(32) vtid; }, or tid in the kernel's domain
 * The record's length lies in the gap before vtid, but only a trace that Plumb wrote has it there. */
bool is_plumb_record(const Plan& header, const Plan& context) {
    const auto is_field = [](const Step& step, std::string_view name, unsigned bits, uint32_t alignment) {
        return step.kind == StepKind::integer && step.direct && !step.is_signed && step.size_bits == bits &&
               step.align_mask == alignment - 1 && step.name == name;
    };
    return header.align_mask == 63 && header.steps.size() == 2 && context.steps.size() == 1 &&
           context.align_mask == 31 && is_field(header.steps[0], "timestamp", 64, 8) &&
           header.steps[0].maps_clock && is_field(header.steps[1], "id", 16, 8) &&
           (is_field(context.steps[0], "vtid", 32, 32) || is_field(context.steps[0], "tid", 32, 32));
}

} // namespace plumb
