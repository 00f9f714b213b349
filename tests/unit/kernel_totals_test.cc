// cmake-once
// What a recording of the kernel counts, by the kernel's own numbers and by the pages that it gave; over a directory that looks
// like tracefs.
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "tests/support/idle_sink.h"
#include "tests/support/kernel_source_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace plumb {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr uint64_t second_ns = 1'000'000'000;

std::map<std::string, uint64_t> by_name(const std::vector<NamedCount>& counts) {
    std::map<std::string, uint64_t> map;
    for (const NamedCount& each : counts)
        map[each.name] = each.count;
    return map;
}

class KernelTotals : public KernelSourceTest {
protected:
    DrainTotals totals(uint64_t not_written = 0) const {
        DrainTotals totals;
        source_->add_to(totals, not_written);
        return totals;
    }
    void read_all() {
        for (size_t ring = 0; ring < source_->rings().size(); ring++) {
            while (source_->next(ring, ReadWhat::everything)) {
            }
            source_->leave(ring);
        }
        IdleSink sink;
        EXPECT_TRUE(source_->end(sink));
    }
};

} // namespace

TEST_F(KernelTotals, AreTheKernelsOwnOfAllCpus) {
    tracefs_.add_cpu(0, {page(1000, {1, 2})});
    tracefs_.add_cpu(1, {page(1000, {3})});
    open();
    tracefs_.set_counts(0, 10, 3, 2, 4);
    tracefs_.set_counts(1, 100, 50, 1);
    read_all();
    EXPECT_THAT(by_name(totals(9).events_lost),
                UnorderedElementsAre(Pair("kernel_overrun", 110), Pair("kernel_dropped", 57),
                                     Pair("kernel_not_written", 9)));
    EXPECT_EQ(totals().kernel_events_read, 3u);
    EXPECT_THAT(totals().missed, IsEmpty());
    EXPECT_THAT(totals().notes, IsEmpty());
    EXPECT_EQ(source_->losses(0).events, 10u + 7);
    EXPECT_EQ(source_->losses(1).events, 150u);
    EXPECT_EQ(source_->losses(0).subbufs, 0u);
}

/* Another tool has read the buffers, or emptied them. */
TEST_F(KernelTotals, SayWhereTheKernelCountsOtherEventsThanItGave) {
    for (const uint64_t counted : {1u, 3u, 7u}) {
        TracefsFolder folder;
        folder.add_cpu(0, {page(1000, {1, 2, 3})});
        auto session = KernelSession::adopt_in(folder.root(), TracefsFolder::cookie);
        ASSERT_TRUE(session);
        session_ = std::move(*session);
        KernelDrainOptions options;
        options.clock.mode = PLUMB_CLOCK_MONOTONIC;
        source_ = std::move(*KernelSource::make(*session_, options));
        folder.set_counts(0, 0, 0, counted);
        read_all();
        const std::map<std::string, uint64_t> taken{{kernel_events_taken, 4}}, gone{{kernel_counts_gone, 2}},
            none;
        EXPECT_EQ(by_name(totals().missed), counted == 7 ? taken : none);
        EXPECT_EQ(by_name(totals().notes), counted == 1 ? gone : none);
        source_.reset();
    }
}

/* What pages tell of, before the kernel's own number is looked at. */
TEST_F(KernelTotals, HaveWhatPagesTellOfWhereTheyStand) {
    const auto told = [](uint64_t time, std::vector<uint32_t> threads, uint64_t count) {
        std::vector<std::byte> page = KernelTotals::page(time, std::move(threads), missed | stored);
        const auto bytes = std::as_bytes(std::span(&count, 1));
        page.insert(page.end(), bytes.begin(), bytes.end());
        return page;
    };
    tracefs_.add_cpu(0, {page(1000, {1}), told(2000, {2}, 5), told(3000, {3}, 4)});
    open();
    for (const uint64_t lost : {0u, 5u, 9u}) {
        const auto piece = source_->next(0, ReadWhat::everything);
        ASSERT_TRUE(piece);
        EXPECT_EQ(piece->lost_events, lost);
        EXPECT_EQ(source_->losses(0).events, lost);
    }
    tracefs_.set_counts(0, 8, 0, 3);
    read_all();
    EXPECT_EQ(source_->losses(0).events, 9u) << "the larger of two that count the same";
    EXPECT_THAT(by_name(totals().events_lost), ElementsAre(Pair("kernel_overrun", 9)));
}

TEST_F(KernelTotals, CountPagesThatAreDamaged) {
    const std::vector<std::byte> damaged = PageBuilder(2500).page_with_commit(TracefsFolder::page_bytes);
    tracefs_.add_cpu(0, {page(1000, {1}), damaged, page(2000, {2}), damaged});
    open();
    tracefs_.set_counts(0, 0, 0, 2);
    read_all();
    EXPECT_THAT(by_name(totals().missed), ElementsAre(Pair("pages of the kernel's buffers were damaged", 2)));
    EXPECT_EQ(source_->counts()[42], 2u);
}

