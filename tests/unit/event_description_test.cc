// cmake-once
// Descriptions of events in a channel: what is written is what is read, whatever an event has; and of what is damaged, the
// reason, at every limit.
#include "consumerd/event/elf_events.h"

#include "tests/support/channel_builder.h"

#include <plumb/abi/context.h>
#include <plumb/abi/event.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace plumb {
namespace {

using test::field;
using test::integer;
using testing::ElementsAre;
using testing::HasSubstr;

EventField with_labels(EventField field, std::vector<EventLabel> labels) {
    field.labels = std::move(labels);
    return field;
}

EventField floats(const std::string& name, uint8_t size) {
    EventField sequence = field(name, PLUMB_FIELD_SEQUENCE, size);
    sequence.has_floats = true;
    return sequence;
}

EventDescription everything() {
    EventDescription event;
    event.provider = "shop";
    event.name = "everything";
    event.log_level = 6;
    event.source_file = "shop/all.c";
    event.source_line = 0x10203;
    EventField levels = field("levels", PLUMB_FIELD_ENUM, 2);
    levels.is_signed = true;
    EventField states = field("states", PLUMB_FIELD_ENUM, 8);
    EventField colors = field("colors", PLUMB_FIELD_ENUM, 4);
    colors.hex = true;
    event.fields = {integer("i", 1, true),
                    integer("u", 2),
                    integer("x", 4, false, true),
                    integer("n", 8),
                    field("f", PLUMB_FIELD_FLOAT, 4),
                    field("d", PLUMB_FIELD_FLOAT, 8),
                    field("s", PLUMB_FIELD_STRING, 1),
                    field("t", PLUMB_FIELD_TEXT, 1),
                    field("a", PLUMB_FIELD_ARRAY, 4, 300),
                    field("q", PLUMB_FIELD_SEQUENCE, 2),
                    floats("prices", 4),
                    floats("totals", 8),
                    with_labels(levels, {{-5, "low"}, {300, "high"}}),
                    with_labels(states, {{-1, "last"}, {0, "first"}, {7, "seventh"}}),
                    with_labels(colors, {{1, "red"}})};
    return event;
}

void expect_equal(const EventDescription& found, const EventDescription& expected) {
    EXPECT_EQ(found.full_name(), expected.full_name());
    EXPECT_EQ(found.log_level, expected.log_level);
    EXPECT_EQ(found.source_file, expected.source_file);
    EXPECT_EQ(found.source_line, expected.source_line);
    ASSERT_EQ(found.fields.size(), expected.fields.size());
    for (size_t i = 0; i < found.fields.size(); i++) {
        EXPECT_EQ(found.fields[i].name, expected.fields[i].name);
        EXPECT_EQ(found.fields[i].type, expected.fields[i].type);
        EXPECT_EQ(found.fields[i].size, expected.fields[i].size);
        EXPECT_EQ(found.fields[i].is_signed, expected.fields[i].is_signed);
        EXPECT_EQ(found.fields[i].hex, expected.fields[i].hex);
        EXPECT_EQ(found.fields[i].has_floats, expected.fields[i].has_floats);
        EXPECT_EQ(found.fields[i].array_length, expected.fields[i].array_length);
        EXPECT_EQ(found.fields[i].labels, expected.fields[i].labels);
    }
}

TEST(EventDescription, IsReadAsItWasWritten) {
    const std::vector<std::byte> bytes = encode_event_description(everything());
    EXPECT_EQ(bytes.size() % 8, 0u);
    const auto found = decode_event_description(bytes);
    ASSERT_TRUE(found) << found.error().message();
    expect_equal(*found, everything());

    /* Of whatever length its strings are, and without what it need not have. */
    for (size_t letters = 1; letters < 20; letters++) {
        EventDescription least;
        least.provider = "p";
        least.name = std::string(letters, 'n');
        least.log_level = 0;
        const std::vector<std::byte> written = encode_event_description(least);
        EXPECT_EQ(written.size(), (sizeof(plumb_event_header) + 2 + letters + 1 + 7) / 8 * 8);
        const auto read = decode_event_description(written);
        ASSERT_TRUE(read) << letters;
        expect_equal(*read, least);
    }
}

EventDescription ranges() {
    EventDescription event;
    event.provider = "shop";
    event.name = "ranges";
    event.log_level = 6;
    EventField numbers = field("signed", PLUMB_FIELD_ENUM, 8);
    numbers.is_signed = true;
    event.fields = {
        with_labels(numbers, {{INT64_MIN, 9, "low"}, {5, "five"}, {20, 29, "low"}, {10, INT64_MAX, "high"}}),
        with_labels(field("unsigned", PLUMB_FIELD_ENUM, 8), {{0, 9, "low"}, {10, -2, "high"}, {-1, "last"}}),
        with_labels(field("single", PLUMB_FIELD_ENUM, 2), {{1, "one"}, {2, "two"}})};
    return event;
}

template <typename T>
T struct_at(const std::vector<std::byte>& bytes, size_t offset) {
    T found;
    std::memcpy(&found, bytes.data() + offset, sizeof(found));
    return found;
}

TEST(EventDescription, HasFirstAndLastValuesOfRanges) {
    const std::vector<std::byte> bytes = encode_event_description(ranges());
    const auto found = decode_event_description(bytes);
    ASSERT_TRUE(found) << found.error().message();
    expect_equal(*found, ranges());
    EXPECT_EQ(found->fields[0].type_name(),
              "enum i64 { low = -9223372036854775808 ... 9, five = 5, low = 20 ... 29, high = 10 ... "
              "9223372036854775807 }");
    EXPECT_EQ(found->fields[1].type_name(),
              "enum u64 { low = 0 ... 9, high = 10 ... 18446744073709551614, last = 18446744073709551615 }");

    /* Who knows no ranges sees a label for each of the two. */
    EXPECT_EQ(struct_at<plumb_event_header>(bytes, 0).label_count, 16);
    std::vector<int> counts, flags;
    for (size_t i = 0; i < 3; i++) {
        const auto each = struct_at<plumb_field>(bytes, sizeof(plumb_event_header) + i * sizeof(plumb_field));
        counts.push_back(each.label_count);
        flags.push_back(each.flags);
    }
    EXPECT_THAT(counts, ElementsAre(8, 6, 2));
    EXPECT_THAT(flags, ElementsAre(PLUMB_FIELD_RANGES | PLUMB_FIELD_SIGNED, PLUMB_FIELD_RANGES, 0));
    std::vector<int64_t> values;
    for (size_t i = 8; i < 16; i++)
        values.push_back(struct_at<plumb_label>(bytes, sizeof(plumb_event_header) + 3 * sizeof(plumb_field) +
                                                           i * sizeof(plumb_label))
                             .value);
    EXPECT_THAT(values, ElementsAre(0, 9, 10, -2, -1, -1, 1, 2));
}

TEST(EventDescription, NamesAValueByTheFirstLabelThatHasIt) {
    const EventDescription event = ranges();
    const auto name_of = [](const EventField& field, int64_t value) {
        const EventLabel* const label = field.label_of(value);
        return label == nullptr ? "" : label->name;
    };
    for (const auto& [value, name] : {std::pair{INT64_MIN, "low"},
                                      {5, "low"},
                                      {9, "low"},
                                      {10, "high"},
                                      {25, "low"},
                                      {30, "high"},
                                      {INT64_MAX, "high"}})
        EXPECT_EQ(name_of(event.fields[0], value), name) << value;
    for (const auto& [value, name] : {std::pair{int64_t{0}, "low"},
                                      {9, "low"},
                                      {10, "high"},
                                      {INT64_MAX, "high"},
                                      {INT64_MIN, "high"},
                                      {-2, "high"},
                                      {-1, "last"}})
        EXPECT_EQ(name_of(event.fields[1], value), name) << value;
    for (const auto& [value, name] : {std::pair{int64_t{0}, ""}, {1, "one"}, {2, "two"}, {3, ""}})
        EXPECT_EQ(name_of(event.fields[2], value), name) << value;
}

/* Where an event stands in the source makes it no other event. */
TEST(EventDescription, IdentityIsAllButTheSource) {
    EventDescription here = everything(), there = everything();
    there.source_file = "elsewhere/and/longer.c";
    there.source_line = 9;
    const auto identity = [](const std::vector<std::byte>& bytes) {
        plumb_event_header header;
        std::memcpy(&header, bytes.data(), sizeof(header));
        const size_t begin = offsetof(plumb_event_header, provider_offset);
        return std::vector<std::byte>(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                      bytes.begin() + header.identity_end);
    };
    const auto one = encode_event_description(here), other = encode_event_description(there);
    EXPECT_NE(one, other);
    EXPECT_EQ(identity(one), identity(other));
    EXPECT_EQ(identity(one).back(), std::byte{0}) << "with the end of the last name";
    here.fields.back().labels.back().name = "rec";
    EXPECT_NE(identity(encode_event_description(here)), identity(other));
}

TEST(EventDescription, TypesAreNamedAsInTheSource) {
    const std::vector<std::string> names{"i8",
                                         "u16",
                                         "x32",
                                         "u64",
                                         "f32",
                                         "f64",
                                         "string",
                                         "text",
                                         "u32[300]",
                                         "u16[]",
                                         "f32[]",
                                         "f64[]",
                                         "enum i16 { low = -5, high = 300 }",
                                         "enum u64 { last = 18446744073709551615, first = 0, seventh = 7 }",
                                         "enum x32 { red = 1 }"};
    const EventDescription event = everything();
    for (size_t i = 0; i < names.size(); i++)
        EXPECT_EQ(event.fields[i].type_name(), names[i]);
    /* Bits of a field are those that it has. */
    EventField flags = with_labels(integer("flags", 4, false, true), {{-1, "ALL"}, {0x40, "IO"}});
    EXPECT_EQ(flags.type_name(), "x32");
    flags.has_flags = true;
    EXPECT_EQ(flags.type_name(), "flags x32 { ALL = 0xffffffff, IO = 0x40 }");
    flags.size = 1;
    EXPECT_EQ(flags.type_name(), "flags x8 { ALL = 0xff, IO = 0x40 }");
    flags.size = 8;
    EXPECT_EQ(flags.type_name(), "flags x64 { ALL = 0xffffffffffffffff, IO = 0x40 }");
}

class DamagedDescription : public testing::Test {
protected:
    /* What is said of the description behind this change of its bytes; nothing if it can be read. */
    std::string complaint(const std::function<void(plumb_event_header&)>& change) {
        std::vector<std::byte> bytes = bytes_;
        plumb_event_header header;
        std::memcpy(&header, bytes.data(), sizeof(header));
        change(header);
        std::memcpy(bytes.data(), &header, sizeof(header));
        return complaint_of(bytes);
    }
    std::string field_complaint(size_t number, const std::function<void(plumb_field&)>& change) {
        std::vector<std::byte> bytes = bytes_;
        plumb_field field;
        std::byte* const at = bytes.data() + sizeof(plumb_event_header) + number * sizeof(field);
        std::memcpy(&field, at, sizeof(field));
        change(field);
        std::memcpy(at, &field, sizeof(field));
        return complaint_of(bytes);
    }
    static std::string complaint_of(std::span<const std::byte> bytes) {
        const auto found = decode_event_description(bytes);
        return found ? "" : found.error().message();
    }
    static std::string damaged(const std::string& how) {
        return "The description of an event is damaged: " + how + ".";
    }

