// cmake-once
//
// Single steps from a raw event to a payload: copies of every length, names of threads, letters of block requests, what
// lies where a location says.
// Source and room lie at the end of memory, so that one byte too many ends the test.
#include "consumerd/kernel/event_payload.h"
#include "tests/support/guarded_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace plumb {
namespace {

using namespace std::string_literals;

/* What an event with this one step makes of these bytes. */
std::vector<std::byte> payload_of(RawStep::Kind kind, std::span<const std::byte> raw) {
    KernelEvent event;
    event.least_bytes = static_cast<std::uint32_t>(raw.size());
    event.fixed_room = static_cast<std::uint32_t>(raw.size()) + 1;
    event.steps = {{kind, false, 0, static_cast<std::uint16_t>(raw.size())}};
    test::GuardedMemory from, to;
    const std::span<std::byte> source = from.at_end(raw);
    const std::span<std::byte> room = to.at_end(std::vector<std::byte>(payload_room(event, raw.size())));
    const std::byte* const end = translate_payload(event, source, room.data());
    EXPECT_NE(end, nullptr);
    return {static_cast<const std::byte*>(room.data()), end};
}

std::vector<std::byte> bytes_of(const std::string& text) {
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

TEST(KernelPayload, CopiesEveryLength) {
    std::vector<std::byte> raw;
    for (unsigned length = 1; length <= 200; length++) {
        raw.push_back(static_cast<std::byte>(length * 7));
        EXPECT_EQ(payload_of(RawStep::Kind::copy, raw), raw) << length;
    }
}

TEST(KernelPayload, EndsNamesOfThreadsWhereTheKernelEndsThem) {
    for (unsigned length = 0; length <= thread_name_bytes; length++) {
        /* What is behind the NUL is what was there before. */
        std::string name = std::string(length, static_cast<char>(0x80 + length));
        std::string raw = name;
        raw.resize(thread_name_bytes, '\x01');
        if (length < thread_name_bytes) raw[length] = '\0';
        EXPECT_EQ(payload_of(RawStep::Kind::thread_name, bytes_of(raw)), bytes_of(name + '\0')) << length;
    }
}

TEST(KernelPayload, GivesBlockRequestsTheNumbersOfLttng) {
    const std::pair<const char*, std::uint32_t> known[] = {
        {"R", 1u << 2},
        {"RA", 1u << 2 | 1u << 3},
        {"W", 1u << 0},
        {"WS", 1u << 0 | 1u << 5},
        {"WFSM", 1u << 0 | 1u << 9 | 1u << 5 | 1u << 6},
        {"FWFS", 1u << 10 | 1u << 0 | 1u << 9 | 1u << 5},
        {"F", 1u << 8},
        {"FS", 1u << 8 | 1u << 5},
        {"FF", 1u << 10 | 1u << 8},
        {"FN", 1u << 10},
        {"D", 1u << 1},
        {"DS", 1u << 1 | 1u << 5},
        {"DE", 1u << 1 | 1u << 7},
        {"N", 0},
        {"ZFS", 1u << 5}, /* a zone is finished: no flush */
        {"", 0},
    };
    for (const auto& [text, expected] : known) {
        std::string raw = text;
        raw.resize(8, '\0');
        const std::vector<std::byte> payload = payload_of(RawStep::Kind::io_flags, bytes_of(raw));
        std::uint32_t flags = 0;
        ASSERT_EQ(payload.size(), sizeof(flags));
        std::memcpy(&flags, payload.data(), sizeof(flags));
        EXPECT_EQ(flags, expected) << text;
    }
}

/* A location, 4 bytes into an event, that speaks of `bytes` at `offset`. */
std::vector<std::byte> payload_at(RawStep::Kind kind, bool is_relative, std::uint32_t offset,
                                  std::uint32_t bytes, std::span<const std::byte> raw) {
    constexpr std::size_t location_at = 4;
    std::vector<std::byte> source(raw.begin(), raw.end());
    const std::uint32_t location = offset | bytes << 16;
    std::memcpy(source.data() + location_at, &location, sizeof(location));
    KernelEvent event;
    event.least_bytes = location_at + sizeof(location);
    event.dynamic_fields = 1;
    event.steps = {{kind, is_relative, location_at, 1}};
    std::vector<std::byte> room(payload_room(event, source.size()));
    const std::byte* const end = translate_payload(event, source, room.data());
    if (end == nullptr) return {};
    return {static_cast<const std::byte*>(room.data()), end};
}

TEST(KernelPayload, FindsWhatALocationSpeaksOfFromTheStartOfTheEventOrFromBehindItself) {
    /* 4 bytes of header, 4 of location; the texts differ at every place. */
    const std::vector<std::byte> raw = bytes_of("head....abcdefghijklmnop");
    EXPECT_EQ(payload_at(RawStep::Kind::string, false, 10, 3, raw), bytes_of(std::string("cde\0", 4)));
    EXPECT_EQ(payload_at(RawStep::Kind::string, true, 10, 3, raw), bytes_of(std::string("klm\0", 4)));
    EXPECT_EQ(payload_at(RawStep::Kind::string, true, 0, 3, raw), bytes_of(std::string("abc\0", 4)));
    EXPECT_EQ(payload_at(RawStep::Kind::sequence, false, 10, 3, raw), bytes_of(std::string("\3\0cde", 5)));
    EXPECT_EQ(payload_at(RawStep::Kind::sequence, true, 10, 3, raw), bytes_of(std::string("\3\0klm", 5)));
}

TEST(KernelPayload, TakesWhatALocationSpeaksOfUpToTheEndOfTheEventAndNotBeyond) {
    const std::vector<std::byte> raw = bytes_of("head....abcdefghijklmnop");
    EXPECT_EQ(payload_at(RawStep::Kind::string, false, 21, 3, raw), bytes_of(std::string("nop\0", 4)));
    EXPECT_EQ(payload_at(RawStep::Kind::string, true, 13, 3, raw), bytes_of(std::string("nop\0", 4)));
    EXPECT_TRUE(payload_at(RawStep::Kind::string, false, 22, 3, raw).empty());
    EXPECT_TRUE(payload_at(RawStep::Kind::string, true, 14, 3, raw).empty());
    EXPECT_TRUE(payload_at(RawStep::Kind::string, true, 17, 0, raw).empty());
    EXPECT_EQ(payload_at(RawStep::Kind::string, false, 24, 0, raw), bytes_of(std::string(1, '\0')));
    for (const auto kind : {RawStep::Kind::string, RawStep::Kind::probe_string, RawStep::Kind::sequence}) {
        EXPECT_TRUE(payload_at(kind, false, 25, 0, raw).empty());
        EXPECT_TRUE(payload_at(kind, false, 24, 1, raw).empty());
        EXPECT_TRUE(payload_at(kind, true, 0, 17, raw).empty());
    }
}

TEST(KernelPayload, SaysWhatAProbeCouldNotRead) {
    const std::vector<std::byte> raw = bytes_of("head....abc\0defghijklmno"s);
    EXPECT_EQ(payload_at(RawStep::Kind::probe_string, false, 10, 0, raw),
              bytes_of(std::string("(fault)\0", 8)));
    EXPECT_EQ(payload_at(RawStep::Kind::probe_string, false, 9, 2, raw), bytes_of(std::string("bc\0", 3)));
    EXPECT_EQ(payload_at(RawStep::Kind::probe_string, true, 0, 3, raw), bytes_of(std::string("abc\0", 4)));
}

/* Everything that an event may have, one step behind the other, each from a place of its own. */
TEST(KernelPayload, GoesThroughAllStepsInTheirOrder) {
    KernelEvent event;
    event.steps = {{RawStep::Kind::of_parent, false, 8, 4},     {RawStep::Kind::copy, false, 2, 3},
                   {RawStep::Kind::fixed_string, false, 12, 4}, {RawStep::Kind::sequence, false, 16, 2},
                   {RawStep::Kind::told_text, false, 1, 0},     {RawStep::Kind::io_flags, false, 20, 8},
                   {RawStep::Kind::fixed_string, false, 20, 2}, {RawStep::Kind::told_text, false, 0, 0},
                   {RawStep::Kind::of_child, false, 8, 4},      {RawStep::Kind::sequence, true, 16, 4}};
    std::vector<std::byte> raw = bytes_of("01234567____ab\0cLLLLWS\0\0\0\0\0\0ABCDEFGHIJKL"s);
    const std::uint32_t location = 28 | 7 << 16; /* seven bytes: three numbers of two, or one of four */
    std::memcpy(raw.data() + 16, &location, sizeof(location));
    event.least_bytes = 28;
    event.fixed_room = 64;
    event.dynamic_fields = 2;
    event.told_texts = {{0, "a", false}, {1, "b", false}};
    TextsOfCall texts;
    texts.add({TextTag{}, "told"});
    const auto made = [&](std::span<const std::byte> from, const TextsOfCall* told) {
        std::vector<std::byte> room(payload_room(event, from.size(), told));
        const std::byte* const end = translate_payload(event, from, room.data(), {0x10203, 0x40506}, told);
        return end == nullptr ? std::string("damaged")
                              : std::string(reinterpret_cast<const char*>(room.data()),
                                            reinterpret_cast<const char*>(end));
    };
    const auto expected = [](const std::string& first, const std::string& second, const std::string& numbers,
                             const std::string& wide) {
        return std::string("\3\2\1\0", 4) + "234" + std::string("ab\0", 3) + numbers + second +
               std::string("\0\x21\0\0\0WS\0", 8) + first + std::string("\0\6\5\4\0", 5) + wide;
    };
    /* 28, counted from behind the location at 16, is the end of the event: nothing is there. */
    EXPECT_EQ(made(raw, &texts), "damaged");
    event.steps.back().is_relative = false;
    const std::string numbers = std::string("\3\0", 2) + "ABCDEF", wide = std::string("\1\0", 2) + "ABCD";
    EXPECT_EQ(made(raw, &texts), expected("told", "(not read)", numbers, wide));
    EXPECT_EQ(made(raw, nullptr), expected("(not read)", "(not read)", numbers, wide));
    event.least_bytes = static_cast<std::uint32_t>(raw.size());
    EXPECT_EQ(made(raw, &texts), expected("told", "(not read)", numbers, wide));
    event.least_bytes++;
    EXPECT_EQ(made(raw, &texts), "damaged");
}

} // namespace
} // namespace plumb