/* Raw, as the kernel gave them, for whoever wants to read them again. */
TEST_F(KernelTotals, PagesAreKeptAsTheyWereRead) {
    const auto content = [](const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    std::vector<std::vector<std::byte>> many;
    for (uint64_t i = 0; i < 150; i++)
        many.push_back(page(1000 + i, {static_cast<uint32_t>(i)}));
    tracefs_.add_cpu(0, many);
    tracefs_.add_cpu(1, {page(1000, {7})});
    KernelDrainOptions options;
    options.pages_directory = tracefs_.root() + "/pages";
    open(options);
    read_all();
    for (const int cpu : {0, 1})
        EXPECT_EQ(content(fmt::format("{}/pages/cpu{}", tracefs_.root(), cpu)),
                  content(fmt::format("{}/per_cpu/cpu{}/trace_pipe_raw", tracefs_.instance(), cpu)));
    EXPECT_EQ(source_->counts()[42], 151u);
    EXPECT_EQ(totals().kernel_events_read, 0u);
    auto again = KernelSource::make(*session_, options);
    ASSERT_FALSE(again) << "files that are there stay";
    EXPECT_THAT(again.error().message(), HasSubstr("/pages/cpu0"));
}

TEST_F(KernelTotals, SayWhatALimitOfDescriptorsForbids) {
    tracefs_.add_cpu(0, {});
    auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
    ASSERT_TRUE(session);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::dup(0);
    ::close(next);
    std::vector<std::string> said;
    for (rlim_t room = 0; said.empty() || !said.back().empty(); room++) {
        ASSERT_LT(room, 10u);
        const rlimit limit{static_cast<rlim_t>(next) + room, before.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &limit);
        const auto source = KernelSource::make(**session, {});
        ::setrlimit(RLIMIT_NOFILE, &before);
        const std::string message = source ? "" : source.error().message();
        if (said.empty() || said.back() != message) said.push_back(message);
    }
    EXPECT_THAT(said,
                ElementsAre("Could not make an event descriptor: Too many open files.",
                            HasSubstr("trace_pipe_raw: Too many open files"),
                            "Could not make a pipe for the events of CPU 0: Too many open files. `ulimit "
                            "-n` must allow three descriptors for each CPU.",
                            ""));
}

/* By the clock of the records, from the kernel's of the time that it was suspended in as well. */
TEST(KnownThreads, BeganWhenTheirProcessSays) {
    const uint64_t boottime_ns = boottime_now_ns();
    KernelStatedump dump;
    dump.threads[11].process_id = 10;
    dump.threads[11].began_boottime_ns = boottime_ns - 5 * second_ns;
    dump.threads[12].process_id = 12;
    dump.threads[12].began_boottime_ns = boottime_ns + 3600 * second_ns; /* not yet */
    dump.threads[13].process_id = 10;
    dump.threads[13].began_boottime_ns = 0;
    const auto began = [&](plumb_clock_mode mode, uint64_t hz, uint64_t now) {
        plumb_clock_page clock{};
        clock.mode = mode;
        clock.frequency_hz = hz;
        std::map<uint32_t, KnownThread> found;
        for (const KnownThread& each : known_threads(dump, clock, now))
            found.emplace(each.thread_id, each);
        EXPECT_EQ(found.size(), 3u);
        EXPECT_EQ(found.at(11).process_id, 10u);
        EXPECT_EQ(found.at(12).process_id, 12u);
        EXPECT_EQ(found.at(12).since, now);
        return std::pair(found.at(11).since, found.at(13).since);
    };
    const uint64_t now = 1'000'000 * second_ns;
    auto [of_mono, first] = began(PLUMB_CLOCK_MONOTONIC, 3 * second_ns, now);
    EXPECT_LE(of_mono, now - 5 * second_ns);
    EXPECT_GT(of_mono, now - 6 * second_ns);
    const auto [of_counter, first_of_counter] = began(PLUMB_CLOCK_TSC, 3 * second_ns, 3 * now);
    EXPECT_LE(of_counter, 3 * (now - 5 * second_ns));
    EXPECT_GT(of_counter, 3 * (now - 6 * second_ns));
    EXPECT_EQ(began(PLUMB_CLOCK_MONOTONIC, second_ns, 5).first, 0u) << "before the clock began";
}

TEST_F(KernelTotals, ClockIsTheOneThatIsKnownAtTheEnd) {
    tracefs_.add_cpu(0, {});
    open();
    EXPECT_EQ(source_->clock_page().realtime_offset_ns, 0);
    source_->begin_end(nullptr);
    EXPECT_EQ(source_->clock_page().realtime_offset_ns, 0);
    plumb_clock_page better{};
    better.mode = PLUMB_CLOCK_MONOTONIC;
    better.realtime_offset_ns = 77;
    source_->begin_end(&better);
    EXPECT_EQ(source_->clock_page().realtime_offset_ns, 77);
}

TEST(KernelIdentity, IsOfTheSameTraceAndAnotherDomain) {
    TraceIdentity of_programs;
    of_programs.domain = "ust";
    of_programs.trace_name = "name";
    of_programs.uuid.fill(7);
    const TraceIdentity identity = kernel_identity(of_programs);
    EXPECT_EQ(identity.domain, "kernel");
    EXPECT_TRUE(identity.is_kernel());
    EXPECT_EQ(identity.trace_name, "name");
    EXPECT_NE(identity.uuid, of_programs.uuid);
    EXPECT_FALSE(identity.statedump_events.empty());
}

/* Whoever comes behind the last look, and whoever ends it, ends the wait. */
TEST_F(KernelTotals, AWaitEndsWhenItIsWoken) {
    tracefs_.add_cpu(0, {});
    open();
    const auto begun = std::chrono::steady_clock::now();
    source_->wake();
    source_->wait(source_->look(), false, read_clock(PLUMB_CLOCK_MONOTONIC) + 60 * second_ns);
    source_->wait(source_->look(), false, 0); /* the time is over */
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

} // namespace plumb