    const std::vector<std::byte> bytes_ = encode_event_description(everything());
    const uint32_t size_ = static_cast<uint32_t>(bytes_.size());
    const uint16_t fields_ = static_cast<uint16_t>(everything().fields.size());
};

TEST_F(DamagedDescription, IsRefusedWhereverItIsCut) {
    for (size_t bytes = 0; bytes < bytes_.size(); bytes++)
        EXPECT_EQ(complaint_of(std::span(bytes_).first(bytes)), damaged("it is too short")) << bytes;
    /* What it says of its own length counts, too. */
    std::vector<std::byte> longer = bytes_;
    longer.resize(bytes_.size() + 100);
    EXPECT_EQ(complaint_of(longer), "");
    plumb_event_header sound;
    std::memcpy(&sound, bytes_.data(), sizeof(sound));
    for (uint32_t bytes = 0; bytes < sound.identity_end; bytes++)
        EXPECT_THAT(complaint([=](auto& header) { header.total_bytes = bytes; }), HasSubstr("damaged"))
            << bytes;
    EXPECT_EQ(complaint([&](auto& header) { header.total_bytes = sound.identity_end; }), "");
    EXPECT_EQ(complaint([this](auto& header) { header.total_bytes = size_ + 1; }),
              damaged("it is too short"));
}

TEST_F(DamagedDescription, IsReadUpToItsGreatestLength) {
    std::vector<std::byte> bytes = bytes_;
    bytes.resize(PLUMB_EVENT_MAX_DESCRIPTION_BYTES + 8);
    uint32_t total = PLUMB_EVENT_MAX_DESCRIPTION_BYTES;
    std::memcpy(bytes.data(), &total, sizeof(total));
    EXPECT_EQ(complaint_of(bytes), "");
    total++;
    std::memcpy(bytes.data(), &total, sizeof(total));
    EXPECT_EQ(complaint_of(bytes), damaged("it is too long"));
}

TEST_F(DamagedDescription, SaysWhatIsWrongWithIt) {
    EXPECT_EQ(complaint([this](auto& h) { h.provider_offset = size_; }), damaged("it has no name"));
    EXPECT_EQ(complaint([this](auto& h) { h.name_offset = size_; }), damaged("it has no name"));
    EXPECT_EQ(complaint([](auto& h) { h.name_offset = UINT32_MAX; }), damaged("it has no name"));
    EXPECT_EQ(complaint([this](auto& h) { h.provider_offset = size_ - 1; }), damaged("it has no name"));
    EXPECT_EQ(complaint([this](auto& h) { h.name_offset = size_ - 1; }), damaged("it has no name"));
    EXPECT_EQ(
        complaint([](auto& h) { h.field_count = PLUMB_CONTEXT_MAX_FIELDS + PLUMB_EVENT_MAX_FIELDS + 1; }),
        damaged("too many fields"));
    EXPECT_EQ(complaint([](auto& h) { h.label_count = 5; }), damaged("labels out of range"));
    EXPECT_EQ(complaint([](auto& h) { h.label_count = 6; }), "");
    EXPECT_EQ(field_complaint(0, [this](auto& f) { f.name_offset = size_; }),
              damaged("a field without a name"));
    EXPECT_EQ(field_complaint(0, [this](auto& f) { f.name_offset = size_ - 1; }),
              damaged("a field without a name"));
    EXPECT_EQ(field_complaint(0, [](auto& f) { f.type = PLUMB_FIELD_INTEGER - 1; }),
              damaged("a field of no known type"));
    EXPECT_EQ(field_complaint(0, [](auto& f) { f.type = PLUMB_FIELD_SEQUENCE + 1; }),
              damaged("a field of no known type"));
    EXPECT_EQ(field_complaint(0, [](auto& f) { f.type = PLUMB_FIELD_SEQUENCE; }), "");
    EXPECT_EQ(field_complaint(0, [](auto& f) { f.label_first = 6; }), "") << "none of them";
    EXPECT_EQ(field_complaint(0, [](auto& f) { f.label_first = 7; }), damaged("labels out of range"));
    EXPECT_EQ(field_complaint(14, [](auto& f) { f.label_first = 6; }), damaged("labels out of range"));
    EXPECT_EQ(field_complaint(14, [](auto& f) { f.label_first = 4; }), "");
    EXPECT_EQ(field_complaint(14, [](auto& f) { f.label_count = 2; }), damaged("labels out of range"));

    std::vector<std::byte> nameless = bytes_;
    const size_t label = sizeof(plumb_event_header) + fields_ * sizeof(plumb_field);
    std::memcpy(nameless.data() + label + offsetof(plumb_label, name_offset), &size_, sizeof(size_));
    EXPECT_EQ(complaint_of(nameless), damaged("a label without a name"));

    /* Where it stands in the source is not worth an event. */
    EXPECT_EQ(complaint([this](auto& h) { h.source_offset = size_; }), "");
}

TEST_F(DamagedDescription, HasRangesWithTwoEndsInOrder) {
    const auto complaint_of_label = [](size_t number, const std::function<void(plumb_label&)>& change) {
        std::vector<std::byte> bytes = encode_event_description(ranges());
        std::byte* const at = bytes.data() + sizeof(plumb_event_header) + 3 * sizeof(plumb_field) +
                              number * sizeof(plumb_label);
        plumb_label label;
        std::memcpy(&label, at, sizeof(label));
        change(label);
        std::memcpy(at, &label, sizeof(label));
        return complaint_of(bytes);
    };
    const auto value = [](int64_t to) { return [to](plumb_label& label) { label.value = to; }; };
    const std::string order = damaged("a range that ends before it begins");
    /* Of the signed field, -2^63 ... 9; of the unsigned one, 10 ... 2^64 - 2. */
    EXPECT_EQ(complaint_of_label(0, value(9)), "");
    EXPECT_EQ(complaint_of_label(0, value(10)), order);
    EXPECT_EQ(complaint_of_label(1, value(INT64_MIN)), "");
    EXPECT_EQ(complaint_of_label(10, value(-2)), "");
    EXPECT_EQ(complaint_of_label(10, value(-1)), order);
    EXPECT_EQ(complaint_of_label(11, value(10)), "");
    EXPECT_EQ(complaint_of_label(11, value(9)), order);
    EXPECT_EQ(complaint_of_label(15, value(0)), "") << "no range";
    plumb_label other{};
    complaint_of_label(2, [&](plumb_label& label) { other = label; });
    EXPECT_EQ(complaint_of_label(1, [&](plumb_label& label) { label.name_offset = other.name_offset; }),
              damaged("a range of two names"));

    std::vector<std::byte> odd = encode_event_description(ranges());
    odd[sizeof(plumb_event_header) + offsetof(plumb_field, label_count)] = std::byte{7};
    EXPECT_EQ(complaint_of(odd), damaged("a range without an end"));
}

/* Fields and labels that the description has no room for. */
TEST_F(DamagedDescription, HasNoMoreFieldsOrLabelsThanItHasRoomFor) {
    EventDescription one;
    one.provider = "p";
    one.name = "n";
    one.fields = {field("e", PLUMB_FIELD_ENUM, 1)};
    std::vector<std::byte> bytes = encode_event_description(one);
    plumb_event_header header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.field_count = 2;
    std::memcpy(bytes.data(), &header, sizeof(header));
    EXPECT_EQ(complaint_of(bytes), damaged("fields out of range"));
    header.field_count = 1;
    header.label_count = 1;
    std::memcpy(bytes.data(), &header, sizeof(header));
    plumb_field field;
    std::memcpy(&field, bytes.data() + sizeof(header), sizeof(field));
    field.label_count = 1;
    std::memcpy(bytes.data() + sizeof(header), &field, sizeof(field));
    EXPECT_EQ(complaint_of(bytes), damaged("labels out of range"));
}

TEST_F(DamagedDescription, HasTheMostFieldsThatAnEventMayHave) {
    EventDescription many;
    many.provider = "p";
    many.name = "n";
    for (size_t i = 0; i < PLUMB_EVENT_MAX_FIELDS; i++)
        many.fields.push_back(integer(fmt::format("f{}", i), 4));
    const auto found = decode_event_description(encode_event_description(many));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->fields.back().name, "f31");

