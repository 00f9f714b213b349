// cmake-once
/* Who was called what, and when, as a statedump tells: of Plumb's programs, and of the kernel. */
#include "trace/trace_names.h"

#include "tests/support/opened_trace.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

using namespace test;

class Names : public testing::Test {
protected:
    Names() {
        for (const char* const name : {"lttng_statedump_process_state", "plumb_statedump_thread"})
            kernel[name] = sample.add("", name,
                                      {integer_field("tid", 4), integer_field("pid", 4),
                                       integer_field("ppid", 4), plain_field("name", PLUMB_FIELD_STRING)});
        other = sample.add("", "lttng_statedump_end", {integer_field("tid", 4)});
    }
    void process(uint64_t at, uint32_t id, uint32_t parent, uint32_t user, std::string_view name,
                 std::string_view path) {
        who.event(ctf_statedump_process, at, id,
                  Payload().add(id).add(parent).add(user).string(name).string(path));
    }
    void thread(uint64_t at, uint32_t process_id, uint32_t id, std::string_view name) {
        who.event(ctf_statedump_thread, at, id, Payload().add(process_id).add(id).string(name));
    }
    /* All events of both statedumps. */
    TraceNames names(uint32_t first_number = 0, const std::vector<NamedTime>& known = {},
                     bool has_repetitions = false) {
        who.end_packet();
        of_kernel.end_packet();
        opened = {sample.text(), {who.bytes(), of_kernel.bytes()}};
        reader = std::make_unique<TraceReader>(std::move(*opened.open()));
        TraceNames all;
        while (const Event* const event = reader->next())
            all.add(*event);
        for (const NamedTime& time : known)
            all.add_named_time(time);
        if (has_repetitions) all.expect_repetitions();
        all.finish(first_number);
        return all;
    }
    SampleMetadata sample;
    SampleStream who{ctf_stream_statedump, 0}, of_kernel{ctf_stream_records, 0};
    std::map<std::string, uint16_t> kernel;
    uint16_t other = 0;
    Opened opened;
    std::unique_ptr<TraceReader> reader;
};

std::string shown(const ThreadSpan& span) {
    if (span.thread == nullptr) return "nobody";
    const auto time = [](int64_t at) {
        return at == INT64_MIN ? "ever" : at == INT64_MAX ? "ever" : std::to_string(at);
    };
    return fmt::format("{} {}/{} from {} until {}", span.thread->name, span.thread->process_id,
                       span.thread->thread_id, time(span.from_ns), time(span.until_ns));
}

TEST_F(Names, HoldFromTheirEntryToTheNext) {
    thread(10, 5, 7, "first");
    thread(20, 5, 7, "second");
    thread(30, 6, 7, "third");
    thread(20, 5, 8, "only");
    const TraceNames all = names();
    EXPECT_EQ(shown(all.find_thread(7, 5)), "first 5/7 from ever until 20")
        << "who wrote before he was told of";
    EXPECT_EQ(shown(all.find_thread(7, 10)), "first 5/7 from ever until 20");
    EXPECT_EQ(shown(all.find_thread(7, 19)), "first 5/7 from ever until 20");
    EXPECT_EQ(shown(all.find_thread(7, 20)), "second 5/7 from 20 until 30");
    EXPECT_EQ(shown(all.find_thread(7, 29)), "second 5/7 from 20 until 30");
    EXPECT_EQ(shown(all.find_thread(7, 30)), "third 6/7 from 30 until ever");
    EXPECT_EQ(shown(all.find_thread(7, INT64_MAX)), "third 6/7 from 30 until ever");
    EXPECT_EQ(shown(all.find_thread(8, 0)), "only 5/8 from ever until ever");
    EXPECT_EQ(shown(all.find_thread(9, 20)), "nobody");
}

/* Which the packets of a statedump tell, each from where the one before it ends. */
TEST_F(Names, OfTheKernelHoldForTheTimesThatAreTold) {
    thread(10, 5, 7, "first");
    thread(20, 5, 7, "second");
    thread(50, 6, 7, "third");
    thread(20, 5, 8, "only");
    const TraceNames all = names(0, {{50, 60}, {10, 30}, {30, 40}});
    EXPECT_EQ(shown(all.find_named_thread(7, 5)), "first 5/7 from ever until 20");
    EXPECT_EQ(shown(all.find_named_thread(7, 20)), "second 5/7 from 20 until 41");
    EXPECT_EQ(shown(all.find_named_thread(7, 40)), "second 5/7 from 20 until 41");
    EXPECT_EQ(shown(all.find_named_thread(7, 50)), "third 6/7 from 50 until 61");
    EXPECT_EQ(shown(all.find_named_thread(7, 60)), "third 6/7 from 50 until 61");
    for (const int64_t nobody : {41, 49, 61}) {
        const ThreadSpan span = all.find_named_thread(7, nobody);
        EXPECT_EQ(span.thread, nullptr);
        EXPECT_EQ(span.from_ns, nobody < 50 ? 41 : 61);
        EXPECT_EQ(span.until_ns, nobody < 50 ? 50 : INT64_MAX);
    }
    EXPECT_EQ(all.find_named_thread(8, 55).thread, nullptr) << "it may be another one behind a gap";
    EXPECT_EQ(shown(all.find_thread(7, 45)), "second 5/7 from 20 until 50") << "a program's events";
}

