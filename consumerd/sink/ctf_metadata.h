/*
 * The metadata of a CTF 1.8 trace, as plain-text TSDL: trace, environment, clock, the two stream classes, and
 * every event with its fields.
 *
 * Names come from traced programs. Where TSDL wants an identifier they are made one; in strings they are
 * escaped; so no name can break the metadata or reach beyond its place.
 */
#ifndef PLUMB_CONSUMERD_SINK_CTF_METADATA_H
#define PLUMB_CONSUMERD_SINK_CTF_METADATA_H

#include "consumerd/event/channel_event.h"

#include <plumb/abi/clock_page.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* What a trace says of itself. */
struct TraceIdentity {
    std::string trace_name;
    std::string host_name;
    std::string domain = "ust";
    std::string folder; /* in the trace's directory; empty: named as the domain */
    std::array<uint8_t, 16> uuid{};
    std::array<uint8_t, 16> boot_id{};
    uint64_t created_realtime_ns = 0;
    /* Records have small headers (record_packer.h). */
    bool is_compact = false;
    /* Packets of the kernel's statedump say for which times names are known (ctf_layout.h). */
    bool has_named_spans = false;
    /* Further lines of `env`: identifier and text. */
    std::vector<std::pair<std::string, std::string>> environment;

    /* The events of the statedump, with the ids 1, 2, ...; empty: those of an application's channel, as ctf_statedump
     * writes them. */
    std::vector<EventDescription> statedump_events;

    bool is_kernel() const { return domain == "kernel"; }
};

std::string make_ctf_metadata(const TraceIdentity& identity, const plumb_clock_page& clock,
                              const std::deque<ChannelEvent>& events);

/* A clock's offset from 1970, as CTF splits it: whole seconds, and counts of the clock. */
struct CtfClockOffset {
    int64_t seconds;
    uint64_t cycles;
};
CtfClockOffset ctf_clock_offset(const plumb_clock_page& clock);

/* A new one; where the system gives no random numbers, one that differs from this. */
std::array<uint8_t, 16> random_uuid(std::array<uint8_t, 16> other);
/* "01234567-89ab-..." */
std::string uuid_text(const std::array<uint8_t, 16>& uuid);

} // namespace plumb

#endif
