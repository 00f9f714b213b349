// Records that are too long: what becomes of their fields, and how they share the room that there is. cmake-once
#include "libtrace/runtime.h"
#include "tests/support/described_event.h"
#include "tests/support/guarded_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace plumb;
using test::array;
using test::info_of;
using test::number;
using test::sequence;
using test::string;
using test::text;

TEST(CutPayload, reads_nothing_behind_the_payload) {
    const std::vector<plumb_event_field> fields = {text, sequence, string, array};
    const plumb_event_info info = info_of(fields);
    const std::string payload = "\x02\x00yes\xff\xff\xff";
    for (size_t bytes = 0; bytes <= payload.size(); bytes++) {
        test::GuardedMemory memory;
        const auto copy = memory.at_end(std::as_bytes(std::span(payload).first(bytes)));
        std::vector<unsigned char> to(200);
        cut_payload(info, reinterpret_cast<const unsigned char*>(copy.data()), static_cast<uint32_t>(bytes),
                    to.data(), 100); // must not read outside
    }
}

TEST(CutPayload, shortens_what_varies_and_keeps_the_rest) {
    const std::vector<plumb_event_field> fields = {string, number, sequence, array, text};
    const plumb_event_info info = info_of(fields);
    std::string payload = "0123456789";
    payload += '\0';
    payload += "NUMBER!!";
    payload += std::string("\x03\x00", 2) + "aaaabbbbcccc";
    payload += "ARRAY!";
    payload += std::string("\x05\x00", 2) + "texts";
    const uint32_t fixed_bytes = 1 + 8 + 2 + 6 + 2;
    const auto whole = static_cast<uint32_t>(payload.size());
    for (uint32_t limit = 0; limit <= whole + 5; limit++) {
        std::vector<unsigned char> to(whole + 10, 0xee);
        const uint32_t bytes = cut_payload(info, reinterpret_cast<const unsigned char*>(payload.data()),
                                           whole, to.data(), limit);
        if (limit < fixed_bytes) {
            EXPECT_EQ(bytes, 0u);
            continue;
        }
        ASSERT_GT(bytes, 0u);
        ASSERT_LE(bytes, limit);
        EXPECT_EQ(to[bytes], 0xee);
        const std::string cut(reinterpret_cast<char*>(to.data()), bytes);
        const size_t string_end = cut.find('\0');
        EXPECT_EQ(cut.substr(0, string_end), payload.substr(0, string_end));
        EXPECT_EQ(cut.substr(string_end + 1, 8), "NUMBER!!");
        const size_t count = static_cast<unsigned char>(cut[string_end + 9]);
        EXPECT_LE(count, 3u);
        EXPECT_EQ(cut.substr(string_end + 11 + 4 * count, 6), "ARRAY!");
        const size_t text_bytes = static_cast<unsigned char>(cut[string_end + 17 + 4 * count]);
        EXPECT_EQ(bytes, string_end + 19 + 4 * count + text_bytes);
        EXPECT_EQ(limit >= whole, cut == payload);
    }
}

namespace {

// A string's, a text's and a sequence's of 4 bytes each; the contents are letters of their own.
struct Parts {
    std::vector<plumb_event_field> fields;
    std::vector<std::string> contents;
    std::string payload;

    void add(const plumb_event_field& field, size_t bytes) {
        const std::string content(bytes, static_cast<char>('A' + fields.size()));
        const size_t count = bytes / field.size;
        if (field.type != PLUMB_FIELD_STRING) {
            payload += static_cast<char>(count);
            payload += static_cast<char>(count >> 8);
        }
        payload += content;
        if (field.type == PLUMB_FIELD_STRING) payload += '\0';
        fields.push_back(field);
        contents.push_back(content);
    }
    // What is left of each.
    std::vector<size_t> cut_to(uint32_t room) const {
        const plumb_event_info info = info_of(fields);
        uint32_t limit = room;
        for (const plumb_event_field& field : fields)
            limit += field.type == PLUMB_FIELD_STRING ? 1 : 2;
        std::vector<unsigned char> to(limit + 8, 0xee);
        const uint32_t bytes = cut_payload(info, reinterpret_cast<const unsigned char*>(payload.data()),
                                           static_cast<uint32_t>(payload.size()), to.data(), limit);
        EXPECT_LE(bytes, limit);
        EXPECT_EQ(to[limit], 0xee);
        std::vector<size_t> left;
        const unsigned char* at = to.data();
        for (size_t i = 0; i < fields.size(); i++) {
            size_t length = 0;
            if (fields[i].type == PLUMB_FIELD_STRING) {
                length = strlen(reinterpret_cast<const char*>(at));
            } else {
                length = (at[0] | size_t{at[1]} << 8) * fields[i].size;
                at += 2;
            }
            EXPECT_EQ(std::string(reinterpret_cast<const char*>(at), length), contents[i].substr(0, length));
            at += length + (fields[i].type == PLUMB_FIELD_STRING ? 1 : 0);
            left.push_back(length);
        }
        EXPECT_EQ(at, to.data() + bytes);
        return left;
    }
};

} // namespace

