// cmake-once
/* DWARF expressions and numbers, by the standard's table (DWARF 4, section 7.7.1): every operation that frames use with values at all
 * borders, as C counts them; every way to write a number; and every expression that lacks something. */
#include "libtrace/context/cursor.h"
#include "libtrace/context/expression.h"
#include "tests/support/made_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

namespace plumb::context {
namespace {

using test::Bytes;
using test::joined;
using test::little_endian;
using Maybe = std::optional<uint64_t>;

constexpr uint64_t start = 0x10000;

/* Bytes at `start`, and nothing else. */
struct TestMemory : Memory {
    explicit TestMemory(Bytes there) : Memory{read_here}, bytes(std::move(there)) {}
    static bool read_here(Memory& memory, uint64_t address, void* to, uint32_t count) {
        const Bytes& bytes = static_cast<TestMemory&>(memory).bytes;
        if (address < start || address - start > bytes.size() || count > bytes.size() - (address - start))
            return false;
        std::memcpy(to, bytes.data() + (address - start), count);
        return true;
    }
    Bytes bytes;
};

Bytes uleb(uint64_t value) {
    Bytes made;
    do {
        made.push_back(static_cast<uint8_t>((value & 0x7f) | (value >> 7 != 0 ? 0x80 : 0)));
        value >>= 7;
    } while (value != 0);
    return made;
}
Bytes sleb(int64_t value) {
    Bytes made;
    for (bool is_last = false; !is_last;) {
        const auto low = static_cast<uint8_t>(value & 0x7f);
        value >>= 7;
        is_last = (value == 0 && (low & 0x40) == 0) || (value == -1 && (low & 0x40) != 0);
        made.push_back(static_cast<uint8_t>(low | (is_last ? 0 : 0x80)));
    }
    return made;
}
Bytes pushed(uint64_t value) { /* const8u */
    return joined({{0x0e}, little_endian(value, 8)});
}

/* With rbx = 5 and column 16 = 1000; behind the expression stand the bytes 0x81 to 0x88. */
Maybe value_of(const Bytes& expression, const uint64_t* first = nullptr) {
    TestMemory memory(
        joined({uleb(expression.size()), expression, {0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88}}));
    Registers registers;
    registers.set(register_rbx, 5);
    registers.set(register_rip, 1000);
    uint64_t result = 0;
    if (!evaluate(memory, registers, start, first, result)) return {};
    return result;
}

constexpr uint64_t borders[] = {0,
                                1,
                                2,
                                3,
                                63,
                                64,
                                65,
                                127,
                                128,
                                255,
                                256,
                                0x7fffffff,
                                0x80000000,
                                0xffffffff,
                                INT64_MAX,
                                uint64_t{1} << 63,
                                UINT64_MAX - 1,
                                UINT64_MAX};

TEST(DwarfExpressions, CountAsTheStandardSays) {
    using Two = std::function<Maybe(uint64_t, uint64_t)>;
    const auto truth = [](bool is) { return Maybe(is ? 1 : 0); };
    const auto of = [](uint64_t value) { return static_cast<int64_t>(value); };
    const std::pair<uint8_t, Two> all[] = {
        {0x1a, [](uint64_t a, uint64_t b) { return Maybe(a & b); }},
        {0x1b,
         [&](uint64_t a, uint64_t b) {
             if (b == 0 || (of(a) == INT64_MIN && of(b) == -1)) return Maybe();
             return Maybe(static_cast<uint64_t>(of(a) / of(b)));
         }},
        {0x1c, [](uint64_t a, uint64_t b) { return Maybe(a - b); }},
        {0x1d, [](uint64_t a, uint64_t b) { return b == 0 ? Maybe() : Maybe(a % b); }},
        {0x1e, [](uint64_t a, uint64_t b) { return Maybe(a * b); }},
        {0x21, [](uint64_t a, uint64_t b) { return Maybe(a | b); }},
        {0x22, [](uint64_t a, uint64_t b) { return Maybe(a + b); }},
        {0x24, [](uint64_t a, uint64_t b) { return Maybe(b > 63 ? 0 : a << b); }},
        {0x25, [](uint64_t a, uint64_t b) { return Maybe(b > 63 ? 0 : a >> b); }},
        {0x26,
         [&](uint64_t a, uint64_t b) {
             return Maybe(b > 63 ? (of(a) < 0 ? UINT64_MAX : 0) : static_cast<uint64_t>(of(a) >> b));
         }},
        {0x27, [](uint64_t a, uint64_t b) { return Maybe(a ^ b); }},
        {0x29, [&](uint64_t a, uint64_t b) { return truth(of(a) == of(b)); }},
        {0x2a, [&](uint64_t a, uint64_t b) { return truth(of(a) >= of(b)); }},
        {0x2b, [&](uint64_t a, uint64_t b) { return truth(of(a) > of(b)); }},
        {0x2c, [&](uint64_t a, uint64_t b) { return truth(of(a) <= of(b)); }},
        {0x2d, [&](uint64_t a, uint64_t b) { return truth(of(a) < of(b)); }},
        {0x2e, [&](uint64_t a, uint64_t b) { return truth(of(a) != of(b)); }},
    };
    for (const auto& [code, two] : all) {
        for (const uint64_t a : borders)
            for (const uint64_t b : borders)
                EXPECT_EQ(value_of(joined({pushed(a), pushed(b), {code}})), two(a, b))
                    << int{code} << " " << a << " " << b;
        EXPECT_EQ(value_of({0x31, code}), Maybe()) << int{code} << " of one";
        EXPECT_EQ(value_of({code}), Maybe()) << int{code} << " of none";
    }
    for (const uint64_t a : borders) {
        EXPECT_EQ(value_of(joined({pushed(a), {0x19}})), static_cast<int64_t>(a) < 0 ? 0 - a : a);
        EXPECT_EQ(value_of(joined({pushed(a), {0x1f}})), 0 - a);
        EXPECT_EQ(value_of(joined({pushed(a), {0x20}})), ~a);
        for (const uint64_t b : borders)
            EXPECT_EQ(value_of(joined({pushed(a), {0x23}, uleb(b)})), a + b);
    }
    for (const uint8_t code :
         {uint8_t{0x19}, uint8_t{0x1f}, uint8_t{0x20}, uint8_t{0x23}, uint8_t{0x12}, uint8_t{0x13}})
        EXPECT_EQ(value_of({code, 0}), Maybe()) << int{code} << " of none";
}

TEST(DwarfExpressions, HaveConstantsOfAllSizes) {
    for (uint64_t literal = 0; literal < 32; literal++)
        EXPECT_EQ(value_of({static_cast<uint8_t>(0x30 + literal)}), literal);
    const auto extended = [](uint64_t value, unsigned bytes) {
        const unsigned unused = 64 - 8 * bytes;
        return static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
    };
    for (const uint64_t value : borders) {
        EXPECT_EQ(value_of(joined({{0x03}, little_endian(value, 8)})), value);
        for (unsigned size = 0; size < 4; size++) {
            const unsigned bytes = 1u << size;
            const auto code = static_cast<uint8_t>(0x08 + 2 * size);
            EXPECT_EQ(value_of(joined({{code}, little_endian(value, bytes)})),
                      bytes == 8 ? value : value & ((uint64_t{1} << 8 * bytes) - 1));
            EXPECT_EQ(value_of(joined({{static_cast<uint8_t>(code + 1)}, little_endian(value, bytes)})),
                      extended(value, bytes));
        }
        EXPECT_EQ(value_of(joined({{0x10}, uleb(value)})), value);
        EXPECT_EQ(value_of(joined({{0x11}, sleb(static_cast<int64_t>(value))})), value);
        EXPECT_EQ(value_of(joined({{0x73}, sleb(static_cast<int64_t>(value))})), 5 + value) << "behind rbx";
        EXPECT_EQ(value_of(joined({{0x80}, sleb(static_cast<int64_t>(value))})), 1000 + value);
    }
    for (uint8_t number = 0; number < 32; number++)
        EXPECT_EQ(value_of({static_cast<uint8_t>(0x70 + number), 0}).has_value(), number == 3 || number == 16)
            << int{number};
}

TEST(DwarfExpressions, MoveWhatIsOnTheStack) {
    const uint64_t first = 77;
    const auto sum_of_digits = [](const Bytes& moves) { /* 1 2 3, moved, as one number */
                                                        return value_of(joined({{0x31, 0x32, 0x33}, moves}));
    };
    EXPECT_EQ(value_of({0x96}, &first), first) << "which stands there from the beginning";
    EXPECT_EQ(value_of({0x96}), Maybe());
    EXPECT_EQ(sum_of_digits({0x12}), 3U);
    EXPECT_EQ(sum_of_digits({0x12, 0x13, 0x13}), 2U);
    EXPECT_EQ(sum_of_digits({0x14}), 2U);
    for (uint8_t below = 0; below < 3; below++)
        EXPECT_EQ(sum_of_digits({0x15, below}), 3U - below);
    EXPECT_EQ(sum_of_digits({0x15, 3}), Maybe());
    EXPECT_EQ(sum_of_digits({0x16}), 2U);
    EXPECT_EQ(sum_of_digits({0x16, 0x13}), 3U);
    EXPECT_EQ(sum_of_digits({0x17}), 2U) << "3 1 2";
    EXPECT_EQ(sum_of_digits({0x17, 0x13}), 1U);
    EXPECT_EQ(sum_of_digits({0x17, 0x13, 0x13}), 3U);
    EXPECT_EQ(value_of({0x31, 0x14}), Maybe());
    EXPECT_EQ(value_of({0x31, 0x16}), Maybe());
    EXPECT_EQ(value_of({0x31, 0x32, 0x17}), Maybe());
    EXPECT_EQ(value_of({0x31, 0x13}), Maybe()) << "nothing is left";
    EXPECT_EQ(value_of(Bytes(16, 0x31)), 1U);
    EXPECT_EQ(value_of(Bytes(17, 0x31)), Maybe()) << "deeper than any";
}

TEST(DwarfExpressions, ReadMemory) {
    for (uint8_t bytes = 0; bytes <= 9; bytes++) {
        const uint64_t behind = start + 1 + 9 + 2;
        const Maybe read = value_of(joined({pushed(behind), {0x94, bytes}}));
        if (bytes == 0 || bytes > 8)
            EXPECT_EQ(read, Maybe());
        else
            EXPECT_EQ(read, 0x8887868584838281u & (bytes == 8 ? UINT64_MAX : (uint64_t{1} << 8 * bytes) - 1));
    }
    EXPECT_EQ(value_of(joined({pushed(start + 1 + 9 + 1), {0x06}})), 0x8887868584838281u);
    EXPECT_EQ(value_of(joined({pushed(start + 1 + 9 + 2), {0x06}})), Maybe())
        << "one byte of it is not there";
}

TEST(DwarfExpressions, BranchWithinThemselves) {
    EXPECT_EQ(value_of({0x32, 0x30, 0x28, 1, 0, 0x39}), 9U) << "not taken";
    EXPECT_EQ(value_of({0x32, 0x31, 0x28, 1, 0, 0x39}), 2U) << "taken, to the end";
    EXPECT_EQ(value_of({0x32, 0x31, 0x28, 2, 0, 0x39}), Maybe()) << "beyond it";
    EXPECT_EQ(value_of({0x32, 0x2f, 1, 0, 0x39}), 2U);
    EXPECT_EQ(value_of({0x32, 0x2f, 0x01, 0x01, 0x39}), Maybe());
    EXPECT_EQ(value_of({0x28, 0, 0}), Maybe()) << "of nothing";
    /* 5, and while it is not 0, 1 less: back to its own beginning at most. */
    EXPECT_EQ(value_of({0x35, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff}), 0U);
    EXPECT_EQ(value_of({0x2f, 0xfd, 0xff}), Maybe()) << "for ever";
    EXPECT_EQ(value_of({0x2f, 0xfc, 0xff}), Maybe()) << "before its beginning";
}

/* Each takes no more than so many steps. */
TEST(DwarfExpressions, AreAsLongAsOneNeeds) {
    Bytes all(255, 0x96);
    all.push_back(0x31);
    EXPECT_EQ(value_of(all), 1U);
    all.push_back(0x96);
    EXPECT_EQ(value_of(all), Maybe());
    Bytes constants; /* more bytes than steps */
    for (int i = 0; i < 127; i++)
        constants.insert(constants.end(), {0x0a, 1, 1, 0x13});
    constants.push_back(0x37);
    EXPECT_EQ(value_of(constants), 7U);
}

TEST(DwarfExpressions, OfALengthThatNobodyNeedsAreNone) {
    const auto skipping =
        [](uint64_t bytes) { /* 7, and over all the rest */
                             return joined({{0x37, 0x2f}, little_endian(bytes - 4, 2), Bytes(bytes - 4)});
        };
    EXPECT_EQ(value_of(skipping(4096)), 7U);
    EXPECT_EQ(value_of(skipping(4097)), Maybe());
    uint64_t result = 0;
    TestMemory long_length({0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x35});
    EXPECT_TRUE(evaluate(long_length, Registers(), start, nullptr, result)) << "1, in ten bytes";
    EXPECT_EQ(result, 5U);
}

TEST(DwarfExpressions, OfOtherOperationsAreNone) {
    const auto is_known = [](unsigned code) {
        return code == 0x03 || code == 0x06 || (code >= 0x08 && code <= 0x17) ||
               (code >= 0x19 && code <= 0x4f) || code == 0x73 || code == 0x80 || code == 0x94 || code == 0x96;
    };
    for (unsigned code = 0; code < 256; code++) {
        /* Three numbers, of which the last is where one can be read, and what the operation may want. */
        const Bytes expression =
            joined({{0x31, 0x31}, pushed(start), {static_cast<uint8_t>(code), 1, 0}, Bytes(8, 0x96)});
        if (!is_known(code)) {
            EXPECT_EQ(value_of(expression), Maybe()) << code;
        }
    }
    EXPECT_EQ(value_of({}), Maybe());
    for (const Bytes& cut :
         {Bytes{0x0a, 1}, Bytes{0x0e, 1, 2, 3, 4, 5, 6, 7}, Bytes{0x10, 0x80}, Bytes{0x73},
          Bytes{0x31, 0x28, 1}, Bytes{0x31, 0x15}, Bytes{0x31, 0x94}, Bytes{0x31, 0x23, 0x80}})
        EXPECT_EQ(value_of(cut), Maybe()) << "its number goes on behind it";
}

/* ---- numbers ---- */

TEST(DwarfNumbers, EndWithTheirMemory) {
    TestMemory memory({1, 2, 3, 4});
    Cursor whole(memory, start, start + 4);
    EXPECT_EQ(whole.number<uint32_t>(), 0x04030201u);
    EXPECT_TRUE(whole.is_sound() && whole.is_at_end());
    EXPECT_EQ(whole.byte(), 0);
    EXPECT_FALSE(whole.is_sound());
    Cursor beyond(memory, start + 2, start + 100);
    EXPECT_EQ(beyond.number<uint16_t>(), 0x0403u) << "what is there is read, though more was said to be";
    EXPECT_TRUE(beyond.is_sound());
    EXPECT_EQ(beyond.byte(), 0);
    EXPECT_FALSE(beyond.is_sound());
    Cursor skipping(memory, start, start + 4);
    skipping.skip(4);
    EXPECT_TRUE(skipping.is_sound() && skipping.is_at_end());
    Cursor too_far(memory, start, start + 4);
    too_far.skip(5);
    EXPECT_FALSE(too_far.is_sound());
    EXPECT_TRUE(too_far.is_at_end());
}

/* Long ones are read as far as they say something. */
TEST(DwarfNumbers, OfVariableLengthAreBounded) {
    const auto read = [](const Bytes& bytes, bool is_signed) {
        TestMemory memory(bytes);
        Cursor cursor(memory, start, start + bytes.size());
        const uint64_t value = is_signed ? static_cast<uint64_t>(cursor.sleb()) : cursor.uleb();
        return cursor.is_sound() ? Maybe(value) : Maybe();
    };
    for (const bool is_signed : {false, true}) {
        EXPECT_EQ(read({0x80, 0x80, 0x00}, is_signed), 0U);
        EXPECT_EQ(read({0x81, 0x80, 0x00}, is_signed), 1U);
        Bytes long_zero(9, 0x80);
        long_zero.push_back(0);
        EXPECT_EQ(read(long_zero, is_signed), 0U) << "ten bytes";
        long_zero.insert(long_zero.begin(), 0x80);
        EXPECT_EQ(read(long_zero, is_signed), Maybe()) << "eleven";
        EXPECT_EQ(read(Bytes(5, 0x80), is_signed), Maybe());
    }
    EXPECT_EQ(read({0x7f}, true), UINT64_MAX);
    EXPECT_EQ(read({0x7f}, false), 127U);
    EXPECT_EQ(read({0x40}, true), static_cast<uint64_t>(-64));
    EXPECT_EQ(read({0x3f}, true), 63U);
}

/* Half of a window's bytes before its border, the others behind it: all are read once, in their order. */
TEST(DwarfNumbers, AreReadAcrossWindows) {
    Bytes bytes;
    for (unsigned i = 0; i < 300; i++)
        bytes.push_back(static_cast<uint8_t>(i * 7));
    TestMemory memory(bytes);
    for (std::size_t skipped = 0; skipped < 70; skipped++) {
        Cursor cursor(memory, start, start + bytes.size());
        cursor.skip(skipped);
        for (std::size_t i = skipped; i < bytes.size(); i++)
            ASSERT_EQ(cursor.byte(), bytes[i]) << skipped << " " << i;
        EXPECT_TRUE(cursor.is_sound() && cursor.is_at_end());
    }
}

TEST(DwarfNumbers, PointersAreEncodedInAllForms) {
    const uint64_t negative = static_cast<uint64_t>(-0x1234);
    const auto read = [](uint8_t encoding, const Bytes& bytes) {
        TestMemory memory(joined({{0xaa, 0xaa, 0xaa}, bytes}));
        Cursor cursor(memory, start + 3, start + 3 + bytes.size());
        const uint64_t value = cursor.pointer(encoding);
        return cursor.is_sound() && cursor.is_at_end() ? Maybe(value) : Maybe();
    };
    const std::pair<uint8_t, Bytes> positive[] = {{0x00, little_endian(0x1234, 8)},
                                                  {0x04, little_endian(0x1234, 8)},
                                                  {0x0c, little_endian(0x1234, 8)},
                                                  {0x01, uleb(0x1234)},
                                                  {0x02, little_endian(0x1234, 2)},
                                                  {0x03, little_endian(0x1234, 4)},
                                                  {0x09, sleb(0x1234)},
                                                  {0x0a, little_endian(0x1234, 2)},
                                                  {0x0b, little_endian(0x1234, 4)}};
    for (const auto& [form, bytes] : positive) {
        EXPECT_EQ(read(form, bytes), 0x1234U) << int{form};
        EXPECT_EQ(read(form | 0x10, bytes), start + 3 + 0x1234) << int{form} << " from where it stands";
        for (const uint8_t application :
             {uint8_t{0x20}, uint8_t{0x30}, uint8_t{0x40}, uint8_t{0x50}, uint8_t{0x80}, uint8_t{0x90}})
            EXPECT_EQ(read(form | application, bytes), Maybe()) << int{form} << " " << int{application};
    }
    EXPECT_EQ(read(0x09, sleb(-0x1234)), negative);
    EXPECT_EQ(read(0x0a, little_endian(negative, 2)), negative);
    EXPECT_EQ(read(0x0b, little_endian(negative, 4)), negative);
    EXPECT_EQ(read(0x02, little_endian(negative, 2)), negative & 0xffff);
    EXPECT_EQ(read(0x1b, little_endian(negative, 4)), start + 3 - 0x1234);
    for (const uint8_t form :
         {uint8_t{0x05}, uint8_t{0x06}, uint8_t{0x07}, uint8_t{0x08}, uint8_t{0x0d}, uint8_t{0x0f}})
        EXPECT_EQ(read(form, little_endian(0, 8)), Maybe()) << int{form};
}

} // namespace
} // namespace plumb::context
