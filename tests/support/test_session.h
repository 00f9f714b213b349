// A small controller for tests of the runtime: makes channels, publishes rules, signals, waits for
// acknowledgements. It is written from <plumb/abi/*.h> alone, shares nothing with the consumer library, and
// lets a test do what that one would refuse (damaged files, two rule sets in a row, no waiting).
#pragma once

#include <plumb/abi/channel.h>
#include <plumb/abi/state.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumb::test {

struct ChannelShape {
    plumb_ring_mode mode = PLUMB_MODE_DISCARD;
    plumb_clock_mode clock_mode = PLUMB_CLOCK_TSC;
    uint32_t subbuf_bytes = 4096;
    uint32_t subbuf_count = 8;
    uint32_t ring_count = 0; // 0: one for each CPU
    uint32_t extra_ring_count = 4;
    uint32_t event_slots = 256;
    uint32_t entry_slots = 16384;
    uint64_t heap_bytes = 2u << 20;
    uint64_t block_timeout_ns = 2'000'000'000;
};

std::string user_directory();

// A channel's file and its mapping.
class TestChannel {
public:
    explicit TestChannel(const ChannelShape& shape = {});
    ~TestChannel();
    TestChannel(const TestChannel&) = delete;
    TestChannel& operator=(const TestChannel&) = delete;

    plumb_channel_header& header() const { return *reinterpret_cast<plumb_channel_header*>(base_); }
    plumb_ring_control& control(uint32_t ring) const {
        return *reinterpret_cast<plumb_ring_control*>(base_ + header().control_offset +
                                                      uint64_t{ring} * PLUMB_RING_CONTROL_BYTES);
    }
    const unsigned char* ring_data(uint32_t ring) const {
        return base_ + header().data_offset + ring * header().ring_bytes;
    }
    uint32_t ring_count() const { return header().ring_count + header().extra_ring_count; }
    const unsigned char* base() const { return base_; }
    uint64_t cookie() const { return cookie_; }
    const std::string& path() const { return path_; }
    uint64_t lost(plumb_loss cause) const; // of all rings
    uint64_t lost_events() const;          // all causes that count events
    std::vector<uint64_t> write_positions() const;
    uint64_t now() const; // on the channel's clock
    void close();
    void unlink();

private:
    unsigned char* base_;
    uint64_t bytes_;
    uint64_t cookie_;
    std::string path_;
};

struct TestRule {
    std::string pattern;
    uint8_t flags = 0;
    uint8_t who = PLUMB_WHO_ALL;
    uint32_t who_id = 0;
    uint8_t log_level = 255;
    std::string executable = {};
    std::vector<uint8_t> condition = {}; // its code; empty: none
    uint8_t log_level_from = 0;
    plumb_rule_cgroup cgroup = {};
};

// The state file. Controllers in several processes may use it at once: edits are under its lock.
class TestState {
public:
    TestState();
    ~TestState();
    TestState(const TestState&) = delete;
    TestState& operator=(const TestState&) = delete;

    plumb_state_header& header() const { return *reinterpret_cast<plumb_state_header*>(base_); }
    plumb_process& slot(uint32_t index) const;
    // The slot of a process, or nullptr.
    plumb_process* slot_of(uint32_t process_id) const;
    uint32_t used_slots() const;

    // Publishes what `change` makes of the current set, signals; returns the generation.
    uint64_t edit(const std::function<void(plumb_rule_set&)>& change);
    // Session `index` is this channel with these rules (none: the session stays, everything is off).
    uint64_t set(uint32_t index, uint64_t cookie, const std::vector<TestRule>& rules);
    uint64_t remove(uint32_t index);
    void signal_all(uint64_t generation) const;
    // Waits until every live process that listens acknowledged; the ids of those that did not in time.
    std::vector<uint32_t> wait(uint64_t generation, uint64_t timeout_ns = 10'000'000'000) const;

private:
    int fd_;
    unsigned char* base_;
};

} // namespace plumb::test