TEST(CutPayload, keeps_what_is_short_and_shares_the_rest) {
    using Lengths = std::vector<size_t>;
    Parts parts;
    parts.add(string, 1000);
    parts.add(text, 8);
    parts.add(sequence, 800);
    parts.add(string, 6);
    EXPECT_EQ(parts.cut_to(2000), (Lengths{1000, 8, 800, 6})) << "there is room for all";
    EXPECT_EQ(parts.cut_to(1714), (Lengths{900, 8, 800, 6})) << "the longest alone is too long";
    EXPECT_EQ(parts.cut_to(414), (Lengths{200, 8, 200, 6})) << "both are";
    EXPECT_EQ(parts.cut_to(28), (Lengths{7, 7, 4, 6})) << "of elements, whole ones";
    EXPECT_EQ(parts.cut_to(4), (Lengths{1, 1, 0, 1}));
    EXPECT_EQ(parts.cut_to(0), (Lengths{0, 0, 0, 0}));
}

TEST(CutPayload, cuts_none_that_has_less_than_another_one_and_leaves_no_room) {
    std::mt19937 random(7);
    for (int round = 0; round < 3000; round++) {
        Parts parts;
        const size_t count = 1 + random() % PLUMB_EVENT_MAX_FIELDS;
        size_t all = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t bytes = random() % (random() % 4 == 0 ? 3000 : 20);
            parts.add(random() % 2 == 0 ? string : text, bytes);
            all += bytes;
        }
        const auto room = static_cast<uint32_t>(random() % (all + 10));
        const std::vector<size_t> left = parts.cut_to(room);
        size_t used = 0, longest = 0, cut = 0;
        for (const size_t each : left) {
            used += each;
            longest = std::max(longest, each);
        }
        for (size_t i = 0; i < count; i++) {
            if (left[i] == parts.contents[i].size()) continue;
            cut++;
            EXPECT_EQ(left[i], longest);
        }
        if (cut != 0) {
            EXPECT_LT(room - used, cut);
        }
    }
}

TEST(CutPayload, leaves_no_half_of_a_character) {
    const std::vector<plumb_event_field> fields = {text};
    const plumb_event_info info = info_of(fields);
    const std::string payload = std::string("\x0a\x00", 2) + "a\xe2\x82\xac" + "\xf0\x9f\x90\x88" + "bc";
    std::vector<uint32_t> left;
    for (uint32_t limit = 2; limit <= 12; limit++) {
        unsigned char to[16];
        left.push_back(cut_payload(info, reinterpret_cast<const unsigned char*>(payload.data()),
                                   static_cast<uint32_t>(payload.size()), to, limit) -
                       2);
        EXPECT_EQ(to[0], left.back());
    }
    EXPECT_EQ(left, (std::vector<uint32_t>{0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 10}));
}

TEST(SharePayload, makes_room_for_the_next_field) {
    Parts parts;
    parts.add(string, 1000);
    parts.add(text, 8);
    plumb_event_info info = info_of(parts.fields);
    const auto shared = [&](uint64_t wanted, uint32_t limit) {
        std::string payload = parts.payload;
        const uint32_t left = plumb_share_payload(&info, 2, payload.data(),
                                                  static_cast<uint32_t>(payload.size()), limit, wanted);
        EXPECT_EQ(payload.substr(left - 8, 8), "BBBBBBBB");
        return left - 1 - 2 - 8;
    };
    EXPECT_EQ(shared(200, 1500), 1000u);
    EXPECT_EQ(shared(200, 1011), 800u);
    EXPECT_EQ(shared(UINT64_MAX, 1011), 500u);
}

TEST(CutPayload, keeps_a_field_that_ends_with_the_payload) {
    const std::vector<plumb_event_field> fields = {string, number};
    const plumb_event_info info = info_of(fields);
    const std::string payload = std::string("0123456789\0", 11) + "NUMBER!!";
    unsigned char to[64];
    const uint32_t bytes =
        cut_payload(info, reinterpret_cast<const unsigned char*>(payload.data()),
                    static_cast<uint32_t>(payload.size()), to, static_cast<uint32_t>(payload.size()) - 5);
    EXPECT_EQ(std::string(reinterpret_cast<char*>(to), bytes), std::string("01234\0NUMBER!!", 14));
}
