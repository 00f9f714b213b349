// A trace as another tracer of the kernel writes it, made event by event: each says its thread, process and name by itself.
#pragma once

#include "tests/support/opened_trace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb::test {

class KernelLikeTrace {
public:
    /* The number of the event; `fields` as they stand in the metadata, of u8, u16, u32, u64, i32, i64 and string. */
    uint32_t add(std::string_view name, std::string_view fields, std::string_view context = "") {
        described_ += fmt::format(
            "event {{ name = \"{}\"; id = {}; stream_id = 4; {}fields := struct {{ {} }}; }};\n", name,
            count_, context.empty() ? "" : fmt::format("context := struct {{ {} }};", context), fields);
        return count_++;
    }
    void environment(std::string_view name, std::string_view text) {
        described_ += fmt::format("env {{ {} = \"{}\"; }};\n", name, text);
    }
    void event(uint32_t number, uint64_t time_ns, uint32_t tid, const Payload& payload, uint32_t pid = 1,
               std::string_view name = "cat") {
        std::string padded(name);
        padded.resize(4);
        Payload head;
        head.add(number).add(time_ns).add(tid).add(pid);
        if (events_.empty()) begin_ns_ = time_ns;
        events_.insert(events_.end(), head.bytes().begin(), head.bytes().end());
        events_.insert(events_.end(), padded.begin(), padded.end());
        events_.insert(events_.end(), payload.bytes().begin(), payload.bytes().end());
    }
    /* The packet of all events so far that are in none. */
    void end_packet(uint32_t cpu = 0, uint64_t discarded = 0) {
        const uint64_t bits = (packet_head_bytes + events_.size()) * 8;
        Payload head;
        head.add(uint32_t{0xC1FC1FC1})
            .add(uint32_t{4})
            .add(begin_ns_)
            .add(bits)
            .add(bits)
            .add(cpu)
            .add(discarded);
        bytes_.insert(bytes_.end(), head.bytes().begin(), head.bytes().end());
        bytes_.insert(bytes_.end(), events_.begin(), events_.end());
        events_.clear();
    }
    void end_stream() { streams_.push_back(std::exchange(bytes_, {})); }

    Opened made() {
        if (!events_.empty()) end_packet();
        if (!bytes_.empty()) end_stream();
        return {std::string("/* CTF 1.8 */\n"
                            "typealias integer { size = 8; } := u8;\n"
                            "typealias integer { size = 16; } := u16;\n"
                            "typealias integer { size = 32; } := u32;\n"
                            "typealias integer { size = 64; } := u64;\n"
                            "typealias integer { size = 32; signed = true; } := i32;\n"
                            "typealias integer { size = 64; signed = true; } := i64;\n"
                            "trace { major = 1; minor = 8; byte_order = le;\n"
                            "  packet.header := struct { u32 magic; u32 stream_id; }; };\n"
                            "clock { name = mono; };\n"
                            "stream { id = 4;\n"
                            "  packet.context := struct { integer { size = 64; map = clock.mono.value; } "
                            "timestamp_begin;\n"
                            "    u64 content_size; u64 packet_size; u32 cpu_id;\n"
                            "    u64 events_discarded; };\n"
                            "  event.header := struct { u32 id;\n"
                            "    integer { size = 64; map = clock.mono.value; } timestamp; };\n"
                            "  event.context := struct { u32 tid; u32 pid;\n"
                            "    integer { size = 8; encoding = UTF8; } procname[4]; };\n"
                            "};\n") +
                    described_,
                streams_};
    }

private:
    static constexpr std::size_t packet_head_bytes = 44;
    std::string described_;
    uint32_t count_ = 0;
    uint64_t begin_ns_ = 0;
    std::vector<uint8_t> events_, bytes_;
    std::vector<std::vector<uint8_t>> streams_;
};

} // namespace plumb::test
