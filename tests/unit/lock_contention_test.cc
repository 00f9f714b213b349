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
        const auto status = test::integer_field("status", 4, true);
        refused = sample.add("pthread", "mutex_unlock_failed", {address("mutex"), status});
        failed = sample.add("pthread", "mutex_lock_failed",
                            {address("mutex"), test::integer_field("waited_ns", 8), status});
        made =
            sample.add("pthread", "mutex_init", {address("mutex"), test::integer_field("kind", 1), status});
        const auto mode = test::integer_field("mode", 1);
        rw_acquired = sample.add("pthread", "rwlock_acquired",
                                 {address("rwlock"), mode, test::integer_field("waited_ns", 8)});
        rw_released = sample.add("pthread", "rwlock_released", {address("rwlock")});
        metadata = sample.text();
    }
    void take(uint64_t at, uint32_t tid, uint64_t lock, uint64_t waited_ns = 0) {
        stream.event(acquired, at, tid, Payload().add(lock).add(waited_ns).add(0));
    }
    void give(uint64_t at, uint32_t tid, uint64_t lock) {
        stream.event(released, at, tid, Payload().add(lock));
    }
    void refuse(uint64_t at, uint32_t tid, uint64_t lock) {
        give(at, tid, lock);
        stream.event(refused, at + 1, tid, Payload().add(lock).add(1));
    }
    void wait_for(uint64_t at, uint32_t tid, uint64_t lock) {
        stream.event(wait, at, tid, Payload().add(lock).add(uint64_t{0x77}));
    }
    void make(uint64_t at, uint64_t lock, uint8_t kind) {
        stream.event(made, at, 1, Payload().add(lock).add(kind).add(0));
    }
    void take_rw(uint64_t at, uint32_t tid, bool write, uint64_t waited_ns = 0) {
        stream.event(rw_acquired, at, tid,
                     Payload().add(lock_a).add(static_cast<uint8_t>(write)).add(waited_ns));
    }
    void give_rw(uint64_t at, uint32_t tid) { stream.event(rw_released, at, tid, Payload().add(lock_a)); }
    /* Of the only lock. */
    LockUse only() {
        const std::vector<LockUse> locks = result();
        EXPECT_EQ(locks.size(), 1u);
        return locks.empty() ? LockUse() : locks[0];
    }
    std::vector<LockUse> result() {
        stream.end_packet();
        Result<TraceReader> reader = TraceReader::from_memory({metadata, {stream.bytes()}});
        if (!reader) return {};
        LockContention contention(*reader);
        while (const Event* const event = reader->next())
            contention.add(*event);
        unreadable = contention.unreadable_count();
        return contention.result();
    }

    std::string metadata;
    uint16_t wait, acquired, released, refused, failed, made, rw_acquired, rw_released;
    uint64_t unreadable = 0;
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
    EXPECT_EQ(locks[0].held.total_ns, 50u + 30u);
    EXPECT_EQ(locks[0].held.max_ns, 50u);
    EXPECT_EQ(locks[0].thread_count, 2u);
    EXPECT_EQ(locks[0].busiest_caller, 0x77u);
    EXPECT_EQ(locks[1].held.total_ns, 90u);
    EXPECT_EQ(locks[1].busiest_caller, 0u);
}

TEST(LockContention, WhatWasWaitedForLongestIsFirstAndThenWhatWasTakenMostOften) {
    constexpr uint64_t lock_c = 0x3000, lock_d = 0x4000;
    Trace trace;
    for (uint64_t i = 0; i < 3; i++) {
        if (i == 2) trace.wait_for(118, 1, lock_a);
        trace.take(100 + 10 * i, 1, lock_a, i == 2 ? 5 : 0);
        trace.give(105 + 10 * i, 1, lock_a);
    }
    trace.take(200, 1, lock_c);
    trace.take(210, 1, lock_d);
    trace.give(220, 1, lock_d);
    trace.take(230, 1, lock_d);
    trace.wait_for(235, 1, lock_b);
    trace.take(240, 1, lock_b, 40);
    std::vector<uint64_t> order;
    for (const LockUse& use : trace.result())
        order.push_back(use.address);
    EXPECT_EQ(order, (std::vector<uint64_t>{lock_b, lock_a, lock_d, lock_c}));
}

