// cmake-once
// What is put into a buffer comes out at its descriptor, all of it and in order, whoever shares the descriptor; and what
// nobody takes any more ends quietly.
#include "base/output_buffer.h"

#include "base/file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <limits>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace plumb {
namespace {

/* Longer than the buffer, and no two places alike. */
std::string long_text(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::uint32_t state = 1;
    for (char& c : text) {
        state = state * 1664525u + 1013904223u;
        c = static_cast<char>('a' + (state >> 24) % 26);
    }
    return text;
}

class OutputBufferWrites : public testing::Test {
protected:
    void SetUp() override {
        std::signal(SIGPIPE, SIG_IGN);
        ASSERT_GE(file_.get(), 0);
    }
    std::string written() const {
        std::string text(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
        EXPECT_EQ(::pread(file_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        return text;
    }
    FileDescriptor file_{::memfd_create("output", MFD_CLOEXEC)};
};

TEST_F(OutputBufferWrites, NothingIsWrittenBeforeItHasToBe) {
    OutputBuffer out(file_.get());
    out.put("one ");
    out.put('2');
    out.put_integer(-30);
    EXPECT_EQ(written(), "");
    EXPECT_EQ(out.text(), "one 2-30");
    out.flush();
    EXPECT_EQ(written(), "one 2-30");
    EXPECT_EQ(out.text(), "");
    out.put("dropped");
    out.clear();
    out.put("kept");
    out.flush();
    EXPECT_EQ(written(), "one 2-30kept");
    EXPECT_FALSE(out.is_closed());
    EXPECT_EQ(out.error_number(), 0);
}

TEST_F(OutputBufferWrites, WhatIsLeftIsWrittenAtTheEnd) {
    { OutputBuffer(file_.get()).put("the end"); }
    EXPECT_EQ(written(), "the end");
}

TEST_F(OutputBufferWrites, PiecesOfEverySizeStandInOrder) {
    const std::string text = long_text(3'000'000);
    std::string expected;
    {
        OutputBuffer out(file_.get());
        std::size_t at = 0;
        for (std::size_t bytes = 1; at + bytes < text.size(); bytes += bytes / 3 + 1) {
            const std::string_view piece = std::string_view(text).substr(at, bytes);
            out.put(piece.substr(0, bytes / 2));
            out.put_through(piece.substr(bytes / 2));
            out.put(TextPiece(piece));
            expected += piece;
            expected += piece;
            at += bytes;
        }
    }
    EXPECT_TRUE(written() == expected) << expected.size() << " bytes";
}

TEST_F(OutputBufferWrites, MuchLittleComesOutToo) {
    std::string expected;
    {
        OutputBuffer out(file_.get());
        for (int i = 0; i < 600'000; i++) {
            out.put('x');
            expected += 'x';
        }
        for (int i = 0; i < 200'000; i++) {
            out.put_integer(i);
            out.put(',');
            expected += std::to_string(i) + ',';
        }
    }
    EXPECT_TRUE(written() == expected);
}

TEST_F(OutputBufferWrites, WithoutADescriptorAllOfItStays) {
    const std::string text = long_text(2'000'000);
    OutputBuffer out(-1);
    out.put("before ");
    out.put_through(text);
    out.flush();
    out.put(" behind");
    EXPECT_TRUE(out.text() == "before " + text + " behind");
    EXPECT_FALSE(out.is_closed());
}

TEST_F(OutputBufferWrites, IntegersOfEverySizeFit) {
    OutputBuffer out(-1);
    for (const int base : {2, 8, 10, 16, 36}) {
        out.put_integer(std::numeric_limits<std::int64_t>::min(), base);
        out.put(' ');
    }
    out.put_integer(std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(out.text(), "-1" + std::string(63, '0') +
                              " -1000000000000000000000 -9223372036854775808 "
                              "-8000000000000000 -1y2p0ij32e8e8 18446744073709551615");
}

TEST_F(OutputBufferWrites, APieceIsCopiedWithoutItsBeginning) {
    const std::string text = long_text(70);
    for (std::size_t bytes = 0; bytes <= text.size(); bytes++) {
        const TextPiece piece(std::string_view(text).substr(0, bytes));
        EXPECT_EQ(piece.size(), bytes);
        EXPECT_EQ(piece.text(), text.substr(0, bytes));
        for (std::size_t skip = 0; skip <= bytes; skip++) {
            OutputBuffer out(-1);
            out.put('<');
            out.put(piece, skip);
            out.put('>');
            ASSERT_EQ(out.text(), "<" + text.substr(skip, bytes - skip) + ">") << bytes << " " << skip;
        }
    }
}

TEST_F(OutputBufferWrites, AFullDiskIsTold) {
    const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(full.is_open());
    OutputBuffer out(full.get());
    out.put("text");
    EXPECT_FALSE(out.is_closed());
    out.flush();
    EXPECT_TRUE(out.is_closed());
    EXPECT_EQ(out.error_number(), ENOSPC);
    out.put_through("more");
    EXPECT_EQ(out.error_number(), ENOSPC);
    EXPECT_EQ(out.text(), "") << "what nobody takes is not kept";
}

TEST_F(OutputBufferWrites, AReaderThatHasGoneIsNoError) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const FileDescriptor to(ends[1]);
    OutputBuffer out(to.get());
    ::close(ends[0]);
    out.put_through("text");
    EXPECT_TRUE(out.is_closed());
    EXPECT_EQ(out.error_number(), 0);
    out.put_through("more");
    EXPECT_TRUE(out.is_closed());
}

/* A terminal or pipe that somebody else made non-blocking, for all who share it. */
TEST_F(OutputBufferWrites, WaitsForRoomWhereNobodyElseDoes) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    const FileDescriptor from(ends[0]);
    FileDescriptor to(ends[1]);
    ASSERT_EQ(::fcntl(from.get(), F_SETFL, 0), 0);
    const std::string text = long_text(1'000'000);
    std::string read;
    std::thread reader([&] {
        std::array<char, 5000> piece{};
        for (ssize_t got; (got = ::read(from.get(), piece.data(), piece.size())) > 0;)
            read.append(piece.data(), static_cast<std::size_t>(got));
    });
    {
        OutputBuffer out(to.get());
        for (std::size_t at = 0; at < text.size(); at += 1000)
            out.put(text.substr(at, 1000));
        out.flush();
        EXPECT_FALSE(out.is_closed());
        EXPECT_EQ(out.error_number(), 0);
    }
    to.reset();
    reader.join();
    EXPECT_TRUE(read == text) << read.size();
}

/* What UTF-8 is, told another way: the number of the character, and whether it had to be as long as it is. */
std::size_t character_bytes(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = first < 0x80   ? 1
                              : first < 0xc0 ? 0
                              : first < 0xe0 ? 2
                              : first < 0xf0 ? 3
                              : first < 0xf8 ? 4
                                             : 0;
    if (bytes == 0 || text.size() < bytes) return 0;
    if (bytes == 1) return 1;
    std::uint32_t number = first & (0xffu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; i++) {
        const auto next = static_cast<unsigned char>(text[i]);
        if (next >> 6 != 2) return 0;
        number = number << 6 | (next & 63u);
    }
    constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    const bool is_half = number >= 0xd800 && number <= 0xdfff, steers = number < 0xa0;
    return number >= least[bytes] && number <= 0x10ffff && !is_half && !steers ? bytes : 0;
}

TEST(Utf8, BytesThatAreNoCharacterAreReplacedOneByOne) {
    OutputBuffer out(-1);
    std::string expected;
    constexpr std::array<int, 8> others{0x20, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2};
    for (int first = 0x7f; first < 0x100; first++)
        for (const int second : others)
            for (const int third : others)
                for (const int fourth : others) {
                    const std::string text{static_cast<char>(first), static_cast<char>(second),
                                           static_cast<char>(third), static_cast<char>(fourth)};
                    /* Cut in front of bytes that would belong to it, too. */
                    for (std::size_t bytes = 1; bytes <= text.size(); bytes++) {
                        std::string_view left = std::string_view(text).substr(0, bytes);
                        expected = '"';
                        while (!left.empty()) {
                            const std::size_t length = character_bytes(left);
                            const unsigned char next = left.size() > 1 ? left[1] : 0;
                            if (left[0] == '\xc2' && next >= 0x80 && next < 0xa0) {
                                expected += fmt::format("\\u00{:02x}", next);
                                left.remove_prefix(2);
                                continue;
                            }
                            if (left[0] == '\x7f')
                                expected += "\\u007f";
                            else if (length == 0)
                                expected += "\xef\xbf\xbd";
                            else
                                expected += left.substr(0, length);
                            left.remove_prefix(std::max<std::size_t>(length, 1));
                        }
                        expected += '"';
                        out.clear();
                        put_json_string(out, std::string_view(text).substr(0, bytes));
                        ASSERT_EQ(out.text(), expected)
                            << first << " " << second << " " << third << " " << fourth;
                    }
                }
}

TEST(Utf8, EveryByteOfAnotherKindHasItsEscape) {
    OutputBuffer out(-1);
    for (int byte = 0; byte < 0x80; byte++) {
        const char c = static_cast<char>(byte);
        std::string text = fmt::format("\\x{:02x}", byte), json = fmt::format("\\u{:04x}", byte),
                    message = text;
        if (byte >= ' ' && byte < 0x7f) text = json = message = std::string(1, c);
        for (const auto& [plain, letter] :
             {std::pair{'"', '"'}, {'\\', '\\'}, {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}})
            if (c == plain) {
                text = json = std::string("\\") + letter;
                message = c == '\t' || c == '\r' ? text : std::string(1, c);
            }
        const std::string between = std::string("a") + c + "z";
        EXPECT_EQ(escaped(between), "a" + text + "z");
        EXPECT_EQ(json_string(between), "\"a" + json + "z\"");
        EXPECT_EQ(without_controls(between), "a" + message + "z");
    }
}

TEST(Utf8, OnlyWhatTurnsALineIsEscapedOfAllCharacters) {
    OutputBuffer out(-1);
    for (std::uint32_t number = 0xa0; number < 0x30000; number++) {
        if (number == 0xd800) number = 0xe000;
        std::string text;
        const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
        if (number < 0x800) {
            add(0xc0 | number >> 6);
        } else if (number < 0x10000) {
            add(0xe0 | number >> 12);
            add(0x80 | (number >> 6 & 63));
        } else {
            add(0xf0 | number >> 18);
            add(0x80 | (number >> 12 & 63));
            add(0x80 | (number >> 6 & 63));
        }
        add(0x80 | (number & 63));
        std::string expected = text;
        if (number == 0x61c || number == 0x200e || number == 0x200f ||
            (number >= 0x202a && number <= 0x202e) || (number >= 0x2066 && number <= 0x2069)) {
            expected.clear();
            for (const char c : text)
                expected += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
        out.clear();
        put_escaped(out, text);
        ASSERT_EQ(out.text(), expected) << number;
    }
}

} // namespace
} // namespace plumb
