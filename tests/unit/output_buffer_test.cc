/* What comes from a trace may be any bytes: what stands in the output is UTF-8, and steers no terminal. */
// cmake-once
#include "base/output_buffer.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

void stands_as_it_is(const std::string& text) {
    EXPECT_EQ(escaped(text), text);
    EXPECT_EQ(json_string(text), '"' + text + '"');
}

/* No byte of it, but for what stands behind as plain text, is left. */
void is_escaped(const std::string& text, const std::string& in_text) {
    EXPECT_EQ(escaped(text), in_text);
    for (const char c : escaped(text))
        EXPECT_LT(static_cast<unsigned char>(c), 0x80u) << in_text;
}

TEST(output_buffer, characters_of_each_length_stand_as_they_are) {
    stands_as_it_is("plain ~");
    stands_as_it_is("\u00a0 \u00e9 \u07ff");
    stands_as_it_is("\u0800 \u20ac \ud7ff \uffff");
    stands_as_it_is("\U00010000 \U0001f600 \U000fffff \U0010ffff");
    stands_as_it_is(
        "\xf1\x80\x80\x80 \xf1\x90\x80\x80 \xf3\xbf\xbf\xbf"); /* in the middle: any second byte */
}

TEST(output_buffer, what_is_no_character_is_escaped) {
    is_escaped("\x80", "\\x80");                            /* no beginning */
    is_escaped("\xc2\x9f", "\\xc2\\x9f");                   /* steers terminals */
    is_escaped("\xc1\xbf", "\\xc1\\xbf");                   /* longer than it has to be */
    is_escaped("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf");          /* likewise */
    is_escaped("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* half of a pair */
    is_escaped("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"); /* longer than it has to be */
    is_escaped("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond U+10FFFF */
    is_escaped("\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80");
}

/* The rest of a terminal's line would be shown in another order. JSON is for programs, which put it in order themselves. */
TEST(output_buffer, what_turns_the_direction_of_a_line_is_escaped) {
    is_escaped("a\u202eb", "a\\xe2\\x80\\xaeb");
    is_escaped("\u061c\u200e\u200f", "\\xd8\\x9c\\xe2\\x80\\x8e\\xe2\\x80\\x8f");
    is_escaped("\u202a\u2066\u2069", "\\xe2\\x80\\xaa\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
    stands_as_it_is("\u061b\u061d\u200d\u2010\u2029\u202f\u2065\u206a \u05d0\u05d1");
    EXPECT_EQ(json_string("\u202e"), "\"\u202e\"");
    EXPECT_EQ(without_controls("\u202e"), "\\xe2\\x80\\xae");
}

TEST(output_buffer, a_message_steers_no_terminal) {
    EXPECT_EQ(without_controls("There is no \"a\\b\".\n"), "There is no \"a\\b\".\n");
    EXPECT_EQ(without_controls("\033]0;x\007\xc2\x9b"), "\\x1b]0;x\\x07\\xc2\\x9b");
}

TEST(output_buffer, a_character_that_is_cut_is_escaped) {
    is_escaped("a\xc3", "a\\xc3");
    is_escaped("a\xe2\x82", "a\\xe2\\x82");
    is_escaped("a\xf0\x9f\x98", "a\\xf0\\x9f\\x98");
    is_escaped("\xe2\x82 \xac", "\\xe2\\x82 \\xac");
    is_escaped("\xf0\x9f z\x80", "\\xf0\\x9f z\\x80");
}

TEST(output_buffer, characters_that_mean_something_are_escaped) {
    EXPECT_EQ(escaped("\"\\\n\t\r\x01\x7f"), "\\\"\\\\\\n\\t\\r\\x01\\x7f");
    EXPECT_EQ(json_string("\"\\\n\t\r\x01\x7f"), "\"\\\"\\\\\\n\\t\\r\\u0001\\u007f\"");
    EXPECT_EQ(json_string("a\x80z"), "\"a\xef\xbf\xbdz\"");
    EXPECT_EQ(json_string("a\xc2\x80\xc2\x9fz"), "\"a\\u0080\\u009fz\""); /* they steer terminals, too */
    EXPECT_EQ(json_string("a\xc2"), "\"a\xef\xbf\xbd\"");
}

TEST(output_buffer, what_does_not_fit_makes_the_buffer_grow) {
    OutputBuffer out(-1);
    const std::string part(100'000, 'x');
    for (int i = 0; i < 10; i++)
        out.put(part);
    out.put('!');
    EXPECT_EQ(out.text().size(), 1'000'001u);
    EXPECT_EQ(out.text().back(), '!');
}

} // namespace
} // namespace plumb
