// cmake-once
//
// What a channel says of itself, its header, events and entries, is believed only where it is possible, and what is left
// out is counted. For what its rings hold: ring_reader_test.cc.
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/clock/clock_calibration.h"
#include "tests/support/channel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using test::ChannelBuilder;
using test::Payload;
using testing::HasSubstr;

std::string refusal(const std::function<void(plumb_channel_header&)>& damage) {
    ChannelBuilder channel;
    damage(channel.header());
    const auto reader = ChannelReader::open(channel.bytes());
    return reader ? "" : reader.error().message();
}

TEST(ChannelHeader, IsRefusedIfAnythingInItIsImpossible) {
    using Header = plumb_channel_header;
    EXPECT_EQ(refusal([](Header&) {}), "");
    EXPECT_THAT(refusal([](Header& h) { h.magic++; }), HasSubstr("not a Plumb channel"));
    EXPECT_THAT(refusal([](Header& h) { h.total_bytes += 8; }), HasSubstr("not whole"));
    const std::vector<std::function<void(Header&)>> damages = {
        [](Header& h) { h.header_bytes = 100; },
        [](Header& h) { h.domain = 3; },
        [](Header& h) { h.mode = 0; },
        [](Header& h) { h.ring_count = 1u << 31; },
        [](Header& h) { h.ring_count = h.extra_ring_count = 0; },
        [](Header& h) { h.subbuf_bytes = 5000; },
        [](Header& h) { h.subbuf_bytes = 0; },
        [](Header& h) { h.subbuf_count = 3; },
        [](Header& h) { h.subbuf_count = 1; },
        [](Header& h) { h.ring_bytes *= 2; },
        [](Header& h) { h.event_slots = 0; },
        [](Header& h) { h.event_slots = 65; },
        [](Header& h) { h.event_slots_offset = ~0ull & ~7ull; },
        [](Header& h) { h.event_slots_offset = 4097; },
        [](Header& h) { h.entry_slots = ~0u; },
        [](Header& h) { h.entry_slots_offset = h.total_bytes; },
        [](Header& h) { h.heap_bytes = ~0ull; },
        [](Header& h) { h.heap_offset = 0; },
        [](Header& h) { h.control_offset = h.total_bytes - 64; },
        [](Header& h) { h.data_offset = h.total_bytes - 64; },
        [](Header& h) { h.entry_slots_offset -= 4; },
        [](Header& h) { h.heap_offset -= 4; },
        [](Header& h) { h.control_offset -= 8; },
        [](Header& h) { h.data_offset -= 4; },
        [](Header& h) {
            h.subbuf_bytes = 1u << 30;
            h.subbuf_count = 1u << 31;
            h.ring_bytes = 1ull << 61;
        },
    };
    for (size_t i = 0; i < damages.size(); i++)
        EXPECT_THAT(refusal(damages[i]), HasSubstr("damaged")) << "damage " << i;
}

/* A file with holes can be of any size. */
TEST(ChannelHeader, IsRefusedIfItIsLargerThanAnyThatIsMade) {
    using Header = plumb_channel_header;
    const auto refusal_of_large = [](const std::function<void(Header&)>& change) {
        ChannelBuilder channel;
        Header header = channel.header();
        const uint64_t mapped_bytes = header.total_bytes = uint64_t{1} << 50;
        header.entry_slots_offset = header.heap_offset = header.data_offset = 1 << 20;
        change(header);
        const auto checked = check_channel_header(header, mapped_bytes);
        return checked ? "" : checked.error().message();
    };
    EXPECT_EQ(refusal_of_large([](Header& h) {
                  h.entry_slots = PLUMB_ENTRY_SLOTS_MAX;
                  h.heap_bytes = PLUMB_HEAP_BYTES_MAX;
              }),
              "");
    EXPECT_THAT(refusal_of_large([](Header& h) { h.entry_slots = PLUMB_ENTRY_SLOTS_MAX + 1; }),
                HasSubstr("damaged"));
    EXPECT_THAT(refusal_of_large([](Header& h) { h.heap_bytes = PLUMB_HEAP_BYTES_MAX + 1; }),
                HasSubstr("damaged"));
    EXPECT_THAT(refusal_of_large([](Header& h) { h.ring_count = PLUMB_CHANNEL_MAX_RINGS + 1; }),
                HasSubstr("damaged"));
    EXPECT_THAT(refusal_of_large([](Header& h) {
                    h.subbuf_bytes = 1u << 30;
                    h.subbuf_count = 1u << 12;
                    h.ring_bytes = uint64_t{1} << 42;
                }),
                HasSubstr("damaged"));
}