TEST(LockContention, CountsTheLastHoldOfALockThatIsMadeAnew) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.give(150, 1, lock_a);
    trace.make(160, lock_a, 0);
    trace.take(170, 1, lock_a);
    trace.give(190, 1, lock_a);
    trace.make(200, lock_a, 0);
    const LockUse use = trace.only();
    EXPECT_EQ(use.held.count, 2u);
    EXPECT_EQ(use.held.total_ns, 50u + 20u);
    EXPECT_EQ(use.held.max_ns, 50u);
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
    EXPECT_EQ(locks[0].held.max_ns, 100u);
}

TEST(LockContention, DoesNotTakeALostReleaseForALongHold) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.take(100000, 2, lock_a); /* the release of thread 1 was lost */
    trace.give(100010, 2, lock_a);
    trace.give(100020, 1, lock_a); /* of an acquisition that is not known any more */
    const std::vector<LockUse> locks = trace.result();
    ASSERT_EQ(locks.size(), 1u);
    EXPECT_EQ(locks[0].held.total_ns, 10u);
}

TEST(LockContention, DoesNotTakeALostReleaseForRecursion) {
    for (const bool waited : {false, true}) {
        Trace trace;
        if (!waited) trace.make(90, lock_a, 0);
        trace.take(100, 1, lock_a); /* and its release was lost */
        if (waited) trace.wait_for(900, 1, lock_a);
        trace.take(1000, 1, lock_a, 1);
        trace.give(1010, 1, lock_a);
        const LockUse lock = trace.only();
        EXPECT_EQ(lock.held.count, 1u);
        EXPECT_EQ(lock.held.total_ns, 10u);
    }
}

TEST(LockContention, DividesByTheHoldsThatEnded) {
    Trace trace;
    trace.give(90, 1, lock_a); /* taken before the recording, or by the parent */
    for (uint64_t i = 0; i < 5; ++i)
        trace.take(100 + i, 1, lock_a);
    for (uint64_t i = 0; i < 5; ++i)
        trace.give(200 + i, 1, lock_a);
    trace.take(300, 1, lock_a); /* and held until the end */
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.released_count, 6u);
    EXPECT_EQ(lock.held.count, 1u);
    EXPECT_EQ(lock.held.total_ns, 104u);
}

TEST(LockContention, ARefusedReleaseEndsNoHold) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.refuse(110, 2, lock_a);
    trace.refuse(120, 1, lock_a);
    trace.refuse(130, 3, lock_a);
    trace.give(200, 1, lock_a);
    trace.refuse(300, 1, lock_a);
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.released_count, 1u);
    EXPECT_EQ(lock.held.count, 1u);
    EXPECT_EQ(lock.held.total_ns, 100u);
}

TEST(LockContention, ARefusalMayCrossTheNextHold) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.give(150, 2, lock_a);
    trace.give(160, 1, lock_a);
    trace.take(160, 3, lock_a);
    trace.stream.event(trace.refused, 170, 2, Payload().add(lock_a).add(1));
    trace.give(200, 3, lock_a);
    trace.take(210, 1, lock_a); /* whose release was not refused */
    trace.give(211, 1, lock_a);
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.released_count, 3u);
    EXPECT_EQ(lock.held.count, 3u);
    EXPECT_EQ(lock.held.total_ns, 60u + 40u + 1u);
}

TEST(LockContention, AReleaseByAnotherThreadEndsTheHold) {
    Trace trace;
    for (uint64_t i = 0; i < 200; ++i) { /* each by a thread that is not seen again */
        trace.take(1000 * i, 1, lock_a);
        trace.give(1000 * i + 10, static_cast<uint32_t>(100 + i), lock_a);
    }
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.held.count, 200u);
    EXPECT_EQ(lock.held.total_ns, 2000u);
    EXPECT_EQ(lock.held.max_ns, 10u);
}

