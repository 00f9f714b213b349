// cmake-once
// What one event adds to the counts: its key, its value and its bucket, out of payloads of all shapes, and out of those that end
// too early, of which nothing is read behind the end. Floating point is made a double without a step of floating point: the
// processor's own conversion is what it is compared with.
#include "libtrace/runtime.h"
#include "tests/support/guarded_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/count/what.cc"

namespace plumb::count {
namespace {

using condition::place_of;
using condition::type_signed;

constexpr uint64_t cookie = 77;

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto* const at = reinterpret_cast<const std::byte*>(text.data());
    return {at, at + text.size()};
}
template <typename T>
std::string raw(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
/* A text with its length before it. */
std::string counted(const std::string& text) {
    return raw(static_cast<uint16_t>(text.size())) + text;
}

Link link_to(const Place& key, const Place& sum = {}, const Place& hist = {}) {
    Link link{};
    link.version = 2;
    link.cookie = cookie;
    link.key = key;
    link.sum = sum;
    link.hist = hist;
    return link;
}
Place integer_at(uint32_t place, uint8_t bytes, bool is_signed = false) {
    return {PLUMB_FIELD_INTEGER, static_cast<uint8_t>(bytes | (is_signed ? type_signed : 0)), 0, place};
}
Place at(uint8_t source, uint32_t place, uint8_t bytes = 1) {
    return {source, bytes, 0, place};
}

/* The payload ends where memory does. */
What told(const Link& link, const std::string& payload, uint32_t buckets = PLUMB_COUNT_BUCKETS) {
    static test::GuardedMemory memory;
    const auto there = memory.at_end(bytes_of(payload));
    static Attachment attachment{};
    attachment.count_buckets = buckets;
    What what;
    EXPECT_EQ(tell(link, cookie, attachment, there.data(), static_cast<uint32_t>(there.size()), what),
              Told::told);
    return what;
}
std::string key_of(const Place& place, const std::string& payload, Link link = {}) {
    const auto variables = std::to_array(link.variables);
    link = link_to(place);
    std::copy(variables.begin(), variables.end(), link.variables);
    const What what = told(link, payload);
    const Key& key = what.key;
    EXPECT_EQ(what.has_slot, place.source != source_none);
    uint64_t number = 0;
    std::memcpy(&number, key.text, sizeof(number));
    switch (key.kind) {
    case PLUMB_KEY_NONE:
        return "none";
    case PLUMB_KEY_UNSIGNED:
        EXPECT_EQ(key.bytes, 8U);
        return "u" + std::to_string(number);
    case PLUMB_KEY_SIGNED:
        EXPECT_EQ(key.bytes, 8U);
        return "i" + std::to_string(static_cast<int64_t>(number));
    case PLUMB_KEY_FLOAT:
        EXPECT_EQ(key.bytes, 8U);
        return "f" + std::to_string(std::bit_cast<double>(number));
    default:
        for (uint32_t end = key.bytes; end % 8 != 0; end++)
            EXPECT_EQ(key.text[end], 0) << "behind it";
        return (key.kind == PLUMB_KEY_TEXT ? "'" : "cut '") +
               std::string(reinterpret_cast<const char*>(key.text), key.bytes) + "'";
    }
}

TEST(CountWhat, IntegersOfAllSizesAreKeys) {
    const std::string payload = "..\x81\x82\x83\x84\x85\x86\x87\x88";
    EXPECT_EQ(key_of(integer_at(2, 1), payload), "u129");
    EXPECT_EQ(key_of(integer_at(2, 2), payload), "u33409");
    EXPECT_EQ(key_of(integer_at(2, 4), payload), fmt::format("u{}", 0x84838281u));
    EXPECT_EQ(key_of(integer_at(2, 8), payload), fmt::format("u{}", 0x8887868584838281u));
    EXPECT_EQ(key_of(integer_at(2, 1, true), payload), "i-127");
    EXPECT_EQ(key_of(integer_at(2, 2, true), payload), "i-32127");
    EXPECT_EQ(key_of(integer_at(2, 4, true), payload), fmt::format("i{}", static_cast<int32_t>(0x84838281u)));
    EXPECT_EQ(key_of(integer_at(2, 8, true), payload),
              fmt::format("i{}", static_cast<int64_t>(0x8887868584838281u)));
    EXPECT_EQ(key_of(integer_at(0, 1, true), "\x7f"), "i127");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_ENUM, 0), "\x07"), "u7");
    for (const uint8_t bytes : std::initializer_list<uint8_t>{1, 2, 4, 8})
        for (uint32_t there = 0; there <= 10; there++)
            EXPECT_EQ(key_of(integer_at(2, bytes), payload.substr(0, there)) == "none", there < 2U + bytes)
                << there << " of " << bytes;
    EXPECT_EQ(key_of(integer_at(0, 3), payload), "none") << "no such size";
}