TEST_F(Names, OfTheKernelAreNotKnownWhereNoTimesAreTold) {
    thread(10, 5, 7, "first");
    EXPECT_EQ(names().find_named_thread(7, 10).thread, nullptr);
}

TEST_F(Names, AreToldOnceMoreBehindAGap) {
    thread(10, 5, 7, "same");
    thread(20, 5, 7, "same");
    thread(50, 5, 7, "same");
    const TraceNames all = names(0, {{10, 40}, {50, 60}}, true);
    EXPECT_EQ(shown(all.find_named_thread(7, 30)), "same 5/7 from ever until 41");
    EXPECT_EQ(shown(all.find_named_thread(7, 55)), "same 5/7 from 50 until 61");
}

/* As a program's own record, of a user whose statedump goes on meanwhile. */
TEST_F(Names, AreToldOnceMoreBehindAGapInWhichTheSameWasTold) {
    thread(10, 5, 7, "same");
    thread(45, 5, 7, "same");
    thread(50, 5, 7, "same");
    const TraceNames all = names(0, {{10, 40}, {50, 60}}, true);
    EXPECT_EQ(all.find_named_thread(7, 45).thread, nullptr);
    EXPECT_EQ(shown(all.find_named_thread(7, 55)), "same 5/7 from 50 until 61");
}

TEST_F(Names, AreInTheOrderOfTheirTimesWhateverThatOfTheFile) {
    const TraceNames all = [&] {
        thread(30, 6, 7, "third");
        process(40, 5, 1, 0, "late", "/late");
        thread(10, 5, 7, "first");
        process(15, 5, 1, 0, "early", "/early");
        return names();
    }();
    EXPECT_EQ(shown(all.find_thread(7, 29)), "first 5/7 from ever until 30");
    EXPECT_EQ(shown(all.find_thread(7, 30)), "third 6/7 from 30 until ever");
    EXPECT_EQ(all.find_process(5, 39)->name, "early");
    EXPECT_EQ(all.find_process(5, 40)->name, "late");
}

TEST_F(Names, OfMainThreadsAreTheirProcessesUnlessTheyHaveTheirOwn) {
    process(10, 5, 1, 1000, "server", "/bin/server");
    process(10, 6, 5, 0, "other", "/bin/other");
    thread(11, 6, 6, "renamed");
    process(50, 5, 2, 1001, "execed", "/bin/execed");
    const TraceNames all = names();
    EXPECT_EQ(shown(all.find_thread(5, 20)), "server 5/5 from ever until 50");
    EXPECT_EQ(shown(all.find_thread(5, 50)), "execed 5/5 from 50 until ever");
    EXPECT_EQ(shown(all.find_thread(6, 0)), "renamed 6/6 from ever until ever");
    const ProcessRecord* const process = all.find_process(5, 20);
    ASSERT_NE(process, nullptr);
    EXPECT_EQ(process->process_id, 5u);
    EXPECT_EQ(process->parent_process_id, 1u);
    EXPECT_EQ(process->user_id, 1000u);
    EXPECT_EQ(process->executable, "/bin/server");
    EXPECT_EQ(all.find_process(5, 60)->user_id, 1001u);
    EXPECT_EQ(all.find_process(5, 60)->parent_process_id, 2u);
    EXPECT_EQ(all.find_process(7, 0), nullptr);
}

TEST_F(Names, AreTheKernelsWhereItTells) {
    const auto tell = [&](const char* event, uint32_t tid, uint32_t pid, uint32_t parent,
                          std::string_view name) {
        of_kernel.event(kernel[event], 10, 0, Payload().add(tid).add(pid).add(parent).string(name));
    };
    tell("lttng_statedump_process_state", 5, 5, 1, "main");
    tell("lttng_statedump_process_state", 6, 5, 1, "worker");
    tell("plumb_statedump_thread", 8, 8, 5, "late");
    of_kernel.event(other, 11, 0, Payload().add(77u));
    const TraceNames all = names();
    EXPECT_EQ(shown(all.find_thread(5, 0)), "main 5/5 from ever until ever");
    EXPECT_EQ(shown(all.find_thread(6, 0)), "worker 5/6 from ever until ever");
    EXPECT_EQ(shown(all.find_thread(8, 0)), "late 8/8 from ever until ever");
    EXPECT_EQ(shown(all.find_thread(77, 0)), "nobody");
    ASSERT_NE(all.find_process(5, 0), nullptr);
    EXPECT_EQ(all.find_process(5, 0)->name, "main");
    EXPECT_EQ(all.find_process(5, 0)->parent_process_id, 1u);
    EXPECT_EQ(all.find_process(5, 0)->user_id, 0u);
    EXPECT_EQ(all.find_process(5, 0)->executable, "");
    EXPECT_EQ(all.find_process(6, 0), nullptr) << "a thread is no process";
    EXPECT_TRUE(all.objects().empty());
}