/* Thread 2 waited on a condition when the recording began, and so it was not seen to take the mutex again. */
TEST(LockContention, WhoWasNotSeenToTakeALockDoesNotLengthenTheHoldBeforeHis) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.give(120, 1, lock_a);
    trace.give(1000, 2, lock_a);
    trace.take(1100, 2, lock_a);
    trace.give(1130, 2, lock_a);
    const LockUse use = trace.only();
    EXPECT_EQ(use.held.count, 2u);
    EXPECT_EQ(use.held.total_ns, 20u + 30u);
    EXPECT_EQ(use.held.max_ns, 30u);
}

TEST(LockContention, NobodyElseReleasesAMutexThatChecks) {
    for (const uint8_t kind : {uint8_t{1}, uint8_t{2}}) {
        Trace trace;
        trace.make(90, lock_a, kind);
        trace.take(100, 1, lock_a);
        trace.give(110, 2, lock_a); /* whose refusal was lost */
        trace.give(200, 1, lock_a);
        EXPECT_EQ(trace.only().held.total_ns, 100u);
    }
}

/* Normal, recursive, errorcheck, adaptive, and what may come: another thread may release it, its holder may take it again. */
TEST(LockContention, KnowsTheNatureThatAMutexWasMadeOf) {
    const std::tuple<uint8_t, uint64_t, uint64_t> natures[] = {
        {0, 5, 2}, {1, 0, 12}, {2, 0, 2}, {3, 5, 2}, {4, 5, 12}};
    for (const auto& [kind, released_by_another_ns, taken_again_ns] : natures) {
        Trace other, again;
        other.make(5, lock_a, kind);
        other.take(10, 1, lock_a);
        other.give(15, 2, lock_a);
        EXPECT_EQ(other.only().held.total_ns, released_by_another_ns) << int{kind};
        again.make(5, lock_a, kind);
        again.take(10, 1, lock_a);
        again.take(20, 1, lock_a);
        again.give(22, 1, lock_a);
        again.stream.event(again.wait, 22, 1, Payload().add(lock_b).add(uint64_t{0}));
        again.give(22, 1, lock_a);
        const std::vector<LockUse> locks = again.result();
        ASSERT_EQ(locks.size(), 2u);
        EXPECT_EQ(locks[0].held.total_ns, taken_again_ns) << int{kind};
    }
}

/* What a thread does next with the lock shows that its release was none that is refused. */
TEST(LockContention, WhoGoesOnWasNotRefused) {
    for (const bool waits : {false, true}) {
        Trace trace;
        trace.take(10, 1, lock_a);
        trace.give(15, 1, lock_a);
        if (waits)
            trace.wait_for(16, 1, lock_a);
        else
            trace.stream.event(trace.failed, 16, 1, Payload().add(lock_a).add(uint64_t{0}).add(16));
        trace.stream.event(trace.refused, 17, 1, Payload().add(lock_a).add(1));
        EXPECT_EQ(trace.only().held.count, 1u) << waits;
    }
}

/* Each kind has its own events of waiting, or none. */
TEST(LockContention, KnowsEachKindOfLock) {
    EXPECT_STREQ(lock_kind_name(LockKind::mutex), "mutex");
    EXPECT_STREQ(lock_kind_name(LockKind::rwlock), "rwlock");
    EXPECT_STREQ(lock_kind_name(LockKind::spin), "spin");
    for (const bool has_waits : {false, true}) {
        SampleMetadata sample;
        std::vector<uint16_t> acquired;
        for (const std::string kind : {"mutex", "rwlock", "spin"}) {
            acquired.push_back(sample.add("pthread", kind + "_acquired",
                                          {test::integer_field(kind, 8), test::integer_field("waited_ns", 8),
                                           test::integer_field("mode", 1)}));
            if (has_waits && kind != "rwlock")
                sample.add("pthread", kind + "_wait", {test::integer_field(kind, 8)});
        }
        sample.add("pthread", "mutex_other", {test::integer_field("mutex", 8)});
        sample.add("other", "mutex_acquired", {test::integer_field("mutex", 8)});
        const uint16_t nameless = sample.add("pthread", "spin_released", {test::integer_field("mutex", 8)});
        SampleStream stream(ctf_stream_records, 0);
        for (uint64_t i = 0; i < 3; i++)
            stream.event(acquired[i], 10 + i, 1,
                         Payload().add(0x100 * (i + 1)).add(uint64_t{1}).add(uint8_t{1}));
        for (uint16_t id = static_cast<uint16_t>(nameless - 2); id <= nameless; id++)
            stream.event(id, 20, 1, Payload().add(uint64_t{0x900}));
        stream.end_packet();
        const std::string metadata = sample.text();
        Result<TraceReader> reader = TraceReader::from_memory({metadata, {stream.bytes()}});
        ASSERT_TRUE(reader);
        LockContention contention(*reader);
        while (const Event* const event = reader->next())
            contention.add(*event);
        std::string all;
        for (const LockUse& use : contention.result())
            all += fmt::format("{} {:x} {} {} ", lock_kind_name(use.kind), use.address, use.contended_count,
                               use.waited_ns);
        EXPECT_EQ(all, has_waits ? "rwlock 200 1 1 mutex 100 0 0 spin 300 0 0 "
                                 : "mutex 100 1 1 rwlock 200 1 1 spin 300 1 1 ");
        EXPECT_EQ(contention.unreadable_count(), 0u);
    }
}

