// A sink that takes everything and keeps nothing; tests say what they want to see.
#pragma once

#include "consumerd/sink/sink.h"

namespace plumb::test {

class IdleSink : public Sink {
public:
    Status write_metadata(const plumb_clock_page&, const std::deque<ChannelEvent>&) override { return ok(); }
    Status write_records(uint32_t, const Piece&, uint64_t, uint64_t) override { return ok(); }
    Status write_losses(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override { return ok(); }
    Status write_entries(std::vector<ChannelEntry>&) override { return ok(); }
    Status write_kernel_statedump(std::span<const std::byte>) override { return ok(); }
    Status check() const override { return ok(); }
    void begin_end() override {}
    Status close(uint32_t) override { return ok(); }
    Status close_statedump() override { return ok(); }
    const TraceIdentity& identity() const override { return identity_; }
    uint64_t bytes() const override { return 0; }
    uint64_t packets() const override { return 0; }

private:
    TraceIdentity identity_;
};

} // namespace plumb::test