TEST(ChannelHeader, AnotherMajorVersionIsNamedWithOurs) {
    const std::string message = refusal([](plumb_channel_header& h) {
        h.version_major = 7;
        h.version_minor = 3;
    });
    EXPECT_THAT(message, HasSubstr("version 7.3"));
    EXPECT_THAT(message, HasSubstr("version " + std::to_string(PLUMB_CHANNEL_VERSION_MAJOR) + ".x"));
    EXPECT_EQ(refusal([](plumb_channel_header& h) { h.version_minor = 99; }), "");
}

TEST(ChannelHeader, TruncatedBytesAreRefused) {
    ChannelBuilder channel;
    EXPECT_FALSE(ChannelReader::open(channel.bytes().first(100)));
    EXPECT_FALSE(ChannelReader::open(channel.bytes().first(channel.bytes().size() - 8)));
}

#if !defined( \
    __SANITIZE_ADDRESS__) /* they want the header at a multiple of 64, so that its clock lies in one page */
/* The clock page of a channel that lies across two pages of memory, of which the second one can not be read yet: who copies
 * the clock has its sequence by then, and the rest becomes another one under his hands. */
struct TornClock {
    static constexpr size_t page_bytes = 4096;
    static inline std::byte* second_page;
    static inline plumb_clock_page* clock;
    static inline int faults;
    static void write(uint64_t value) {
        __atomic_store_n(&clock->sequence, clock->sequence + 1, __ATOMIC_RELEASE);
        clock->base_cycles = clock->base_monotonic_ns = clock->frequency_hz = value;
        __atomic_store_n(&clock->sequence, clock->sequence + 1, __ATOMIC_RELEASE);
    }
    static void on_fault(int, siginfo_t*, void*) {
        if (faults++ > 0) _exit(99);
        mprotect(second_page, page_bytes, PROT_READ | PROT_WRITE);
        write(2'000'000'000);
    }
};

TEST(ChannelClock, IsNeverHalfOfOneAndHalfOfAnother) {
    ChannelBuilder channel;
    const size_t clock_at = offsetof(plumb_channel_header, clock);
    const size_t first_part = offsetof(plumb_clock_page, realtime_offset_ns);
    const size_t pages = channel.bytes().size() / TornClock::page_bytes + 3;
    void* const memory = mmap(nullptr, pages * TornClock::page_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    TornClock::second_page = static_cast<std::byte*>(memory) + TornClock::page_bytes;
    std::byte* const begin = TornClock::second_page - clock_at - first_part;
    std::memcpy(begin, channel.bytes().data(), channel.bytes().size());
    TornClock::clock = reinterpret_cast<plumb_clock_page*>(begin + clock_at);
    TornClock::write(1'000'000'000);
    auto reader = ChannelReader::open({begin, channel.bytes().size()}, {begin, {}});
    ASSERT_TRUE(reader) << reader.error().message();

    struct sigaction action {
    }, before{};
    action.sa_sigaction = TornClock::on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
    mprotect(TornClock::second_page, TornClock::page_bytes, PROT_NONE);
    const plumb_clock_page page = reader->clock_page();
    sigaction(SIGSEGV, &before, nullptr);
    EXPECT_EQ(TornClock::faults, 1);
    EXPECT_EQ(page.base_cycles, 2'000'000'000u);
    EXPECT_EQ(page.base_monotonic_ns, 2'000'000'000u);
    EXPECT_EQ(page.frequency_hz, 2'000'000'000u);
    munmap(memory, pages * TornClock::page_bytes);
}

#endif

TEST(ChannelTables, AnEventThatAppearsLateIsFound) {
    ChannelBuilder channel;
    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    RingReader ring(*reader, 0);
    ReadBuffer buffer;
    EXPECT_EQ(reader->scan_events(), 0u);
    const uint16_t id = channel.add_event("late", {test::integer("n", 8)});
    ASSERT_TRUE(channel.write(0, id, 5, Payload().put(uint64_t{1}).bytes()));
    const auto piece = ring.next(ReadWhat::everything, buffer);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 1u);
    EXPECT_EQ(reader->events().front().description.full_name(), "test:late");
    EXPECT_EQ(reader->scan_events(), 0u) << "it is known";
    ASSERT_NE(channel.add_event("later", {}), 0u);
    EXPECT_EQ(reader->scan_events(), 1u);
}

TEST(ChannelTables, UnusableDescriptionsAreCountedOnce) {
    ChannelBuilder channel;
    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().event_slots_offset);
    slots[5] = PLUMB_SLOT(channel.header().heap_offset, channel.header().heap_bytes + 8);
    slots[6] = ~uint64_t{0};
    slots[7] = PLUMB_SLOT(0, 64);
    slots[8] = PLUMB_SLOT(channel.header().heap_offset, 64); /* zeros */
    EXPECT_EQ(reader->scan_events(), 0u);
    EXPECT_EQ(reader->scan_events(), 0u);
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::events)], 4u);
    EXPECT_EQ(reader->find_event(6), nullptr);
}

TEST(ChannelTables, FieldsOfUnknownTypeOrSizeMakeADescriptionUnusable) {
    for (const auto& [type, size] : {std::pair<int, uint8_t>{0, 4},
                                     {8, 4},
                                     {173, 4},
                                     {PLUMB_FIELD_INTEGER, 3},
                                     {PLUMB_FIELD_FLOAT, 2},
                                     {PLUMB_FIELD_STRING, 2},
                                     {PLUMB_FIELD_ARRAY, 0}}) {
        EventDescription event;
        event.provider = event.name = "x";
        event.log_level = PLUMB_INFO;
        event.fields = {test::integer("n", 4)};
        std::vector<std::byte> bytes = encode_event_description(event);
        bytes[sizeof(plumb_event_header) + offsetof(plumb_field, type)] = static_cast<std::byte>(type);
        bytes[sizeof(plumb_event_header) + offsetof(plumb_field, size)] = std::byte{size};
        ChannelBuilder channel;
        channel.add_description(bytes);
        auto reader = ChannelReader::open(channel.bytes());
        ASSERT_TRUE(reader);
        EXPECT_EQ(reader->scan_events(), 0u) << type << " " << int{size};
        EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::events)], 1u);
    }
}

