// cmake-once
/* What `plumb contention` says of locks of java.util.concurrent: what is held by others, and not what only waits for something. */
#include "tests/support/sample_trace.h"
#include "trace/answers/lock_contention.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

using test::Payload;
using test::SampleMetadata;
using test::SampleStream;

const char* const reentrant = "java.util.concurrent.locks.ReentrantLock$NonfairSync";

struct ParkTrace {
    ParkTrace() {
        SampleMetadata sample;
        const auto number = [](const char* name) { return test::integer_field(name, 8); };
        const auto class_name = test::plain_field("class_name", PLUMB_FIELD_TEXT);
        park = sample.add("jvm", "park",
                          {number("id"), number("blocker"), class_name, number("synchronizer"),
                           test::plain_field("owner_name", PLUMB_FIELD_TEXT)});
        parked = sample.add(
            "jvm", "parked",
            {number("id"), number("blocker"), class_name, number("synchronizer"), number("waited_ns")});
        metadata = sample.text();
    }
    void wait(uint64_t at, uint32_t tid, uint64_t blocker, const char* class_name, uint64_t synchronizer,
              const char* owner, uint64_t waited_ns) {
        stream.event(park, at, tid,
                     Payload().add(at).add(blocker).text(class_name).add(synchronizer).text(owner));
        stream.event(parked, at + waited_ns, tid,
                     Payload().add(at).add(blocker).text(class_name).add(synchronizer).add(waited_ns));
    }
    uint16_t park = 0, parked = 0;
    std::string metadata;
    SampleStream stream{ctf_stream_records, 0};
};

struct Answer {
    explicit Answer(ParkTrace& trace) {
        trace.stream.end_packet();
        Result<TraceReader> reader = TraceReader::from_memory({trace.metadata, {trace.stream.bytes()}});
        EXPECT_TRUE(reader);
        if (!reader) return;
        LockContention contention(*reader);
        while (const Event* const event = reader->next())
            contention.add(*event);
        has_lock_events = contention.has_lock_events();
        locks = contention.result();
    }
    bool has_lock_events = false;
    std::vector<LockUse> locks;
};

TEST(SynchronizerContention, IsWhatItsEventsSay) {
    ParkTrace trace;
    trace.wait(10, 1, 7, reentrant, 1, "main", 10);
    trace.wait(30, 2, 7, reentrant, 1, "worker", 20);
    trace.wait(60, 1, 7, reentrant, 1, "worker", 5);
    trace.wait(70, 1, 8, "java.util.concurrent.locks.StampedLock", 0, "", 3);
    const Answer answer(trace);
    ASSERT_EQ(answer.locks.size(), 2u);
    EXPECT_EQ(answer.locks[0].kind, LockKind::synchronizer);
    EXPECT_EQ(answer.locks[0].address, 7u);
    EXPECT_EQ(answer.locks[0].class_name, reentrant);
    EXPECT_EQ(answer.locks[0].contended_count, 3u);
    EXPECT_EQ(answer.locks[0].waited_ns, 35u);
    EXPECT_EQ(answer.locks[0].max_waited_ns, 20u);
    EXPECT_EQ(answer.locks[0].thread_count, 2u);
    EXPECT_EQ(answer.locks[0].held.count, 0u);
    EXPECT_EQ(answer.locks[0].busiest_owner, "worker");
    EXPECT_EQ(answer.locks[1].address, 8u);
    EXPECT_EQ(answer.locks[1].waited_ns, 3u);
}

TEST(SynchronizerContention, WaitingForWorkIsNone) {
    ParkTrace trace;
    trace.wait(10, 1, 1, "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject", 0, "",
               1000);
    trace.wait(1100, 1, 0, "", 0, "", 1000);
    trace.wait(2200, 1, 2, "java.util.concurrent.FutureTask", 0, "", 1000);
    trace.wait(3300, 1, 3, "java.util.concurrent.CountDownLatch$Sync", 1, "", 1000);
    const Answer answer(trace);
    EXPECT_FALSE(answer.has_lock_events);
    EXPECT_TRUE(answer.locks.empty());
}

TEST(SynchronizerContention, NamesAreThoseOfTheLocks) {
    EXPECT_EQ(synchronizer_name(reentrant), "ReentrantLock");
    EXPECT_EQ(synchronizer_name("java.util.concurrent.locks.ReentrantLock$FairSync"), "ReentrantLock (fair)");
    EXPECT_EQ(synchronizer_name("java.util.concurrent.locks.ReentrantReadWriteLock$NonfairSync"),
              "ReentrantReadWriteLock");
    EXPECT_EQ(synchronizer_name("java.util.concurrent.Semaphore$NonfairSync"), "Semaphore");
    EXPECT_EQ(synchronizer_name("java.util.concurrent.locks.StampedLock"), "StampedLock");
    EXPECT_EQ(synchronizer_name("com.shop.CartLock$Sync"), "com.shop.CartLock");
    EXPECT_EQ(synchronizer_name("com.shop.Gate"), "com.shop.Gate");
}

} // namespace
} // namespace plumb