TEST(LockContention, ReadersHoldTogetherAndAWriterEndsWhatWasLost) {
    Trace trace;
    trace.take_rw(100, 1, false);
    trace.take_rw(110, 2, false);
    trace.give_rw(115, 3); /* taken before the recording: not theirs */
    trace.give_rw(120, 1);
    trace.take_rw(900, 4, true);  /* the release of 2 was lost */
    trace.take_rw(1000, 4, true); /* nobody writes twice */
    trace.give_rw(1001, 4);
    trace.take_rw(1100, 5, false);
    trace.give_rw(1102, 5);
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.held.count, 3u);
    EXPECT_EQ(lock.held.total_ns, 20u + 1u + 2u);
}

TEST(LockContention, TheTimeOfACallIsNoWait) {
    Trace trace;
    trace.take(100, 1, lock_a, 30); /* robust: never tried first */
    trace.give(110, 1, lock_a);
    trace.wait_for(120, 1, lock_a);
    trace.take(160, 1, lock_a, 40);
    trace.give(170, 1, lock_a);
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.contended_count, 1u);
    EXPECT_EQ(lock.waited_ns, 40u);
}

TEST(LockContention, WithoutEventsOfWaitingTheTimeCounts) {
    Trace trace; /* it has none of read/write locks */
    trace.take_rw(100, 1, true, 30);
    trace.take_rw(100, 1, true, 0);
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.contended_count, 1u);
    EXPECT_EQ(lock.waited_ns, 30u);
}

TEST(LockContention, AWaitInVainIsAWait) {
    Trace trace;
    trace.wait_for(100, 2, lock_a);
    trace.stream.event(trace.failed, 150, 2, Payload().add(lock_a).add(uint64_t{50}).add(110));
    trace.stream.event(trace.failed, 160, 2, Payload().add(lock_a).add(uint64_t{9}).add(35)); /* EDEADLK */
    const LockUse lock = trace.only();
    EXPECT_EQ(lock.acquired_count, 0u);
    EXPECT_EQ(lock.contended_count, 1u);
    EXPECT_EQ(lock.in_vain_count, 1u);
    EXPECT_EQ(lock.waited_ns, 50u);
    EXPECT_EQ(lock.max_waited_ns, 50u);
}

TEST(LockContention, CountsWhatItCanNotRead) {
    Trace trace;
    trace.take(100, 1, lock_a);
    trace.stream.event(trace.acquired, 110, 1, Payload().add(lock_b));
    trace.stream.event(trace.acquired, 120, 1, Payload().add(uint32_t{1}));
    EXPECT_EQ(trace.result().size(), 1u);
    EXPECT_EQ(trace.unreadable, 2u);
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
    const Event* const event = reader->next();
    return Symbols().name_at(reader->names_of(*event), process_id, address, event->time_ns);
}

TEST(Symbols, NamesStaticMemoryAndCode) {
    const auto address = reinterpret_cast<uint64_t>(&a_lock_of_this_test);
    EXPECT_THAT(name_of(address), ::testing::HasSubstr("a_lock_of_this_test"));
    EXPECT_THAT(name_of(address + 4), ::testing::EndsWith("::a_lock_of_this_test+0x4"));
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