TEST(CountWhat, TextsAreKeysUpToTheirLimit) {
    for (const size_t length : {0UL, 1UL, 7UL, 8UL, 9UL, 111UL, 112UL, 113UL, 300UL}) {
        const std::string text(length, 'a' + static_cast<char>(length % 26));
        const std::string shown = length > 112 ? "cut '" + text.substr(0, 112) + "'" : "'" + text + "'";
        EXPECT_EQ(key_of(at(PLUMB_FIELD_STRING, 1), "." + text + std::string(1, '\0') + "behind"), shown);
        EXPECT_EQ(key_of(at(PLUMB_FIELD_STRING, 1), "." + text + std::string(1, '\0')), shown)
            << "nothing is behind it";
        EXPECT_EQ(key_of(at(PLUMB_FIELD_STRING, 1), "." + text), shown) << "its end is missing";
        EXPECT_EQ(key_of(at(PLUMB_FIELD_TEXT, 1), "." + counted(text) + "behind"), shown);
    }
    EXPECT_EQ(key_of(at(PLUMB_FIELD_TEXT, 0), raw(uint16_t{500}) + "less"), "'less'");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_TEXT, 0), "x"), "''");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_STRING, 9), "short"), "''") << "behind the payload";
}

TEST(CountWhat, FieldsLieBehindThoseOfVariableLength) {
    Link link{};
    link.variables[0] = {1, PLUMB_FIELD_STRING, 1, 0};
    link.variables[1] = {2, PLUMB_FIELD_TEXT, 1, 0};
    link.variables[2] = {0, PLUMB_FIELD_SEQUENCE, 4, 0};
    const std::string payload = "." + std::string("one\0", 4) + ".." + counted("two") + raw(uint16_t{3}) +
                                std::string(12, 's') + "....\x2a";
    EXPECT_EQ(key_of(integer_at(0, 1), payload, link), "u46");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_STRING, 1), payload, link), "'one'");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_TEXT, place_of(1, 2)), payload, link), "'two'");
    EXPECT_EQ(key_of(integer_at(place_of(2, 0), 2), payload, link), "u3");
    EXPECT_EQ(key_of(integer_at(place_of(3, 4), 1), payload, link), "u42");
    for (size_t there = 0; there < payload.size(); there++)
        EXPECT_EQ(key_of(integer_at(place_of(3, 4), 1), payload.substr(0, there), link), "none") << there;
    EXPECT_EQ(key_of(integer_at(place_of(63, 0), 1), payload, link), "none") << "more than an event has";
}

/* All exponents with fractions at their borders, and all numbers that have no leading one. */
TEST(CountWhat, FloatsAreTheDoublesThatTheProcessorMakesOfThem) {
    const auto differ = [](uint32_t bits) {
        const auto number = std::bit_cast<float>(bits);
        const What what = [&] {
            static Attachment attachment{};
            What found;
            const Link link = link_to({}, at(PLUMB_FIELD_FLOAT, 0, 4));
            EXPECT_EQ(tell(link, cookie, attachment, &bits, sizeof(bits), found), Told::told);
            return found;
        }();
        EXPECT_TRUE(what.sums_floats);
        const auto made = std::bit_cast<double>(what.sum);
        if (std::isnan(number)) return !std::isnan(made) || std::signbit(made) != std::signbit(number);
        return std::bit_cast<uint64_t>(static_cast<double>(number)) != what.sum;
    };
    for (uint32_t exponent = 0; exponent < 512; exponent++)
        for (const uint32_t fraction : {0U, 1U, 2U, 0x3fffffU, 0x400000U, 0x555555U, 0x7ffffeU, 0x7fffffU})
            EXPECT_FALSE(differ(exponent << 23 | fraction)) << exponent << " " << fraction;
    for (uint32_t fraction = 1; fraction <= 0x7fffff; fraction = fraction * 3 / 2 + 1)
        EXPECT_FALSE(differ(fraction) || differ(1U << 31 | fraction)) << fraction;
    for (uint32_t bit = 0; bit < 23; bit++)
        EXPECT_FALSE(differ(1U << bit)) << bit;
    EXPECT_EQ(key_of(at(PLUMB_FIELD_FLOAT, 1, 8), "." + raw(0.25)), "f0.250000");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_FLOAT, 1, 4), "." + raw(-2.5f)), "f-2.500000");
    EXPECT_EQ(key_of(at(PLUMB_FIELD_FLOAT, 1, 4), "...."), "none");
}

