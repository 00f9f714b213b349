// A source of the kernel's events over a directory that looks like tracefs.
#pragma once

#include "consumerd/drain/kernel_source.h"
#include "tests/support/tracefs_folder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace plumb::test {

class KernelSourceTest : public testing::Test {
protected:
    /* Events of these threads, one each. */
    static std::vector<std::byte> page(uint64_t time, std::vector<uint32_t> threads, uint64_t flags = 0) {
        PageBuilder builder(time);
        for (const uint32_t thread : threads)
            builder.event(1, TracefsFolder::number_event(thread, thread));
        return builder.page(flags);
    }
    void open(KernelDrainOptions options = {}) {
        auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
        ASSERT_TRUE(session) << session.error().message();
        session_ = std::move(*session);
        options.clock.mode = PLUMB_CLOCK_MONOTONIC;
        auto source = KernelSource::make(*session_, std::move(options));
        ASSERT_TRUE(source) << source.error().message();
        source_ = std::move(*source);
    }
    /* Whose records the next piece of a ring has. */
    std::vector<uint32_t> next(size_t ring) {
        std::vector<uint32_t> threads;
        if (const auto piece = source_->next(ring, ReadWhat::everything)) {
            for_each_record(*piece, [&](const plumb_record& record) { threads.push_back(record.thread_id); });
            EXPECT_EQ(piece->record_count, threads.size());
        }
        return threads;
    }

    TracefsFolder tracefs_;
    std::unique_ptr<KernelSession> session_;
    std::unique_ptr<KernelSource> source_;
};

} // namespace plumb::test
