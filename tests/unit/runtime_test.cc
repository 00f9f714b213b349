// The parts of the runtime that can be looked at alone: patterns, room arithmetic, names of marker fields, the
// table of events. cmake-once
#include "base/glob.h"
#include "libtrace/ring/room.h"
#include "libtrace/runtime.h"
#include "tests/support/described_event.h"
#include "tests/support/record_reader.h"
#include "tests/support/test_session.h"

#include <plumb/detail/marker_names.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fnmatch.h>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace plumb;

TEST(Glob, matches_as_documented) {
    const struct {
        const char* pattern;
        const char* text;
        bool expected;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "shop:order", true},
        {"shop:*", "shop:order", true},
        {"shop:*", "shop:", true},
        {"shop:*", "shops:order", false},
        {"*order", "shop:order", true},
        {"*o*r*r", "shop:order", true},
        {"*o*r*x", "shop:order", false},
        {"s?op:order", "shop:order", true},
        {"shop:order?", "shop:order", false},
        {"shop:[a-o]rder", "shop:order", true},
        {"shop:[a-n]rder", "shop:order", false},
        {"shop:[!a-n]rder", "shop:order", true},
        {"shop:[^o]rder", "shop:order", false},
        {"shop:[]o]rder", "shop:order", true},
        {"shop:[]o]rder", "shop:]rder", true},
        {"shop:[a-", "shop:[a-", true}, // no set without its end
        {"a[b-]c", "a-c", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"a\\", "a\\", true},
        {"\\?x", "?x", true},
        {"**", "abc", true},
        {"a**b", "axxb", true},
        {"?t?", "\xc3\xa9t\xc3\xa9", true}, // characters, not bytes
        {"[\xc3\xa9\x61]t*", "\xc3\xa9t", true},
        {"[\xc3\xa9]", "\xc3\xa8", false},
        {"[\xc3\xa0-\xc3\xbf]?", "\xc3\xa9\xf0\x9f\x90\x88", true},
        {"*[\xa9]", "\xc3\xa9", false},
        {"??", "\xc3\xff", true}, // bytes that are no UTF-8
        {"[\xe9]", "\xc3\xa9", false},
    };
    for (const auto& [pattern, text, expected] : cases)
        EXPECT_EQ(pattern_matches(pattern, text), expected) << pattern << " on " << text;
}

namespace {

std::string word_of(std::mt19937& random, const char* letters, size_t longest) {
    std::string text;
    for (size_t length = random() % longest; length > 0; length--)
        text += letters[random() % strlen(letters)];
    return text;
}

} // namespace