    /* Beside those of its session's context. */
    EventField context = integer("c", 4);
    context.is_context = true;
    many.fields.insert(many.fields.begin(), PLUMB_CONTEXT_MAX_FIELDS, context);
    const auto with_context = decode_event_description(encode_event_description(many));
    ASSERT_TRUE(with_context);
    EXPECT_EQ(with_context->fields.size(), PLUMB_CONTEXT_MAX_FIELDS + PLUMB_EVENT_MAX_FIELDS);
    EXPECT_TRUE(with_context->fields[PLUMB_CONTEXT_MAX_FIELDS - 1].is_context);
    EXPECT_FALSE(with_context->fields[PLUMB_CONTEXT_MAX_FIELDS].is_context);
    many.fields.erase(many.fields.begin());
    many.fields.push_back(integer("one_more", 4));
    EXPECT_EQ(decode_event_description(encode_event_description(many)).error().message(),
              damaged("too many fields"));
}

TEST_F(DamagedDescription, HasContextInFrontOfItsOwnFields) {
    EventDescription event;
    event.provider = "p";
    event.name = "n";
    event.fields = {integer("own", 4), integer("context", 4)};
    event.fields[1].is_context = true;
    EXPECT_EQ(decode_event_description(encode_event_description(event)).error().message(),
              damaged("context behind the event's own fields"));
    std::swap(event.fields[0], event.fields[1]);
    EXPECT_TRUE(decode_event_description(encode_event_description(event)));
}

/* Readers know no level behind the last one. */
TEST_F(DamagedDescription, HasALevelThatThereIs) {
    for (const int level : {0, 13, 14, 15, 255}) {
        EventDescription event = everything();
        event.log_level = static_cast<uint8_t>(level);
        EXPECT_EQ(decode_event_description(encode_event_description(event))->log_level, std::min(level, 14));
    }
}

} // namespace
} // namespace plumb
