/* Which bytes can be an event's payload: each field has a room of its own, and nothing is left over. */
// cmake-once
#include "consumerd/event/channel_event.h"

#include <gtest/gtest.h>

#include <string>

namespace plumb {
namespace {

EventField field_of(plumb_field_type type, std::uint8_t size) {
    EventField field{};
    field.type = type;
    field.size = size;
    return field;
}

class PayloadShapeTest : public ::testing::Test {
protected:
    void add(plumb_field_type type, std::uint8_t size) { ASSERT_TRUE(shape_.add(field_of(type, size))); }

    bool matches(const std::string& payload) const {
        return shape_.matches(reinterpret_cast<const std::byte*>(payload.data()), payload.size());
    }

    PayloadShape shape_;
};

TEST_F(PayloadShapeTest, a_string_may_be_empty_wherever_it_stands) {
    add(PLUMB_FIELD_STRING, 1);
    add(PLUMB_FIELD_STRING, 1);
    EXPECT_TRUE(matches({"\0\0", 2}));
    EXPECT_TRUE(matches({"a\0\0", 3}));
    EXPECT_TRUE(matches({"\0a\0", 3}));
}

TEST_F(PayloadShapeTest, a_string_has_an_end) {
    add(PLUMB_FIELD_INTEGER, 4);
    add(PLUMB_FIELD_STRING, 1);
    EXPECT_TRUE(matches({"1234a\0", 6}));
    EXPECT_FALSE(matches({"1234a", 5}));
    EXPECT_FALSE(matches({"1234", 4}));
}

TEST_F(PayloadShapeTest, a_sequence_has_as_many_elements_as_it_says) {
    add(PLUMB_FIELD_SEQUENCE, 4);
    EXPECT_TRUE(matches({"\0\0", 2}));
    EXPECT_TRUE(matches({"\1\0abcd", 6}));
    EXPECT_FALSE(matches({"\1\0abc", 5}));
    EXPECT_FALSE(matches({"\1\0abcde", 7}));
    EXPECT_FALSE(matches({"\1", 1}));
}

TEST(PayloadShape, a_floating_point_number_has_four_or_eight_bytes) {
    for (const uint8_t size : {uint8_t{1}, uint8_t{2}, uint8_t{4}, uint8_t{8}}) {
        EventField field{"f", PLUMB_FIELD_SEQUENCE, size, false, false, 0, {}};
        field.has_floats = true;
        PayloadShape shape;
        EXPECT_EQ(shape.add(field), size >= 4) << int{size};
    }
}

TEST_F(PayloadShapeTest, no_payload_is_shorter_than_its_fixed_fields_ends_of_strings_and_counts) {
    add(PLUMB_FIELD_STRING, 1);
    EXPECT_EQ(shape_.least_bytes(), 1u);
    add(PLUMB_FIELD_INTEGER, 4);
    EXPECT_EQ(shape_.least_bytes(), 5u);
    add(PLUMB_FIELD_SEQUENCE, 8);
    EXPECT_EQ(shape_.least_bytes(), 7u);
}

TEST_F(PayloadShapeTest, nothing_is_left_over) {
    add(PLUMB_FIELD_STRING, 1);
    add(PLUMB_FIELD_INTEGER, 2);
    EXPECT_TRUE(matches({"\0ab", 3}));
    EXPECT_FALSE(matches({"\0abc", 4}));
    EXPECT_FALSE(matches({"\0a", 2}));
}

} // namespace
} // namespace plumb
