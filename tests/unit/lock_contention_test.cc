// cmake-once
/* What `plumb contention` promises: counts and times of each lock are those of its events, and addresses get
 * the names that the traced files give them. */
#include "tests/support/sample_trace.h"
#include "trace/answers/lock_contention.h"
#include "trace/symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

namespace plumb {
namespace {

using test::Payload;
using test::SampleMetadata;
using test::SampleStream;

constexpr uint64_t lock_a = 0x1000, lock_b = 0x2000;

struct Trace {
    Trace() {
        SampleMetadata sample;
        const auto address = [](const char* name) { return test::integer_field(name, 8, false, true); };
        wait = sample.add("pthread", "mutex_wait", {address("mutex"), address("caller")});
        acquired = sample.add(
            "pthread", "mutex_acquired",
            {address("mutex"), test::integer_field("waited_ns", 8), test::integer_field("status", 4, true)});
        released = sample.add("pthread", "mutex_released", {address("mutex")});
        metadata = sample.text();
    }
    void take(uint64_t at, uint32_t tid, uint64_t lock, uint64_t waited_ns = 0) {
        stream.event(acquired, at, tid, Payload().add(lock).add(waited_ns).add(0));
    }
    void give(uint64_t at, uint32_t tid, uint64_t lock) {
        stream.event(released, at, tid, Payload().add(lock));
    }
    std::vector<LockUse> result() {
        stream.end_packet();
        Result<TraceReader> reader = TraceReader::from_memory({metadata, {stream.bytes()}});
        if (!reader) return {};
        LockContention contention(*reader);
        while (const Event* const event = reader->next())
            contention.add(*event);
        return contention.result();
    }

    std::string metadata;
    uint16_t wait, acquired, released;
    SampleStream stream{ctf_stream_records, 0};
};

TEST(LockContention, CountsAndMeasuresEachLock) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.take(110, 2, lock_b);
    trace.stream.event(trace.wait, 120, 2, Payload().add(lock_a).add(uint64_t{0x77}));
    trace.give(150, 1, lock_a);
    trace.take(160, 2, lock_a, 40);
    trace.give(190, 2, lock_a);
    trace.give(200, 2, lock_b);
    const std::vector<LockUse> locks = trace.result();
    ASSERT_EQ(locks.size(), 2u);
    EXPECT_EQ(locks[0].address, lock_a) << "the one that was waited for is first";
    EXPECT_EQ(locks[0].acquired_count, 2u);
    EXPECT_EQ(locks[0].contended_count, 1u);
    EXPECT_EQ(locks[0].waited_ns, 40u);
    EXPECT_EQ(locks[0].held_ns, 50u + 30u);
    EXPECT_EQ(locks[0].max_held_ns, 50u);
    EXPECT_EQ(locks[0].thread_count, 2u);
    EXPECT_EQ(locks[0].busiest_caller, 0x77u);
    EXPECT_EQ(locks[1].held_ns, 90u);
    EXPECT_EQ(locks[1].busiest_caller, 0u);
}

TEST(LockContention, NamesTheCallerThatWaitedMostAndOfSeveralTheFirst) {
    const auto busiest_of = [](std::initializer_list<uint64_t> callers) {
        Trace trace;
        uint64_t at = 100;
        for (const uint64_t caller : callers)
            trace.stream.event(trace.wait, at++, 2, Payload().add(lock_a).add(caller));
        const std::vector<LockUse> locks = trace.result();
        return locks.size() == 1 ? locks[0].busiest_caller : 0;
    };
    EXPECT_EQ(busiest_of({3, 1, 2}), 1u);
    EXPECT_EQ(busiest_of({9, 9, 1, 2}), 9u);
    EXPECT_EQ(busiest_of({1, 9, 9, 20, 2}), 9u);
    EXPECT_EQ(busiest_of({1, 1, 9, 9, 20}), 1u);
    EXPECT_EQ(busiest_of({9, 8, 8, 7, 8, 9, 7, 9, 7}), 7u);
}

TEST(LockContention, CountsEachThreadOnce) {
    Trace trace;
    uint64_t at = 100;
    for (const uint32_t tid : {5u, 3u, 7u, 3u, 5u, 9u, 7u, 4u, 1u}) {
        trace.take(at, tid, lock_a);
        trace.give(at + 1, tid, lock_a);
        at += 10;
    }
    const std::vector<LockUse> locks = trace.result();
    ASSERT_EQ(locks.size(), 1u);
    EXPECT_EQ(locks[0].acquired_count, 9u);
    EXPECT_EQ(locks[0].thread_count, 6u);
}

TEST(LockContention, HoldsARecursiveLockUntilItsLastRelease) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.take(110, 1, lock_a);
    trace.give(120, 1, lock_a);
    trace.give(200, 1, lock_a);
    const std::vector<LockUse> locks = trace.result();
    ASSERT_EQ(locks.size(), 1u);
    EXPECT_EQ(locks[0].max_held_ns, 100u);
}