TEST(ChannelTables, EntriesAreTakenOnceAndDamagedOnesAreCounted) {
    ChannelBuilder channel;
    channel.add_process(1, "name", std::string(200, 'e'), 10);
    channel.add_thread(1, 2, "thread", 20);
    channel.add_object(1, 0x1000, "/lib/x.so", 30);
    plumb_entry nonsense{99, 0, sizeof(plumb_entry), 1, 1, 1};
    channel.add_entry(std::as_bytes(std::span(&nonsense, 1)));
    plumb_entry_thread endless{{PLUMB_ENTRY_THREAD, 0, sizeof(plumb_entry_thread), 1, 1, 1}, {}};
    std::memset(endless.name, 'x', sizeof(endless.name));
    channel.add_entry(std::as_bytes(std::span(&endless, 1)));
    plumb_entry_thread longer{{PLUMB_ENTRY_THREAD, 0, 4096, 1, 1, 1}, {}};
    channel.add_entry(std::as_bytes(std::span(&longer, 1)));
    plumb_entry_object overlong{
        {PLUMB_ENTRY_OBJECT, 0, sizeof(plumb_entry_object), 1, 1, 1}, 0x2000, 1, 32, {}, "/x"};
    channel.add_entry(std::as_bytes(std::span(&overlong, 1)));
    for (const uint16_t type : {PLUMB_ENTRY_PROCESS, PLUMB_ENTRY_THREAD, PLUMB_ENTRY_OBJECT}) {
        plumb_entry bare{type, 0, sizeof(plumb_entry), 1, 1, 1};
        channel.add_entry(std::as_bytes(std::span(&bare, 1)));
    }

    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    const auto entries = reader->take_new_entries();
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].path, std::string(200, 'e'));
    EXPECT_EQ(entries[1].name, "thread");
    EXPECT_EQ(entries[2].build_id.size(), 20u);
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::entries)], 7u);
    EXPECT_TRUE(reader->take_new_entries().empty());
}

TEST(ChannelTables, EntriesFromTheFutureAreDamaged) {
    test::BuilderConfig config;
    config.clock_mode = PLUMB_CLOCK_MONOTONIC;
    for (const bool is_live : {false, true}) {
        ChannelBuilder channel(config);
        const uint64_t now = read_clock(PLUMB_CLOCK_MONOTONIC);
        channel.add_thread(1, 2, "never", UINT64_MAX);
        channel.add_thread(1, 3, "now", now);
        channel.add_thread(1, 4, "tomorrow", now + 86'400'000'000'000);
        auto reader = ChannelReader::open(channel.bytes(), {is_live ? channel.bytes().data() : nullptr, {}});
        ASSERT_TRUE(reader);
        const auto entries = reader->take_new_entries();
        /* Nobody knows when a dead channel's writers wrote. */
        ASSERT_EQ(entries.size(), is_live ? 1u : 2u);
        EXPECT_EQ(entries[0].name, "now");
        EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::entries)], is_live ? 2u : 1u);
    }
}

