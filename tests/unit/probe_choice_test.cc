// cmake-once
//
// Which functions and markers of a file are meant, of many that are alike, and where the kernel is told to put probes on them.
#include "consumerd/kernel/probe_place.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/probe/chosen_function.h"
#include "consumerd/probe/function_choice.h"
#include "consumerd/probe/markers.h"
#include "consumerd/probe/probed_instruction.h"
#include "consumerd/probe/similar_names.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/* ---- names that somebody may have meant ---- */

TEST(SimilarNames, AreThoseOfFewMistakesTheFewestFirst) {
    const auto similar = [](const std::string& name) { return similar_names("json_Parse", {name, "zzz"}); };
    for (const char* const name :
         {"json_parse", "xson_parse", "xxon_parse", "json_parxx", "xson_parsx", "jsn_parse", "json_prse",
          "jsoon_parse", "xjson_parze", "sjon_parse", "jsoon_parrse", "jso_pare", "JSON_PARSE"})
        EXPECT_THAT(similar(name), ElementsAre(name));
    for (const char* const name :
         {"xxxn_parse", "json_paxxx", "xson_xarsx", "jsn_pas", "xjxsxon_parse", "js_pare"})
        EXPECT_THAT(similar(name), IsEmpty()) << name;
    EXPECT_THAT(similar_names("abcdef", {"abcdxx", "xbcdef", "abcdef", "abcdxf", "abcdef"}),
                ElementsAre("abcdef", "abcdxf", "xbcdef", "abcdxx"));
    EXPECT_THAT(similar_names("abcde", {"abcdx", "abcxx", "bcdea"}),
                ElementsAre("abcdx")); /* a short one: one mistake */
}

TEST(SimilarNames, HaveThreeLettersInCommonOrMore) {
    EXPECT_THAT(similar_names("par", {"json_parse"}), ElementsAre("json_parse"));
    EXPECT_THAT(similar_names("pa", {"json_parse"}), IsEmpty());
    EXPECT_THAT(similar_names("json_parse", {"par", "pa"}), ElementsAre("par"));
    const std::string longest(256, 'x');
    EXPECT_THAT(similar_names(longest, {longest}), ElementsAre(longest));
}

/* ---- functions that are chosen when a program starts ---- */

class ChosenFunctionTest : public testing::Test {
protected:
    void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "a sanitizer's functions stand in front of the C library's";
#endif
    }
    /* The file that a function of this process is in. */
    static std::string file_of(const char* function) {
        Dl_info info{};
        EXPECT_NE(::dladdr(::dlsym(RTLD_DEFAULT, function), &info), 0);
        return info.dli_fname;
    }
    static ProbedFunction named(const std::string& symbol, const std::string& version = "") {
        ProbedFunction function;
        function.symbol = symbol;
        function.version = version;
        return function;
    }
    static std::string refusal(const std::string& path, const ProbedFunction& function) {
        const auto chosen = chosen_function(path, function);
        return chosen ? fmt::format("{:#x}", *chosen) : chosen.error().message();
    }
    static std::uint64_t base_of(const void* code) {
        Dl_info info{};
        EXPECT_NE(::dladdr(code, &info), 0);
        return reinterpret_cast<std::uint64_t>(info.dli_fbase);
    }
};

TEST_F(ChosenFunctionTest, IsThatOfThisMachineWhereTheFileIsLoadedHere) {
    const std::string libc = file_of("fopen");
    const void* const code = ::dlsym(RTLD_DEFAULT, "strlen");
    const auto chosen = chosen_function(libc, named("strlen"));
    ASSERT_TRUE(chosen);
    EXPECT_EQ(*chosen, reinterpret_cast<std::uint64_t>(code) - base_of(code));
    const void* const old = ::dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.2.5");
    const auto of_version = chosen_function(libc, named("memcpy", "GLIBC_2.2.5"));
    ASSERT_TRUE(of_version);
    EXPECT_EQ(*of_version, reinterpret_cast<std::uint64_t>(old) - base_of(old));
    /* By another path, too. */
    char name[] = "/tmp/plumb-chosen-XXXXXX";
    const std::string folder = ::mkdtemp(name);
    std::filesystem::create_symlink(libc, folder + "/another.so");
    EXPECT_EQ(refusal(folder + "/another.so", named("strlen")), fmt::format("{:#x}", *chosen));
    std::filesystem::copy_file(libc, folder + "/copy.so");
    EXPECT_THAT(refusal(folder + "/copy.so", named("strlen")),
                HasSubstr("strlen of " + folder +
                          "/copy.so is one of several functions, by the kind of processor; "
                          "which one, only a program that has loaded the file knows"));
    std::filesystem::remove_all(folder);
}