/* Bucket n from 2 on has what is from 2^(n-2) to below 2^(n-1). */
TEST(CountWhat, ValuesFallIntoTheBucketOfTheirSize) {
    const auto bucket = [](uint64_t value, bool is_signed) {
        const What what = told(link_to({}, {}, integer_at(0, 8, is_signed)), raw(value));
        EXPECT_TRUE(what.has_slot);
        EXPECT_EQ(what.sum, 0U);
        return what.bucket;
    };
    for (const bool is_signed : {false, true}) {
        EXPECT_EQ(bucket(0, is_signed), PLUMB_COUNT_BUCKET_ZERO);
        for (uint32_t bit = 0; bit < (is_signed ? 63U : 64U); bit++) {
            const uint64_t first = uint64_t{1} << bit;
            EXPECT_EQ(bucket(first, is_signed), bit + 2) << bit;
            EXPECT_EQ(bucket(first - 1 + first, is_signed), bit + 2) << bit;
        }
    }
    EXPECT_EQ(bucket(UINT64_MAX, true), PLUMB_COUNT_BUCKET_NEGATIVE);
    EXPECT_EQ(bucket(uint64_t{1} << 63, true), PLUMB_COUNT_BUCKET_NEGATIVE);
    EXPECT_EQ(bucket(uint64_t{1} << 63, false), 65U);
}

TEST(CountWhat, SumsAreOfTheirField) {
    EXPECT_EQ(told(link_to({}, integer_at(0, 2)), raw(uint16_t{40000})).sum, 40000U);
    EXPECT_EQ(told(link_to({}, integer_at(0, 2, true)), raw(int16_t{-2})).sum, UINT64_MAX - 1);
    EXPECT_EQ(told(link_to({}, integer_at(0, 2)), "x").sum, 0U) << "it is not there";
    const What none = told(link_to({}), "x");
    EXPECT_FALSE(none.has_slot || none.sums_floats);
    EXPECT_EQ(none.sum, 0U);
    const What both = told(link_to(integer_at(0, 1), integer_at(1, 1), integer_at(2, 1)), "\x01\x02\x04");
    EXPECT_TRUE(both.has_slot && !both.sums_floats);
    EXPECT_EQ(both.sum, 2U);
    EXPECT_EQ(both.bucket, 4U);
}

/* A slot has as many buckets as its session says. */
TEST(CountWhat, WithoutAValueThereIsABucketOfThose) {
    const Link link = link_to(integer_at(0, 1), {}, integer_at(1, 8));
    const What what = told(link, "\x07");
    EXPECT_TRUE(what.has_slot);
    EXPECT_EQ(what.bucket, PLUMB_COUNT_BUCKET_NO_VALUE);
    EXPECT_EQ(told(link, "\x07", 1).bucket, 0U) << "and this one has no histogram";
    EXPECT_TRUE(told(link_to({}, {}, integer_at(1, 8)), "\x07").has_slot);
    EXPECT_TRUE(told(link_to(integer_at(1, 8)), "\x07").has_slot) << "and no key: nor did it find no room";
    EXPECT_FALSE(told(link_to({}, integer_at(0, 1)), "\x07").has_slot);
}

TEST(CountWhat, OfALinkThatIsAnotherNothingIsTold) {
    Attachment attachment{};
    attachment.count_buckets = PLUMB_COUNT_BUCKETS;
    const uint64_t payload = 5;
    Link link = link_to(integer_at(0, 8), {}, integer_at(0, 8));
    const auto tells = [&](uint64_t of_session = cookie) {
        What what;
        return tell(link, of_session, attachment, &payload, sizeof(payload), what) == Told::told;
    };
    EXPECT_TRUE(tells());
    EXPECT_FALSE(tells(cookie + 1));
    attachment.count_buckets = 1;
    EXPECT_FALSE(tells()) << "a histogram, and the session has none";
    attachment.count_buckets = PLUMB_COUNT_BUCKETS;
    link.version = 3;
    EXPECT_FALSE(tells()) << "it is being written";
}

} // namespace
} // namespace plumb::count