// The C library's, on patterns and texts of few letters, so that many match.
TEST(Glob, agrees_with_fnmatch) {
    std::mt19937 random(1);
    const auto set = [&] {
        return "[" + std::string(random() % 3 == 0, '!') + word_of(random, "abc-", 5) + "a]";
    };
    uint32_t matched = 0;
    for (int i = 0; i < 200'000; i++) {
        std::string pattern = word_of(random, "ab*?ab*", 8);
        if (i % 2 == 1) pattern.insert(random() % (pattern.size() + 1), set());
        const std::string text = word_of(random, "abc", 8);
        const bool expected = fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
        ASSERT_EQ(pattern_matches(pattern.c_str(), text.c_str()), expected) << pattern << " on " << text;
        matched += expected;
    }
    EXPECT_GT(matched, 10'000u);
}

// The controller's, which judges by itself, on pieces of UTF-8 as well.
TEST(Glob, agrees_with_the_controllers) {
    std::mt19937 random(1);
    uint32_t matched = 0;
    for (int i = 0; i < 200'000; i++) {
        const std::string pattern = word_of(random, "a*?*[]-!^\\\xc3\xa9\xc3\xa9\xe2", 9);
        const std::string text = word_of(random, "a-]\xc3\xa9\xc3\xa9\xe2", 6);
        const bool expected = glob_matches(pattern, text);
        ASSERT_EQ(pattern_matches(pattern.c_str(), text.c_str()), expected) << pattern << " on " << text;
        matched += expected;
    }
    EXPECT_GT(matched, 5'000u);
}

TEST(Glob, is_quick_on_patterns_that_are_made_to_be_slow) {
    std::string pattern;
    for (int i = 0; i < 60; i++)
        pattern += "*a";
    pattern += "b";
    const std::string text(250, 'a');
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; i++)
        EXPECT_FALSE(pattern_matches(pattern.c_str(), text.c_str()));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

namespace {

class Room : public testing::Test {
protected:
    Room() {
        attachment.subbuf_bytes = 4096;
        attachment.ring_bytes = 16384;
        attachment.mode = PLUMB_MODE_DISCARD;
    }
    Step step(uint64_t write_pos, uint64_t limit, uint64_t consumed, uint64_t bytes) {
        control = {};
        control.limit = limit;
        control.consumed = consumed;
        plan = plan_write(attachment, control, write_pos, bytes);
        return plan.step;
    }
    Attachment attachment;
    plumb_ring_control control = {};
    Plan plan = {};
};

} // namespace

TEST_F(Room, follows_sub_buffers) {
    EXPECT_EQ(step(0, 0, 0, 16), Step::open); // a new ring
    EXPECT_EQ(plan.boundary, 4096u);
    EXPECT_EQ(step(0, 4096, 0, 1024), Step::write);
    EXPECT_EQ(step(4080, 4096, 0, 16), Step::write); // fills it exactly
    EXPECT_EQ(step(4080, 4096, 0, 24), Step::pad);
    EXPECT_EQ(plan.boundary, 4096u);
    EXPECT_EQ(step(4088, 4096, 0, 16), Step::pad); // too little room for a padding record
    EXPECT_EQ(step(4096, 4096, 0, 16), Step::open);
    EXPECT_EQ(plan.boundary, 8192u);
}

TEST_F(Room, ends_where_nothing_was_read) {
    EXPECT_EQ(step(12288, 12288, 0, 16), Step::open); // the last sub-buffer
    EXPECT_EQ(step(16384, 16384, 0, 16), Step::full);
    EXPECT_EQ(step(16384, 16384, 4095, 16), Step::full); // only whole ones are handed back
    EXPECT_EQ(step(16384, 16384, 4096, 16), Step::open);
    EXPECT_EQ(plan.boundary, 20480u);
    attachment.mode = PLUMB_MODE_BLOCK;
    EXPECT_EQ(step(16384, 16384, 0, 16), Step::full);
    attachment.mode = PLUMB_MODE_OVERWRITE;
    EXPECT_EQ(step(16384, 16384, 0, 16), Step::open);
}

TEST_F(Room, is_taken_back_when_a_channel_closes) {
    EXPECT_EQ(step(100 * 8, 0, 0, 16), Step::open); // which looks whether it is closed
    EXPECT_EQ(plan.boundary, 4096u);
}

// Positions may be anything: a plan is made, its boundary is the end of the sub-buffer, and a record that is
// written does not leave it.
TEST_F(Room, survives_damaged_positions) {
    std::mt19937_64 random(2);
    const auto any = [&]() -> uint64_t {
        const uint64_t specials[] = {0, 4096, UINT64_MAX, UINT64_MAX - 4095, 1ull << 63, 16384, 12345};
        return random() % 2 == 0 ? specials[random() % 7] : random() >> random() % 64;
    };
    for (int i = 0; i < 200'000; i++) {
        const uint64_t write_pos = any();
        const uint64_t limit = any();
        const uint64_t bytes = 16 + random() % 127 * 8;
        attachment.mode = 1 + static_cast<uint32_t>(random() % 3);
        if (step(write_pos, limit, any(), bytes) == Step::write) {
            ASSERT_LE(limit - write_pos, 4096u);
            ASSERT_LE(bytes, limit - write_pos);
        } else if (plan.step != Step::full) {
            ASSERT_EQ(plan.boundary % 4096, 0u);
            ASSERT_LE(plan.boundary - write_pos, 4096u);
        }
    }
}

using test::info_of;
using test::number;
using test::string;
using test::text;

TEST(Scratch, has_buffers_for_many_and_each_is_somebodys) {
    std::set<void*> buffers;
    for (int i = 0; i < 200; i++)
        buffers.insert(plumb_scratch_acquire());
    EXPECT_EQ(buffers.size(), 200u);
    EXPECT_EQ(buffers.count(nullptr), 0u);
    for (void* buffer : buffers)
        plumb_scratch_release(buffer);
    for (void* buffer : buffers)
        EXPECT_TRUE(ScratchPin(buffer).is_lost()) << "it was given back";
    void* const again = plumb_scratch_acquire();
    {
        const ScratchPin pin(again);
        EXPECT_FALSE(pin.is_lost());
        const ScratchPin none("something else");
        EXPECT_FALSE(none.is_lost());
    }
    plumb_scratch_release(again);
}

TEST(MarkerNames, come_from_the_format) {
    const auto names = [](const char* format, uint32_t count) {
        std::string all;
        for (uint32_t i = 0; i < count; i++) {
            char name[64];
            plumb_marker_field_name(format, i, name, sizeof(name));
            all += std::string(i == 0 ? "" : " ") + name;
        }
        return all;
    };
    EXPECT_EQ(names("id %d path %s", 2), "id path");
    EXPECT_EQ(names("id=%d, path: %s", 2), "id path");
    EXPECT_EQ(names("%d %s", 2), "arg0 arg1");
    EXPECT_EQ(names("took %lu ns of %zu%% by %-10.3f %hhx", 4), "took of by arg3");
    EXPECT_EQ(names("%d", 12), "arg0 arg1 arg2 arg3 arg4 arg5 arg6 arg7 arg8 arg9 arg10 arg11");
    EXPECT_EQ(names("100%% id %d", 1), "id");
    EXPECT_EQ(names("", 1), "arg0");
    EXPECT_EQ(names("%", 2), "arg0 arg1");
    EXPECT_EQ(names("path %.*s id %d user %d", 4), "arg0 path id user");
    EXPECT_EQ(names("cost %*d count %-*.*f", 5), "arg0 cost arg2 arg3 count");
    EXPECT_EQ(names("open %m path %s code %d", 2), "path code");
    EXPECT_EQ(names("failed: %m %s", 1), "failed");
    EXPECT_EQ(names("id %qd size %Lf big %'d", 3), "id size big");
    EXPECT_EQ(names("user %2$s id %1$d", 2), "id user");
    EXPECT_EQ(names("n %2$.*1$s m %3$d", 3), "arg0 n m");
    EXPECT_EQ(names("n %1$.*2$s hex %1$s", 2), "n arg1");
    EXPECT_EQ(names("n %3$*1$.*2$f id %4$08.3d", 4), "arg0 arg1 n id");
    EXPECT_EQ(names("%1$", 1), "arg0");
    char small[8];
    plumb_marker_field_name("averylongname %d", 0, small, sizeof(small));
    EXPECT_STREQ(small, "averylo");
    plumb_marker_field_name("%d", 123456789, small, sizeof(small));
    EXPECT_STREQ(small, "arg1234");
}

namespace {

// A channel in ordinary memory, as far as describing events, and entries, needs one.
struct Table {
    explicit Table(uint32_t slots, uint64_t heap = 1 << 20) : memory(4096 + slots * 8 + heap) {
        attachment.base = memory.data();
        attachment.header = reinterpret_cast<plumb_channel_header*>(memory.data());
        attachment.event_slots = attachment.entry_slots = reinterpret_cast<uint64_t*>(memory.data() + 4096);
        attachment.event_slot_count = attachment.entry_slot_count = slots;
        attachment.heap_offset = 4096 + slots * 8;
        attachment.heap_bytes = heap;
    }
    std::vector<unsigned char> memory;
    Attachment attachment;
};

} // namespace

TEST(EventTable, gives_equal_events_one_id_and_others_another) {
    Table table(64);
    const std::vector<plumb_event_field> fields = {number, string};
    const std::vector<plumb_event_field> other_fields = {number, text};
    plumb_event_info one = info_of(fields);
    plumb_event_info same = info_of(fields);
    same.source_file = "/somewhere/else.c"; // not part of the identity
    same.source_line = 99;
    plumb_event_info level = info_of(fields);
    level.log_level = PLUMB_ERR;
    const uint16_t id = event_id_in(table.attachment, one);
    EXPECT_NE(id, 0);
    EXPECT_EQ(event_id_in(table.attachment, same), id);
    EXPECT_NE(event_id_in(table.attachment, level), id);
    EXPECT_NE(event_id_in(table.attachment, info_of(other_fields)), id);
    EXPECT_NE(event_id_in(table.attachment, info_of(fields, "other")), id);
}

TEST(EventTable, counts_what_finds_no_slot) {
    Table table(16);
    std::vector<std::string> names;
    for (int i = 0; i < 20; i++)
        names.push_back("event" + std::to_string(i));
    uint32_t refused = 0;
    for (const std::string& name : names)
        refused += event_id_in(table.attachment, info_of({}, name.c_str())) == 0;
    EXPECT_EQ(refused, 5u); // slot 0 is not an event
    EXPECT_EQ(table.attachment.header->refused[PLUMB_REFUSED_EVENT_SLOTS], 5u);
    EXPECT_NE(event_id_in(table.attachment, info_of({}, names[0].c_str())), 0); // those that are in stay
}

TEST(EventTable, counts_what_finds_no_heap) {
    Table table(64, 200); // of some 130 bytes each, one fits
    const std::vector<plumb_event_field> fields = {number, string, text};
    EXPECT_NE(event_id_in(table.attachment, info_of(fields, "a")), 0);
    EXPECT_EQ(event_id_in(table.attachment, info_of(fields, "b")), 0);
    EXPECT_EQ(table.attachment.header->refused[PLUMB_REFUSED_HEAP], 1u);
    EXPECT_NE(event_id_in(table.attachment, info_of(fields, "a")), 0);
}

TEST(EventTable, takes_no_heap_for_what_finds_none) {
    Table table(64, 200);
    const uint64_t& used = table.attachment.header->heap_used;
    EXPECT_EQ(reserve_heap(table.attachment, 150), table.attachment.heap_offset);
    EXPECT_EQ(used, 152u);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(reserve_heap(table.attachment, 49), 0u);
    EXPECT_EQ(used, 152u);
    EXPECT_EQ(reserve_heap(table.attachment, 48), table.attachment.heap_offset + 152);
    EXPECT_EQ(reserve_heap(table.attachment, 1), 0u);
    EXPECT_EQ(used, 200u);
    for (const uint64_t damaged : {uint64_t{4}, uint64_t{208}, UINT64_MAX - 7}) {
        table.attachment.header->heap_used = damaged;
        EXPECT_EQ(reserve_heap(table.attachment, 8), 0u) << damaged;
    }
}

TEST(EventTable, refuses_what_cannot_be_described) {
    Table table(64);
    const std::vector<plumb_event_field> many(33, number);
    EXPECT_EQ(event_id_in(table.attachment, info_of(many)), 0);
    const std::string long_name(70'000, 'x');
    EXPECT_EQ(event_id_in(table.attachment, info_of({}, long_name.c_str())), 0);
}

TEST(EventTable, does_not_believe_damaged_slots) {
    std::mt19937_64 random(3);
    const std::vector<plumb_event_field> fields = {number};
    for (int round = 0; round < 2000; round++) {
        Table table(16);
        for (uint32_t slot = 0; slot < 16; slot++) {
            if (random() % 4 != 0) table.attachment.event_slots[slot] = random() >> random() % 64;
        }
        event_id_in(table.attachment, info_of(fields)); // must not read outside (a sanitizer tells)
    }
}

namespace {

// How many entries of this type find room.
uint32_t entries_that_fit(Table& table, plumb_entry_type type) {
    uint32_t fitted = 0;
    const auto refused = [&] { return table.attachment.header->refused[PLUMB_REFUSED_ENTRY_SLOTS]; };
    const uint64_t before = refused();
    while (refused() == before) {
        plumb_entry_object entry{};
        entry.entry.type = type;
        entry.entry.process_id = 7;
        add_entry(table.attachment, entry.entry, sizeof(entry));
        fitted++;
    }
    return fitted - 1;
}

} // namespace

TEST(EntryTable, objects_leave_half_of_the_slots_to_processes_and_threads) {
    Table table(64);
    EXPECT_EQ(entries_that_fit(table, PLUMB_ENTRY_OBJECT), 32u);
    EXPECT_EQ(entries_that_fit(table, PLUMB_ENTRY_THREAD), 32u);
}

TEST(EntryTable, objects_leave_half_of_the_heap_to_processes_and_threads) {
    constexpr uint32_t block = PLUMB_ENTRY_CAPACITY(sizeof(plumb_entry_object));
    Table table(64, 16 * block);
    EXPECT_EQ(entries_that_fit(table, PLUMB_ENTRY_OBJECT), 6u);
    EXPECT_EQ(entries_that_fit(table, PLUMB_ENTRY_THREAD), 6u); // the rest is for descriptions of events
}

// A controller took the slot for left over and freed it; another process has it now.
TEST(Slot, is_not_acknowledged_in_for_somebody_else) {
    plumb_state_header state = {};
    plumb_process slot = {};
    auto* const state_before = runtime.state;
    auto* const slot_before = runtime.slot;
    const uint64_t claim_before = runtime.claim;
    runtime.state = &state;
    runtime.slot = &slot;
    runtime.claim = slot.claim = PLUMB_CLAIM(1u, 4711u, 1u);
    acknowledge(5);
    EXPECT_EQ(slot.acknowledged, 5u);
    slot.claim = PLUMB_CLAIM(1u, 4712u, 2u);
    acknowledge(6);
    EXPECT_EQ(slot.acknowledged, 5u);
    runtime.state = state_before;
    runtime.slot = slot_before;
    runtime.claim = claim_before;
}