TEST_F(ChosenFunctionTest, IsNotTakenFromAnotherObject) {
    const std::string libc = file_of("fopen");
    EXPECT_THAT(refusal("/nowhere/x.so", named("f")), HasSubstr("Could not inspect /nowhere/x.so"));
    EXPECT_THAT(refusal(libc, named("no_such_function")), HasSubstr("its library does not tell"));
    EXPECT_THAT(refusal(libc, named("strlen", "NO_SUCH_1")), HasSubstr("its library does not tell"));
    const std::string other = file_of("__cxa_throw"); /* which needs the C library */
    ASSERT_NE(other, libc);
    EXPECT_THAT(refusal(other, named("strlen")),
                HasSubstr("strlen of " + other + " is a function of another object here (" + libc + ")"));
}

/* ---- functions of a file that are alike ---- */

class ProbeChoiceTest : public testing::Test {
protected:
    ProbeChoiceTest() {
        char name[] = "/tmp/plumb-choice-XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    ~ProbeChoiceTest() override { std::filesystem::remove_all(folder_); }

    /* As an assembler makes it: "name: instruction" makes a function of it. */
    std::string assemble(const std::string& source) {
        std::ofstream(folder_ + "/code.s") << source;
        const std::string command = fmt::format("cd {} && cc -nostdlib -shared code.s -o code.so", folder_);
        EXPECT_EQ(std::system(command.c_str()), 0);
        return folder_ + "/code.so";
    }
    static std::string function(const std::string& symbol, const std::string& body = "nop; ret",
                                bool is_global = true) {
        return fmt::format("{2}.type \"{0}\",@function\n\"{0}\": {1}\n", symbol, body,
                           is_global ? ".globl \"" + symbol + "\"\n" : "");
    }
    static std::vector<std::string> chosen(const std::string& file, const std::string& text) {
        const auto places = choose_functions(*ElfFile::open(file), file, text);
        if (!places) return {places.error().message()};
        std::vector<std::string> names;
        for (const FunctionPlace& place : *places)
            names.push_back(place.name + (place.is_begin ? "" : " inside"));
        return names;
    }
    std::vector<std::string> notes_;
    std::vector<std::string> places(const std::string& text) {
        notes_.clear();
        const auto selector = KernelSelector::parse(text);
        EXPECT_TRUE(selector);
        const auto found = places_of(*selector, notes_);
        if (!found) return {found.error().message()};
        std::vector<std::string> shown;
        for (const ProbePlace& place : *found)
            shown.push_back(fmt::format("{} {} {} [{}]", place.type,
                                        place.place.substr(place.place.rfind(':') + 1), place.name,
                                        place.arguments));
        return shown;
    }
    static std::uint64_t address_of(const std::string& file, const std::string& symbol) {
        return symbol_address(*ElfFile::open(file), symbol).value_or(0);
    }

    std::string folder_;
};

TEST_F(ProbeChoiceTest, OfOneFunctionsNamesTheOneThatPeopleUseIsShown) {
    const std::string same = function("___same", "") + function("__same", "") + function("local", "", false) +
                             function("_same", "") + function("same");
    const std::string file =
        assemble(function("first") + same + function("_ZN1a1bEv", "") + function("_under"));
    EXPECT_THAT(chosen(file, "*same"), ElementsAre("same"));
    EXPECT_THAT(chosen(file, "_*same"), ElementsAre("_same"));
    EXPECT_THAT(chosen(file, fmt::format("{:#x}", address_of(file, "same"))), ElementsAre("same"));
    EXPECT_THAT(chosen(file, fmt::format("{:#x}", address_of(file, "_under"))), ElementsAre("a::b()"));
    EXPECT_THAT(chosen(file, fmt::format("0X{:x}", address_of(file, "same"))),
                ElementsAre(HasSubstr("has no function 0X")));
    const auto opened = ElfFile::open(file);
    ASSERT_TRUE(opened);
    const ElfFile& elf = *opened;
    const std::uint64_t same_at = address_of(file, "same");
    EXPECT_THAT(names_of_address(elf, same_at),
                ElementsAre("same", "_same", "__same", "___same", "local", fmt::format("{:#x}", same_at)));
    EXPECT_THAT(names_of_address(elf, same_at + 1),
                ElementsAre("same+0x1", "_same+0x1", "__same+0x1", "___same+0x1", "local+0x1", "same",
                            "_same", "__same", "___same", "local", fmt::format("{:#x}", same_at + 1)));
}

TEST_F(ProbeChoiceTest, PatternsAreOfSymbolsAndOfNamesWithAndWithoutParameters) {
    const std::string file = assemble(function("_ZN4shop4Cart3addEi") + function("_ZN4shop4Cart3addEi.cold") +
                                      function("json_parse.cold") + function("json_print") +
                                      function("json_parse", ".fill 20,1,0x90"));
    EXPECT_THAT(chosen(file, "_ZN4shop*Ei"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(chosen(file, "shop::*int)"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(chosen(file, "shop::Cart::a?d"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(chosen(file, "shop::Cart::[a]dd"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(chosen(file, "shop::Cart::add"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(chosen(file, "json_p*"), ElementsAre("json_parse", "json_print"));
    EXPECT_THAT(chosen(file, "json_parse.cold"), ElementsAre("json_parse.cold"));
    EXPECT_THAT(chosen(file, "json_parse+11"), ElementsAre("json_parse+0xb inside"));
    EXPECT_THAT(chosen(file, "json_parse+0"), ElementsAre("json_parse"));
    EXPECT_THAT(chosen(file, "json_parse+0x"), ElementsAre(HasSubstr("has no function json_parse+0x")));
    EXPECT_THAT(chosen(file, "json_parse+1 "), ElementsAre(HasSubstr("has no function json_parse+1 ")));
    EXPECT_THAT(chosen(file, "json_p*+0x70000000"), IsEmpty());
    EXPECT_THAT(chosen(file, "json_pars?+0x70000000"), ElementsAre(HasSubstr("is in no part of the file")));
    EXPECT_TRUE(is_function_glob("f*+1"));
    EXPECT_TRUE(is_function_glob("f?"));
    EXPECT_TRUE(is_function_glob("[f]"));
    EXPECT_FALSE(is_function_glob("f@*")); /* of one function, all versions */
}

TEST_F(ProbeChoiceTest, NotMoreThanAThousandAreProbedAtOnce) {
    const std::string many = ".macro many n\n.globl f\\n\n.type f\\n,@function\nf\\n: nop\n.endm\n.altmacro\n"
                             ".set i,100\n.rept 1000\nmany %i\n.set i,i+1\n.endr\n";
    EXPECT_EQ(chosen(assemble(many), "f*").size(), 1000u);
    EXPECT_THAT(chosen(assemble(many + function("f")), "f*"),
                ElementsAre(AllOf(StartsWith("f* matches 1001 functions of "),
                                  HasSubstr("more than 1000 are not probed at once"))));
}

TEST_F(ProbeChoiceTest, WhatIsNoCodeIsNotProbed) {
    const std::string source =
        function("f") +
        ".section .rodata\n.globl table\ntable: .fill 64,1,0x90\n.bss\n.globl empty\nempty: .zero 64\n";
    const std::string file = assemble(source);
    const auto refuses = [&](const std::string& where, const std::string& what) {
        EXPECT_THAT(places("uprobe:" + where + ":" + what), ElementsAre(HasSubstr("There is no code at")));
    };
    const std::uint64_t table = address_of(file, "table"), f = address_of(file, "f");
    ASSERT_NE(table, 0u);
    refuses(file, fmt::format("{:#x}", table));
    refuses(file, fmt::format("{:#x}", table + 63));
    if (table > f) refuses(file, fmt::format("f+{:#x}", table - f));
    EXPECT_THAT(places(fmt::format("uprobe:{}:{:#x}", file, f)), ElementsAre(HasSubstr(" uprobe_f [")));
    EXPECT_THAT(places(fmt::format("uprobe:{}:{:#x}", file, f + 1)), ElementsAre(HasSubstr(" uprobe_0x")));
    /* Code and constants in one segment. */
    const std::string command =
        fmt::format("cd {} && cc -nostdlib -shared -Wl,-z,noseparate-code code.s -o one.so", folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    const std::string one = folder_ + "/one.so";
    refuses(one, fmt::format("{:#x}", address_of(one, "table")));
    EXPECT_THAT(places(fmt::format("uprobe:{}:{:#x}", one, address_of(one, "f"))),
                ElementsAre(HasSubstr(" uprobe_f [")));
}

TEST_F(ProbeChoiceTest, AFileWithoutFunctionsSaysSo) {
    const std::string file = assemble(".data\n.globl table\ntable: .long 1\n");
    EXPECT_THAT(chosen(file, "table"), ElementsAre(HasSubstr("It names no function at all")));
    const std::string other = assemble(function("something"));
    EXPECT_THAT(chosen(other, "main"),
                ElementsAre(HasSubstr("`nm -C " + other + "` and `nm -DC " + other + "`")));
}

/* ---- markers ---- */

/* As sys/sdt.h makes it; `at`: the label that it stands on. */
std::string note(const std::string& at, const std::string& provider, const std::string& name,
                 const std::string& arguments = "", const std::string& semaphore = "0", int strings = 3,
                 int base = 0) {
    std::string text = fmt::format(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
                                   ".4byte 992f-991f,994f-993f,3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                                   "993: .8byte {}\n.8byte {}\n.8byte {}\n",
                                   at, base, semaphore);
    for (const std::string& each : {provider, name, arguments})
        if (strings-- > 0) text += fmt::format(".asciz \"{}\"\n", each);
    return text + "994: .balign 4\n.popsection\n";
}

std::string markers_on(const std::string& at, int count) {
    std::string all;
    for (int i = 1; i <= count; i++)
        all += note(at, "shop", fmt::format("m{}", i));
    return all;
}

class MarkerChoiceTest : public ProbeChoiceTest {
protected:
    std::vector<std::string> markers(const std::string& source, const std::string& pattern = "*") {
        file_ = assemble(source);
        const auto found = choose_markers(*ElfFile::open(file_), file_, pattern);
        if (!found) return {found.error().message()};
        std::vector<std::string> shown;
        for (const Marker& marker : *found)
            shown.push_back(fmt::format("{} {}", marker.full_name(), marker.arguments.size()));
        return shown;
    }
    std::string file_;
};

TEST_F(MarkerChoiceTest, OfManyTheFirstFiveAreNamedWhereNoneIsMeant) {
    EXPECT_THAT(markers(function("f") + markers_on("f", 5), "zoo"),
                ElementsAre(HasSubstr("It has shop:m1, shop:m2, shop:m3, shop:m4, shop:m5; `plumb list")));
    EXPECT_THAT(markers(function("f") + markers_on("f", 7), "zoo"),
                ElementsAre(HasSubstr("shop:m4, shop:m5 and 2 more; `plumb list")));
    EXPECT_THAT(markers(function("f"), "zoo"), ElementsAre(HasSubstr("has no USDT markers")));
}

TEST_F(MarkerChoiceTest, NamesArePlainAndArgumentsAsManyAsAReaderBears) {
    const std::string longest(256, 'n');
    std::string many;
    for (int i = 0; i < 40; i++)
        many += " 8@%rax  ";
    EXPECT_THAT(markers(function("f") + note("f", longest, "a") + note("f", "b", longest) +
                        note("f", longest + "n", "c") + note("f", "d", longest + "n") + note("f", "", "e") +
                        note("f", "g", "") + note("f", "h", "two_strings", "", "0", 2) +
                        note("f", "i", "j", many) + note("f", "k", "l", " 8@%rax")),
                ElementsAre("b:" + longest + " 0", "i:j 32", "k:l 1", longest + ":a 0"));
    EXPECT_EQ(markers(function("f") + markers_on("f", 1000)).size(), 1000u);
    EXPECT_THAT(markers(function("f") + markers_on("f", 1001)),
                ElementsAre(AllOf(StartsWith("* matches 1001 markers of "),
                                  HasSubstr("more than 1000 are not probed at once"))));
}

TEST_F(MarkerChoiceTest, SemaphoresMoveWithTheirMarkers) {
    const std::string base = ".pushsection .stapsdt.base,\"a\"\n.space 1\n.popsection\n";
    const std::string data = ".pushsection .probes,\"aw\"\ncounter: .2byte 0\n.popsection\n";
    constexpr int noted = 16;
    (void)markers(base + data + function("f") + note("f", "a", "with", "", "counter", 3, noted) +
                  note("f", "b", "without", "", "0", 3, noted) +
                  note("f", "c", "tells_no_base", "", "counter"));
    const auto opened = ElfFile::open(file_);
    ASSERT_TRUE(opened);
    const ElfFile& elf = *opened;
    const std::uint64_t moved = elf.section(".stapsdt.base")->sh_addr - noted;
    const auto found = markers_of(elf);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].address, address_of(file_, "f") + moved);
    EXPECT_EQ(found[0].semaphore, address_of(file_, "counter") + moved);
    EXPECT_EQ(found[1].semaphore, 0u);
    EXPECT_EQ(found[2].address, address_of(file_, "f"));
    EXPECT_EQ(found[2].semaphore, address_of(file_, "counter"));
}

TEST_F(MarkerChoiceTest, PlacesAreThoseWhereAProbeDoesNoHarm) {
    const std::string data = ".pushsection .probes,\"aw\"\n.globl counter\ncounter: .2byte 0\n.popsection\n";
    const std::string bytes = function("good", "nop; ret") + function("five", "nopl 8(%rax,%rax); ret") +
                              function("code", "movl $1,%eax; ret") + function("late", "ret; nop");
    const std::string file =
        assemble(data + bytes + note("good", "s", "good", "8@%rax 8f@8(%rsp) 8@%xmm1", "counter") +
                 note("code", "s", "code") + note("code", "s", "code2") + note("late+1", "s", "plain"));
    const auto offset = [&](const std::string& symbol, std::uint64_t behind = 0) {
        return fmt::format("{:#x}", *ElfFile::open(file)->file_offset_of(address_of(file, symbol)) + behind);
    };
    const std::string good = offset("good") + "(" + offset("counter") + ")";
    EXPECT_THAT(places("usdt:" + file + ":*"),
                ElementsAre("p " + good + " good [arg1=%ax:u64 arg2=+8(%sp):u64]",
                            fmt::format("p {:#x} plain []",
                                        1 + *ElfFile::open(file)->file_offset_of(address_of(file, "late")))));
    EXPECT_THAT(notes_,
                ElementsAre(HasSubstr("2 of 4 markers stand on no instruction that does nothing"),
                            EndsWith("s:good is recorded without arg3, which is where the kernel can not "
                                     "read it (8@%xmm1).")));
    EXPECT_THAT(places("usdt:" + file + ":s:good(n=%di)"), ElementsAre("p " + good + " good [n=%di]"));
    EXPECT_THAT(notes_, IsEmpty()); /* nobody asked for what is left out */
    EXPECT_THAT(places("usdt:" + file + ":s:code*"),
                ElementsAre(HasSubstr("2 of 2 markers stand on no instruction that does nothing")));
    /* A function that begins with a marker has the marker's semaphore. */
    EXPECT_THAT(places("uprobe:" + file + ":good"), ElementsAre("p " + good + " uprobe_good []"));
    EXPECT_THAT(places("uprobe:" + file + ":code(%ax)"),
                ElementsAre("p " + offset("code") + " uprobe_code [arg1=%ax]"));
    EXPECT_THAT(places("uretprobe:" + file + ":code"),
                ElementsAre("r " + offset("code") + " uretprobe_code []"));
    const std::uint64_t behind_nop = kernel_replaces_nops() ? 5 : 0;
    EXPECT_THAT(places("uprobe:" + file + ":five"),
                ElementsAre("p " + offset("five", behind_nop) + " uprobe_five []"))
        << "a call of the nop would be a system call of the program";
    EXPECT_THAT(places("uretprobe:" + file + ":late+1"),
                ElementsAre(HasSubstr("no function begins at late+0x1")));
    EXPECT_THAT(places("kprobe:vfs_read(%di)"), ElementsAre("p vfs_read kprobe_vfs_read [arg1=%di]"));
    EXPECT_THAT(places("kretprobe:vfs_read"), ElementsAre("r4096 vfs_read kretprobe_vfs_read []"));
}

TEST_F(MarkerChoiceTest, WhoseCounterIsNotLoadedAreRefused) {
    const std::string file = assemble(function("f") + note("f", "s", "m", "", "0x70000000"));
    EXPECT_THAT(
        places("usdt:" + file + ":*"),
        ElementsAre(HasSubstr("The marker s:m of " + file + " is in no part of the file that is loaded.")));
}

/* Behind an instruction that is passed by, a function may have variables. */
TEST_F(MarkerChoiceTest, ANopOfFiveBytesIsNotProbedBehindWhereTheFunctionBegins) {
    const std::string file = assemble(function("f", "vzeroupper; nopl 8(%rax,%rax); ret") +
                                      function("g", "vzeroupper; nop; ret; .fill 20,1,0x90"));
    const auto found = places("uprobe:" + file + ":f");
    if (kernel_replaces_nops()) {
        EXPECT_THAT(found, ElementsAre(HasSubstr("a nop of five bytes")));
    }
    EXPECT_THAT(places("uprobe:" + file + ":g"),
                ElementsAre(fmt::format("p {:#x} uprobe_g []",
                                        3 + *ElfFile::open(file)->file_offset_of(address_of(file, "g")))));
}

TEST_F(MarkerChoiceTest, OfArgumentsThatAreLeftOutTheFirstTenAreTold) {
    std::string arguments;
    for (int i = 0; i < 10; i++)
        arguments += "8@%xmm1 ";
    const std::string ten = function("f") + note("f", "s", "f", arguments);
    EXPECT_EQ(places("usdt:" + assemble(ten) + ":*").size(), 1u);
    EXPECT_EQ(notes_.size(), 10u);
    EXPECT_THAT(notes_.back(), HasSubstr("without arg10,"));
    const std::string more = function("f") + note("f", "s", "f", arguments + "8@%xmm1 8@%xmm1");
    const std::string text = "usdt:" + assemble(more) + ":*";
    EXPECT_EQ(places(text).size(), 1u);
    EXPECT_EQ(notes_.size(), 11u);
    EXPECT_EQ(notes_.back(), text + ": so are 2 other arguments.");
}

/* A kernel that makes calls of nops is what kernel_replaces_nops() tells; here both ways are the same file. */
TEST_F(MarkerChoiceTest, ThatTheKernelWouldReplaceAreLeftOutAndToldOf) {
    const std::string source = function("f", "nopl 8(%rax,%rax); nop; ret") + note("f", "s", "five") +
                               note("f", "s", "five2") + note("f+5", "s", "one");
    const std::string file = assemble(source);
    const auto found = places("usdt:" + file + ":*");
    if (found.size() == 3) GTEST_SKIP() << "this kernel makes no calls of nops";
    EXPECT_THAT(found, ElementsAre(EndsWith(" one []")));
    EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("2 of 3 markers can not be probed. "),
                                          HasSubstr("a nop of five bytes"))));
    EXPECT_THAT(places("usdt:" + file + ":s:five*"),
                ElementsAre(HasSubstr("2 of 2 markers can not be probed. ")));
}

/* The kernel reads both as integers, and does not say which is one. */
TEST_F(MarkerChoiceTest, FloatsThatAnotherRecorderLeftAreTheMarkersOwn) {
    const std::string file = assemble(function("f", "nop; ret") + note("f", "s", "m", "8f@-24(%rbp)"));
    const std::string place =
        fmt::format("{}:{:#x}", file, *ElfFile::open(file)->file_offset_of(address_of(file, "f")));
    std::vector<std::string> notes;
    const std::string its_own =
        places_of(*KernelSelector::parse("usdt:" + file + ":s:m"), notes)->front().arguments;
    EXPECT_THAT(left_probe("usdt_s_m", place, its_own).floats, ElementsAre("arg1"));
    EXPECT_THAT(left_probe("usdt_s_m", place, "arg1=%ip:u64 n=%sp").floats, ElementsAre());
}

TEST_F(MarkerChoiceTest, ProbesThatAnotherRecorderLeftHaveTheirNamesBack) {
    const std::string file = assemble(function("_ZN4shop4Cart3addEi", "nop; nop; nop; ret") +
                                      note("_ZN4shop4Cart3addEi+1", "s", "m", "8@%rax"));
    const std::uint64_t at = *ElfFile::open(file)->file_offset_of(address_of(file, "_ZN4shop4Cart3addEi"));
    const auto name = [&](const std::string& raw_name, const std::string& place,
                          const std::string& arguments = "") {
        const ProbePlace left = left_probe(raw_name, place, arguments);
        EXPECT_EQ(left.raw_name, raw_name);
        EXPECT_EQ(left.place.substr(0, place.size()), place);
        return (left.provider.empty() ? "" : left.provider + ":") + left.name + " " + left.arguments;
    };
    const auto place = [&](std::uint64_t offset) { return fmt::format("{}:{:#x}", file, at + offset); };
    EXPECT_EQ(name("uprobe_shop__Cart__add_int_", place(0)), "uprobe_shop::Cart::add(int) ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int__2", place(0)), "uprobe_shop::Cart::add(int) ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int__2x", place(0)), "uprobe_shop__Cart__add_int__2x ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int_x", place(0)), "uprobe_shop__Cart__add_int_x ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int__0x2", place(2)), "uprobe_shop::Cart::add(int)+0x2 ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int_", place(2)), "uprobe_shop::Cart::add(int) ");
    EXPECT_EQ(name("uprobe_other", place(0)), "uprobe_other ");
    EXPECT_EQ(name("usdt_s_m", place(1), "arg1=%ax:u64"), "s:m arg1=%ax:u64");
    EXPECT_EQ(name("usdt_s_m_2", place(1), "arg1=%ax:u64"), "s:m arg1=%ax:u64");
    EXPECT_EQ(name("usdt_s_m", place(0)), "usdt_s_m ");
    EXPECT_EQ(name("usdt_s_n", place(1)), "usdt_s_n ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int_", file + ":0x70000000"), "uprobe_shop__Cart__add_int_ ");
    EXPECT_EQ(name("uprobe_shop__Cart__add_int_", file + ":" + std::to_string(at)),
              "uprobe_shop__Cart__add_int_ ");
    EXPECT_EQ(name("kprobe_a_b", "a.b"), "kprobe_a.b ");
    EXPECT_EQ(name("kprobe_a_b_17", "a.b"), "kprobe_a.b ");
    EXPECT_EQ(name("kprobe_a_b17", "a.b"), "kprobe_a_b17 ");
}

TEST(ProbeNames, AreCutWhereNumbersHaveRoom) {
    EXPECT_EQ(raw_probe_name("kprobe", std::string(49, 'f')).size(), 56u);
    EXPECT_EQ(raw_probe_name("kprobe", std::string(50, 'f')).size(), 56u);
    EXPECT_EQ(raw_probe_name("kprobe", "f"), "kprobe_f");
    EXPECT_EQ(another_raw_name("kprobe_f", 2), "kprobe_f_2");
}

TEST_F(ProbeChoiceTest, AFileWhoseNameTheKernelCanNotReadIsRefused) {
    for (const char* const name : {"a b.so", "a#b.so", "a\tb.so"}) {
        const std::string file = folder_ + "/" + name;
        std::filesystem::copy_file(assemble(function("f")), file);
        EXPECT_THAT(places("uprobe:" + file + ":f"),
                    ElementsAre(HasSubstr("The kernel takes no file for a uprobe whose name has spaces")));
    }
    EXPECT_THAT(places("uprobe:" + folder_ + "/missing:f"), ElementsAre(HasSubstr(folder_ + "/missing")));
}

} // namespace
} // namespace plumb
