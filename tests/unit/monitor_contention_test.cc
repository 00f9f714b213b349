// cmake-once
/* What `plumb contention` says of the monitors of Java: waits alone, since the JVM tells of nothing else. */
#include "tests/support/sample_trace.h"
#include "trace/answers/lock_contention.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

using test::Payload;
using test::SampleMetadata;
using test::SampleStream;

struct MonitorTrace {
    MonitorTrace() {
        SampleMetadata sample;
        const auto number = [](const char* name) { return test::integer_field(name, 8); };
        enter =
            sample.add("jvm", "monitor_contended_enter",
                       {number("id"), number("monitor"), test::plain_field("class_name", PLUMB_FIELD_TEXT),
                        test::plain_field("owner_name", PLUMB_FIELD_TEXT)});
        entered = sample.add("jvm", "monitor_contended_entered",
                             {number("id"), number("monitor"),
                              test::plain_field("class_name", PLUMB_FIELD_TEXT), number("waited_ns")});
        metadata = sample.text();
    }
    void wait(uint64_t at, uint32_t tid, uint64_t monitor, const char* owner) {
        stream.event(enter, at, tid, Payload().add(at).add(monitor).text("Cart").text(owner));
    }
    void take(uint64_t at, uint32_t tid, uint64_t monitor, uint64_t waited_ns) {
        stream.event(entered, at, tid, Payload().add(at).add(monitor).text("Cart").add(waited_ns));
    }
    uint16_t enter = 0, entered = 0;
    std::string metadata;
    SampleStream stream{ctf_stream_records, 0};
};

TEST(MonitorContention, IsWhatItsEventsSay) {
    MonitorTrace trace;
    trace.take(5, 9, 7, 0); /* began to wait before the recording */
    trace.wait(10, 1, 7, "main");
    trace.wait(11, 2, 7, "worker");
    trace.take(20, 1, 7, 10);
    trace.take(31, 2, 7, 20);
    trace.wait(40, 1, 7, "worker");
    trace.take(45, 1, 7, 5);
    trace.wait(50, 1, 8, "");
    trace.stream.end_packet();
    Result<TraceReader> reader = TraceReader::from_memory({trace.metadata, {trace.stream.bytes()}});
    ASSERT_TRUE(reader);
    LockContention contention(*reader);
    while (const Event* const event = reader->next())
        contention.add(*event);
    const std::vector<LockUse> locks = contention.result();
    ASSERT_EQ(locks.size(), 2u);
    EXPECT_EQ(locks[0].kind, LockKind::monitor);
    EXPECT_EQ(locks[0].address, 7u);
    EXPECT_EQ(locks[0].class_name, "Cart");
    EXPECT_EQ(locks[0].contended_count, 3u);
    EXPECT_EQ(locks[0].waited_ns, 35u);
    EXPECT_EQ(locks[0].max_waited_ns, 20u);
    EXPECT_EQ(locks[0].held.count, 0u);
    EXPECT_EQ(locks[0].busiest_owner, "worker");
    EXPECT_EQ(locks[0].busiest_owner_count, 2u);
    EXPECT_EQ(locks[1].contended_count, 0u); /* it waits still */
    EXPECT_EQ(locks[1].busiest_owner_count, 0u);
}

} // namespace
} // namespace plumb