/* Any traced program can write any number into its records. */
TEST(ChannelTables, WritersThatNobodyDescribedGetNumbersUpToALimit) {
    constexpr uint32_t tag = 5u << PLUMB_TAG_SHIFT;
    constexpr size_t writers = ChannelReader::unnamed_writers_max + 1000;
    test::BuilderConfig config;
    config.subbuf_bytes = 1 << 20;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("n", {test::integer("n", 8)});
    for (uint32_t i = 1; i <= writers; i++)
        ASSERT_TRUE(channel.write(0, id, i, Payload().put(uint64_t{i}).bytes(), tag | i));
    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    RingReader ring(*reader, 0);
    ReadBuffer buffer;
    std::set<uint32_t> numbers;
    const auto read = [&] {
        while (const auto piece = ring.next(ReadWhat::everything, buffer))
            for_each_record(*piece, [&](const plumb_record& record) { numbers.insert(record.thread_id); });
    };
    read();
    EXPECT_EQ(numbers.size(), ChannelReader::unnamed_writers_max + 1);
    numbers.clear();
    channel.add_thread(tag | 7, tag | 0x200000, "late", writers);
    ASSERT_TRUE(channel.write(0, id, writers + 1, Payload().put(uint64_t{0}).bytes(), tag | 0x200000));
    read();
    EXPECT_EQ(numbers, std::set<uint32_t>{tag | 0x200000}) << "one that has an entry";
}

TEST(ChannelTables, SlotsThatAreFreeOrBeingFilledHoldNoEntry) {
    ChannelBuilder channel;
    channel.add_thread(1, 2, "thread", 20);
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
    slots[1] = PLUMB_SLOT_CLAIMED;
    slots[2] = PLUMB_SLOT_FREE | slots[0];
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    ASSERT_TRUE(reader);
    const auto entries = reader->take_new_entries();
    ASSERT_EQ(entries.size(), 1u);
    reader->free_entry(0, entries[0].slot_value);
    EXPECT_EQ(slots[0], PLUMB_SLOT_FREE | PLUMB_SLOT(channel.header().heap_offset, 64));
    EXPECT_TRUE(reader->take_new_entries().empty());
    slots[0] = entries[0].slot_value; /* a writer, with an entry of the same length */
    EXPECT_EQ(reader->take_new_entries().size(), 1u);
    slots[0] = PLUMB_SLOT(channel.header().heap_offset, 24);
    reader->free_entry(0, entries[0].slot_value);
    EXPECT_EQ(slots[0], PLUMB_SLOT(channel.header().heap_offset, 24)) << "it holds something else by now";
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::entries)], 0u);
}

/* Its thread id is tagged: what we call that thread is found by the process that its entry names. */
TEST(ChannelTables, ARecordThatIsReadBeforeItsThreadsEntryHasTheThreadsNumber) {
    struct stat space {};
    ASSERT_EQ(stat("/proc/self/ns/pid", &space), 0);
    std::atomic<uint32_t> thread_id = 0;
    std::atomic<bool> is_over = false;
    std::thread thread([&] {
        thread_id = static_cast<uint32_t>(gettid());
        is_over.wait(false);
    });
    while (thread_id == 0)
        std::this_thread::yield();
    constexpr uint32_t tag = 1u << PLUMB_TAG_SHIFT;
    const auto process_id = static_cast<uint32_t>(getpid());
    ChannelBuilder channel;
    channel.header().namespaces[1] = static_cast<uint32_t>(space.st_ino);
    channel.add_thread(tag | process_id, tag | thread_id, "this", 10);
    channel.add_object(tag | thread_id, 0x1000, "/lib/x.so",
                       10); /* an entry of no thread, with that number */
    channel.add_thread(tag | 0x3ffff0, tag | 0x3ffff1, "another", 10);
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->number_of_writer(tag | thread_id, 11), thread_id);
    is_over = true;
    is_over.notify_all();
    thread.join();
}

} // namespace
} // namespace plumb