TEST_F(Names, HaveNumbersOfTheirOwn) {
    process(10, 5, 1, 0, "p", "/p");
    thread(10, 5, 7, "a");
    thread(20, 5, 7, "b");
    thread(20, 5, 8, "c");
    const TraceNames all = names(100);
    EXPECT_EQ(all.next_number(), 104u);
    std::set<uint32_t> numbers;
    for (const auto& [id, at] : {std::pair(5u, 10), std::pair(7u, 10), std::pair(7u, 20), std::pair(8u, 20)})
        numbers.insert(all.find_thread(id, at).thread->number);
    EXPECT_EQ(numbers, (std::set<uint32_t>{100, 101, 102, 103}));
}

TEST_F(Names, KnowObjectsByWhereTheyAre) {
    who.event(ctf_statedump_object, 10, 5,
              Payload()
                  .add(5u)
                  .add(uint64_t{0x700000001000})
                  .add(uint64_t{0x2000})
                  .string("ab01")
                  .string("/lib/x.so"));
    const TraceNames all = names();
    ASSERT_EQ(all.objects().size(), 1u);
    const ObjectRecord& object = all.objects()[0];
    EXPECT_EQ(object.time_ns, 10);
    EXPECT_EQ(object.process_id, 5u);
    EXPECT_EQ(object.base, 0x700000001000u);
    EXPECT_EQ(object.size_bytes, 0x2000u);
    EXPECT_EQ(object.build_id, "ab01");
    EXPECT_EQ(object.path, "/lib/x.so");
}

/* As chunks tell them again. Behind exec() the same object is told by another program. */
TEST_F(Names, ObjectsThatAreToldAgainAreOneUnlessAnotherProgramHasThem) {
    const auto object = [this](uint64_t at) {
        who.event(
            ctf_statedump_object, at, 5,
            Payload().add(5u).add(uint64_t{0x7000}).add(uint64_t{0x2000}).string("ab01").string("/lib/x.so"));
    };
    process(10, 5, 1, 0, "first", "/bin/first");
    object(11);
    process(20, 5, 1, 0, "first", "/bin/first");
    object(21);
    process(30, 5, 1, 0, "second", "/bin/second");
    object(31);
    process(40, 5, 1, 0, "second", "/bin/second");
    object(41);
    const TraceNames all = names(0, {}, true);
    std::vector<int64_t> times;
    for (const ObjectRecord& each : all.objects())
        times.push_back(each.time_ns);
    EXPECT_EQ(times, (std::vector<int64_t>{11, 31}));
}

/* Before 0 there is no thread: nobody asks who that is. Else the answer is that of the time that is asked for, in any order. */
TEST_F(Names, AreTheSameWhoeverAskedBefore) {
    thread(10, 5, 7, "a");
    thread(20, 5, 7, "b");
    thread(10, 5, 7 + 256, "c"); /* for the cache, beside 7 */
    who.event(ctf_statedump_process, 10, 0, Payload().add(0u).add(0u).add(0u).string("swapper").string(""));
    who.end_packet();
    const uint16_t id = sample.add("app", "n", {integer_field("n", 1)});
    std::string wanted, found;
    uint64_t at = 11;
    for (const uint32_t tid : {7, 7, 263, 7, 0, 263}) {
        of_kernel.event(id, at++, tid, Payload().add(uint8_t{0}));
        wanted += tid == 0 ? "? " : tid == 7 ? "a " : "c ";
    }
    of_kernel.event(id, 20, 7, Payload().add(uint8_t{0}));
    of_kernel.event(id, 19, 7, Payload().add(uint8_t{0})); /* as it is when clocks are not quite the same */
    of_kernel.event(id, 21, 7, Payload().add(uint8_t{0}));
    wanted += "b a b ";
    of_kernel.end_packet();
    opened = {sample.text(), {who.bytes(), of_kernel.bytes()}};
    reader = std::make_unique<TraceReader>(std::move(*opened.open()));
    while (const Event* const event = reader->next()) {
        if (event->info->is_statedump) continue;
        const ThreadRecord* const thread = reader->thread_of(*event);
        found += (thread == nullptr ? "?" : thread->name) + " ";
    }
    EXPECT_EQ(found, wanted);
}

} // namespace
} // namespace plumb
