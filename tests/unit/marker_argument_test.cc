// cmake-once
// Where an argument of a marker is: every register by all of its names, and sums, sizes and brackets in every order.
#include "consumerd/probe/marker_argument.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace plumb {
namespace {

using testing::HasSubstr;
using Place = MarkerArgument::Place;

/* "f64 memory bp -8", and the symbol if there is one. */
std::string told(const std::string& text) {
    static constexpr const char* places[] = {"constant", "register", "memory", "variable", "other"};
    const MarkerArgument argument = parse_marker_argument(text);
    EXPECT_EQ(argument.text, text);
    std::string result = argument.type_name() + " " + places[static_cast<int>(argument.place)];
    if (argument.place == Place::other) return result;
    if (!argument.register_name.empty()) result += " " + argument.register_name;
    if (!argument.symbol.empty()) result += " " + argument.symbol;
    if (argument.first_bit != 0) result += fmt::format(" from {}", argument.first_bit);
    return argument.number != 0 ? result + fmt::format(" {}", argument.number) : result;
}

TEST(MarkerArgument, RegistersOfEveryWidth) {
    EXPECT_EQ(told("8@%rax"), "u64 register ax");
    EXPECT_EQ(told("-4@%edi"), "i32 register di");
    EXPECT_EQ(told("-2@%bp"), "i16 register bp");
    EXPECT_EQ(told("1@%sil"), "u8 register si");
    EXPECT_EQ(told("1@%bl"), "u8 register bx");
    EXPECT_EQ(told("1@%ch"), "u8 register cx from 8");
    EXPECT_EQ(told("-1@%ch"), "i8 other");
    EXPECT_EQ(told("8@%r8"), "u64 register r8");
    EXPECT_EQ(told("4@%r15d"), "u32 register r15");
    EXPECT_EQ(told("2@%r10w"), "u16 register r10");
    EXPECT_EQ(told("1@%r9b"), "u8 register r9");
    EXPECT_EQ(told("4f@%eax"), "f32 register ax");
    for (const char* text : {"8@%xmm0", "8@%r16", "8@%r7", "8@%r8x", "8@%", "8@%st(0)", "8@%fs:0x10"})
        EXPECT_THAT(told(text), HasSubstr("other")) << text;
}

TEST(MarkerArgument, MemoryVariablesAndConstants) {
    EXPECT_EQ(told("8@(%rdi)"), "u64 memory di");
    EXPECT_EQ(told("8@-16(%rbp)"), "u64 memory bp -16");
    EXPECT_EQ(told("4@0x10(%r12)"), "u32 memory r12 16");
    EXPECT_EQ(told("8f@8(%rsp)"), "f64 memory sp 8");
    EXPECT_EQ(told("4@count(%rip)"), "u32 variable count");
    EXPECT_EQ(told("-4@52+table(%rip)"), "i32 variable table 52");
    EXPECT_EQ(told("-4@table-8(%rip)"), "i32 variable table -8");
    EXPECT_EQ(told("-4@table+8-4(%rip)"), "i32 variable table 4");
    EXPECT_EQ(told("-1@$-3"), "i8 constant -3");
    EXPECT_EQ(told("8@$0xffffffffffffffff"), "u64 constant -1");
    EXPECT_EQ(told("%rdi"), "u64 register di");
    for (const char* text : {"2@(%rdx,%rax,2)",
                             "4@(,%rax,4)",
                             "4@8(%rip)",
                             "4@a+b(%rip)",
                             "4@a(%rdi)",
                             "4@(%edi)",
                             "4@$name",
                             "8f@$1",
                             "4@name",
                             "3@%rdi",
                             "16@%rdi",
                             "2f@%rdi",
                             "x@%rdi",
                             "@",
                             "",
                             "4@",
                             "4@(",
                             "4@()",
                             "4@-(%rdi)",
                             "4@a-b(%rip)",
                             "4@99999999999999999999(%rdi)"})
        EXPECT_THAT(told(text), HasSubstr("other")) << text;
}

/* A register by the kernel's name, as a whole and as its parts; addresses are of the whole alone. */
void expect_register(const std::string& kernel, const std::string& whole, const std::string& half,
                     const std::string& word, const std::string& byte) {
    EXPECT_EQ(told("8@%" + whole), "u64 register " + kernel);
    EXPECT_EQ(told("4@%" + half), "u32 register " + kernel);
    EXPECT_EQ(told("2@%" + word), "u16 register " + kernel);
    EXPECT_EQ(told("1@%" + byte), "u8 register " + kernel);
    EXPECT_EQ(told("-1@%" + byte), "i8 register " + kernel);
    EXPECT_EQ(told("-8@16(%" + whole + ")"), "i64 memory " + kernel + " 16");
    for (const std::string& part : {half, word, byte})
        EXPECT_EQ(told("8@16(%" + part + ")"), "u64 other") << part;
    for (const std::string& wrong : {"x" + whole, whole + "x", "e" + byte, "r" + half})
        EXPECT_EQ(told("8@%" + wrong), "u64 other") << wrong;
}

TEST(MarkerArgument, KnowsEveryRegisterByAllOfItsNames) {
    for (const std::string letter : {"a", "b", "c", "d"}) {
        const std::string word = letter + "x";
        expect_register(word, "r" + word, "e" + word, word, letter + "l");
        EXPECT_EQ(told("1@%" + letter + "h"), "u8 register " + word + " from 8");
        EXPECT_EQ(told("-1@%" + letter + "h"), "i8 other");
        EXPECT_EQ(told("2@%" + letter + "h"), "u16 other");
        EXPECT_EQ(told("8@(%" + letter + "h)"), "u64 other");
    }
    for (const std::string word : {"si", "di", "bp", "sp"})
        expect_register(word, "r" + word, "e" + word, word, word + "l");
    for (int number = 8; number <= 15; number++) {
        const std::string whole = fmt::format("r{}", number);
        expect_register(whole, whole, whole + "d", whole + "w", whole + "b");
        EXPECT_EQ(told("1@%" + whole + "l"), "u8 register " + whole);
    }
    for (const char* none : {"r7", "r16", "r", "r8q", "r8bb", "ex", "xmm1", "rip", "st", "a", "al8", "eh"})
        EXPECT_EQ(told(std::string("8@%") + none), "u64 other") << none;
}

TEST(MarkerArgument, HasTheSizesThatFieldsHave) {
    for (const auto& [size, type] :
         {std::pair("1", "u8"), std::pair("2", "u16"), std::pair("4", "u32"), std::pair("8", "u64"),
          std::pair("-1", "i8"), std::pair("-2", "i16"), std::pair("-4", "i32"), std::pair("-8", "i64"),
          std::pair("+4", "u32"), std::pair("4f", "f32"), std::pair("8f", "f64"), std::pair("-8f", "f64")})
        EXPECT_EQ(told(std::string(size) + "@%rax"), std::string(type) + " register ax") << size;
    for (const char* size :
         {"0",   "3",  "5",  "6",   "7", "9", "12", "16", "-3", "257", "260",
          "264", "1f", "2f", "16f", "f", "-", "4x", "4 ", " 4", "ff",  "18446744073709551620"})
        EXPECT_EQ(parse_marker_argument(std::string(size) + "@%rax").place, Place::other) << size;
    EXPECT_EQ(parse_marker_argument("%rax").type_name(), "u64");
}

TEST(MarkerArgument, HasConstantsOfEveryKind) {
    EXPECT_EQ(told("4@$0"), "u32 constant");
    EXPECT_EQ(told("4@$10"), "u32 constant 10");
    EXPECT_EQ(told("4@$+10"), "u32 constant 10");
    EXPECT_EQ(told("-4@$-0x1f"), "i32 constant -31");
    EXPECT_EQ(told("8@$9223372036854775807"), "u64 constant 9223372036854775807");
    EXPECT_EQ(told("8@$18446744073709551615"), "u64 constant -1");
    EXPECT_EQ(told("-8@$-9223372036854775808"), "i64 constant -9223372036854775808");
    for (const char* wrong : {"8@$", "8@$-", "8@$0x", "8@$1f", "8@$0x1g", "8@$--1", "8@$1 ",
                              "8@$18446744073709551616", "4f@$1", "8@1", "8@$$1"})
        EXPECT_EQ(parse_marker_argument(wrong).place, Place::other) << wrong;
}

TEST(MarkerArgument, AddsUpNumbersAndOneSymbol) {
    EXPECT_EQ(told("4@1+2-4+0x10(%rax)"), "u32 memory ax 15");
    EXPECT_EQ(told("4@-1-2(%rax)"), "u32 memory ax -3");
    EXPECT_EQ(told("4@table(%rip)"), "u32 variable table");
    EXPECT_EQ(told("4@+table(%rip)"), "u32 variable table");
    EXPECT_EQ(told("4@8+table-4(%rip)"), "u32 variable table 4");
    EXPECT_EQ(told("4@-8+table(%rip)"), "u32 variable table -8");
    EXPECT_EQ(told("4@a.b_1(%rip)"), "u32 variable a.b_1");
    for (const char* wrong : {"4@-a(%rip)",  "4@a-b(%rip)", "4@a+b(%rip)", "4@+(%rip)",   "4@8+(%rip)",
                              "4@a+(%rip)",  "4@a$(%rip)",  "4@a%b(%rip)", "4@a@b(%rip)", "4@a:b(%rip)",
                              "4@a*2(%rip)", "4@a,b(%rip)", "4@a b(%rip)", "4@(a)(%rip)", "4@8(%rip)",
                              "4@(%rip)",    "4@a(%rax)",   "4@8+a(%rax)", "4@8(%rax",    "4@8%rax)",
                              "4@8(%rax)x",  "4@8(rax)",    "4@8(%rax))",  "4@8((%rax)",  "4@8(%rax,%rcx)",
                              "4@8()",       "4@8(%)",      "4@8(%xmm0)",  "4@8",         "4@a",
                              "4@%"})
        EXPECT_EQ(parse_marker_argument(wrong).place, Place::other) << wrong;
}

} // namespace
} // namespace plumb