TEST(LockContention, DoesNotTakeALostReleaseForALongHold) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.take(100000, 2, lock_a); /* the release of thread 1 was lost */
    trace.give(100010, 2, lock_a);
    trace.give(100020, 1, lock_a); /* of an acquisition that is not known any more */
    const std::vector<LockUse> locks = trace.result();
    ASSERT_EQ(locks.size(), 1u);
    EXPECT_EQ(locks[0].held_ns, 10u);
}

__attribute__((used)) int a_lock_of_this_test[4];

/* This program as the statedump would tell of it. */
struct SelfAsObject {
    uint64_t base = 0, end = 0;
    std::string path;
    SelfAsObject() {
        dl_iterate_phdr(
            [](dl_phdr_info* info, std::size_t, void* self_pointer) {
                auto* const self = static_cast<SelfAsObject*>(self_pointer);
                self->base = ~uint64_t{0};
                for (int i = 0; i < info->dlpi_phnum; i++) {
                    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
                    const uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                    self->base = std::min(self->base, start & ~uint64_t{4095});
                    self->end = std::max(self->end, start + info->dlpi_phdr[i].p_memsz);
                }
                return 1; /* the first is the program */
            },
            this);
        char buffer[4096];
        const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
        path.assign(buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
};

std::string name_of(uint64_t address, const std::string& build_id = "", uint32_t process_id = 10) {
    const SelfAsObject self;
    SampleMetadata sample;
    SampleStream who(ctf_stream_statedump, 0);
    who.event(ctf_statedump_process, 1, 20,
              Payload().add(20u).add(10u).add(0u).string("child").string(self.path));
    who.event(ctf_statedump_object, 1, 10,
              Payload().add(10u).add(self.base).add(self.end - self.base).string(build_id).string(self.path));
    who.end_packet();
    const std::string metadata = sample.text();
    Result<TraceReader> reader = TraceReader::from_memory({metadata, {who.bytes()}});
    if (!reader) return reader.error().message();
    return Symbols(reader->names()).name_at(process_id, address);
}

TEST(Symbols, NamesStaticMemoryAndCode) {
    const auto address = reinterpret_cast<uint64_t>(&a_lock_of_this_test);
    EXPECT_THAT(name_of(address), ::testing::HasSubstr("a_lock_of_this_test"));
    EXPECT_THAT(name_of(address + 4), ::testing::EndsWith("a_lock_of_this_testE+0x4"));
    EXPECT_THAT(name_of(address, "", 20), ::testing::HasSubstr("a_lock_of_this_test"))
        << "a child's is its parent's";
}

TEST(Symbols, GivesObjectAndOffsetForAnotherFile) {
    const SelfAsObject self;
    const auto address = reinterpret_cast<uint64_t>(&a_lock_of_this_test);
    EXPECT_THAT(name_of(address, "00112233"),
                ::testing::EndsWith(fmt::format("+0x{:x}", address - self.base)));
}

TEST(Symbols, GivesTheAddressForTheHeap) {
    EXPECT_EQ(name_of(0x10), "0x10");
}

} // namespace
} // namespace plumb
