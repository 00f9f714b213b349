// cmake-once
//
// The functions of a file, by whatever name people know them; damage of the file is an error or a function less.
#include "base/demangle.h"
#include "consumerd/kernel/probe_place.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/probe/function_choice.h"
#include "consumerd/probe/similar_names.h"
#include "consumerd/probe/unwinding.h"
#include "consumerd/probe/vector_instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace plumb {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(Demangle, ShowsNamesAsPeopleWriteThem) {
    EXPECT_EQ(demangled("_ZN4shop4Cart3addEi"), "shop::Cart::add(int)");
    EXPECT_EQ(demangled("main"), "main");
    EXPECT_EQ(demangled("i"), "i"); /* no type */
    EXPECT_EQ(demangled("_Zgarbage"), "_Zgarbage");
    EXPECT_EQ(demangled("_Z" + std::string(100000, 'N')), "_Z" + std::string(100000, 'N'));
    EXPECT_EQ(without_parameters("shop::Cart::add(int, char (*)(int)) const"), "shop::Cart::add");
    EXPECT_EQ(without_parameters("void shop::each<int (*)(char)>(int)"), "shop::each<int (*)(char)>");
    EXPECT_EQ(without_parameters("shop::Cart::operator()(int)"), "shop::Cart::operator()");
    EXPECT_EQ(without_parameters("operator new(unsigned long)"), "operator new");
    EXPECT_EQ(without_parameters("shop::(anonymous namespace)::f(int)"), "shop::(anonymous namespace)::f");
    EXPECT_EQ(without_parameters("main"), "main");
    EXPECT_EQ(without_parameters(")("), ")(");
}

TEST(SimilarNames, AreThoseThatSomebodyMayHaveMeant) {
    EXPECT_THAT(similar_names("json_pars", {"main", "json_parse", "x"}), ElementsAre("json_parse"));
    EXPECT_THAT(similar_names("Parse", {"json_parse", "json_print"}), ElementsAre("json_parse"));
    EXPECT_THAT(similar_names("mian", {"main", "jason"}), IsEmpty()); /* two letters of four */
    EXPECT_THAT(similar_names("", {"main"}), IsEmpty());
    EXPECT_THAT(similar_names("json_pars", {"json_parse_all", "json_parse"}), /* the nearest first */
                ElementsAre("json_parse", "json_parse_all"));
    EXPECT_EQ(
        similar_names("add", std::vector<std::string>{"add1", "add2", "add3", "add4", "add5", "add6"}).size(),
        5u);
}

TEST(VectorInstruction, HasItsLength) {
    const auto bytes = [](std::vector<std::uint8_t> code) {
        code.resize(15, 0x90);
        return vector_instruction_bytes(code);
    };
    EXPECT_EQ(bytes({0x62, 0xe2, 0x7d, 0x48, 0x7a, 0xc6}), 6u); /* vpbroadcastb %esi,%zmm16 */
    EXPECT_EQ(bytes({0x62, 0xe1, 0xfe, 0x48, 0x7f, 0x44, 0x17, 0xff}),
              8u);                                              /* vmovdqu64 %zmm16,-0x40(%rdi,%rdx,1) */
    EXPECT_EQ(bytes({0xc5, 0xf9, 0x74, 0xc0}), 4u);             /* vpcmpeqb %xmm0,%xmm0,%xmm0 */
    EXPECT_EQ(bytes({0xc5, 0xfe, 0x7f, 0x07}), 4u);             /* vmovdqu %ymm0,(%rdi) */
    EXPECT_EQ(bytes({0xc5, 0xf8, 0x77}), 3u);                   /* vzeroupper */
    EXPECT_EQ(bytes({0xc5, 0xf9, 0x70, 0xc0, 0x00}), 5u);       /* vpshufd $0,%xmm0,%xmm0 */
    EXPECT_EQ(bytes({0xc4, 0xe3, 0x7d, 0x39, 0xc0, 0x01}), 6u); /* vextracti128 $1,%ymm0,%xmm0 */
    EXPECT_EQ(bytes({0xc4, 0xe2, 0x68, 0xf5, 0xc9}), 5u);       /* bzhi %edx,%ecx,%ecx */
    EXPECT_EQ(bytes({0xc5, 0xfb, 0x10, 0x05, 1, 2, 3, 4}), 8u); /* vmovsd 0x4030201(%rip),%xmm0 */
    EXPECT_EQ(bytes({0xc5, 0xfb, 0x10, 0x04, 0x25, 1, 2, 3, 4}), 9u); /* vmovsd 0x4030201,%xmm0 */
    EXPECT_EQ(bytes({0x64, 0xc5, 0xfb, 0x10, 0x87, 1, 2, 3, 4}), 9u); /* vmovsd %fs:0x4030201(%rdi),%xmm0 */
    EXPECT_EQ(bytes({0x48, 0x89, 0xf8}), 0u);                         /* mov %rdi,%rax */
    EXPECT_EQ(bytes({0xf3, 0x0f, 0x1e, 0xfa}), 0u);                   /* endbr64 */
    EXPECT_EQ(vector_instruction_bytes(std::vector<std::uint8_t>{0xc5, 0xf9, 0x74}), 0u);
    EXPECT_EQ(vector_instruction_bytes(std::vector<std::uint8_t>{0xc5, 0xfb, 0x10, 0x05, 1, 2}), 0u);
    EXPECT_EQ(vector_instruction_bytes({}), 0u);
}

/* Compiled in the test. Versions as a library has them that changed what a function does. */
constexpr const char* library_source = R"(
int old_f(int n) { return n; }
int new_f(int n) { return n + 1; }
int only_old(int n) { return n + 2; }
__asm__(".symver old_f,f@V1");
__asm__(".symver new_f,f@@V2");
__asm__(".symver only_old,gone@V1");
int json_parse(int n) { return n + 3; }
int json_print(int n) { return n + 4; }
static int chosen_one(int n) { return n + 5; }
static void* choose(void) { return (void*)chosen_one; }
int chosen(int n) __attribute__((ifunc("choose")));
int _ZN4shop4Cart3addEi(int n) { return n + 6; }
int _ZN4shop4Cart3addEPKc(const char* n) { return *n; }
int table[100];
)";

class FunctionsTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        char name[] = "/tmp/plumb-functions-XXXXXX";
        folder_ = ::mkdtemp(name);
        std::ofstream(folder_ + "/library.c") << library_source;
        std::ofstream(folder_ + "/map")
            << "V1 { global: f; gone; json_*; chosen; _Z*; table; }; V2 { global: f; } V1;";
        const std::string command =
            fmt::format("cd {} && cc -g -O1 -shared -fPIC library.c -Wl,--version-script=map -o whole.so && "
                        "strip -o stripped.so whole.so",
                        folder_);
        ASSERT_EQ(std::system(command.c_str()), 0);
    }
    static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

    static std::vector<std::string> names_of(const std::string& text, const std::string& file = "whole.so") {
        const auto elf = ElfFile::open(folder_ + "/" + file);
        EXPECT_TRUE(elf);
        const auto places = choose_functions(*elf, file, text);
        if (!places) return {places.error().message()};
        std::vector<std::string> names;
        for (const FunctionPlace& place : *places)
            names.push_back(place.name);
        return names;
    }
    static std::uint64_t address_of(const std::string& text) {
        const auto elf = ElfFile::open(folder_ + "/whole.so");
        const auto places = choose_functions(*elf, "whole.so", text);
        EXPECT_TRUE(places && places->size() == 1) << text;
        return places && !places->empty() ? places->front().address : 0;
    }

    static inline std::string folder_;
};

TEST_F(FunctionsTest, OfSeveralVersionsTheDefaultOneIsMeant) {
    for (const std::string file : {"whole.so", "stripped.so"}) {
        EXPECT_THAT(names_of("f", file), ElementsAre("f"));
        EXPECT_THAT(names_of("f@V1", file), ElementsAre("f@V1"));
        EXPECT_THAT(names_of("f@@V2", file), ElementsAre("f"));
        EXPECT_THAT(names_of("f@*", file), UnorderedElementsAre("f", "f@V1"));
        EXPECT_THAT(names_of("gone", file), ElementsAre("gone@V1"));
        EXPECT_THAT(names_of("f@V3", file), ElementsAre(HasSubstr("Its versions are: V1, V2")));
    }
    EXPECT_EQ(address_of("f"), address_of("new_f"));
    EXPECT_EQ(address_of("f@V1"), address_of("old_f"));
}

TEST_F(FunctionsTest, NamesAreSymbolsPatternsAddressesAndThoseOfCxx) {
    EXPECT_THAT(names_of("json_*"), ElementsAre("json_parse", "json_print"));
    EXPECT_THAT(names_of("json_parse+0x2"), ElementsAre("json_parse+0x2"));
    EXPECT_THAT(names_of("json_parse+2"), ElementsAre("json_parse+0x2"));
    EXPECT_EQ(address_of("json_parse+0x2"), address_of("json_parse") + 2);
    EXPECT_THAT(names_of(fmt::format("{:#x}", address_of("json_parse"))), ElementsAre("json_parse"));
    EXPECT_THAT(names_of(fmt::format("{:#x}", address_of("json_parse") + 1)), ElementsAre(HasSubstr("0x")));
    EXPECT_THAT(names_of("shop::Cart::add"),
                ElementsAre("shop::Cart::add(char const*)", "shop::Cart::add(int)"));
    EXPECT_THAT(names_of("shop::Cart::add(int)"), ElementsAre("shop::Cart::add(int)"));
    EXPECT_THAT(names_of("shop::*"), ElementsAre("shop::Cart::add(char const*)", "shop::Cart::add(int)"));
}

TEST_F(FunctionsTest, NoFunctionIsAnErrorThatSaysWhatThereIs) {
    EXPECT_THAT(names_of("json_pars"), ElementsAre(HasSubstr("It has json_parse")));
    EXPECT_THAT(names_of("table"), ElementsAre(HasSubstr("no function table"))); /* a variable */
    EXPECT_THAT(names_of("chosen_one", "stripped.so"), ElementsAre(HasSubstr("no function chosen_one")));
    EXPECT_THAT(names_of("json_parse+0x70000000"),
                ElementsAre(HasSubstr("no part of the file that is loaded")));
    EXPECT_THAT(names_of("0x70000000"), ElementsAre(HasSubstr("no address of what is loaded")));
    EXPECT_THAT(names_of("0x"), ElementsAre(HasSubstr("no function 0x")));
    EXPECT_THAT(names_of("@V1"), ElementsAre(HasSubstr("no function @V1")));
    EXPECT_THAT(names_of("+1"), ElementsAre(HasSubstr("no function +1")));
}

TEST_F(FunctionsTest, WhatIsChosenAtTheStartIsMarked) {
    const auto elf = ElfFile::open(folder_ + "/whole.so");
    const auto places = choose_functions(*elf, "whole.so", "chosen");
    ASSERT_TRUE(places && places->size() == 1);
    EXPECT_TRUE(places->front().is_chosen);
    EXPECT_FALSE(choose_functions(*elf, "whole.so", "f")->front().is_chosen);
}

/* Of a static program, since its functions all have names. */
TEST_F(FunctionsTest, NoReturnOfWhatDoesNotReturnIsProbed) {
    std::ofstream(folder_ + "/jumps.c")
        << "#include <setjmp.h>\n#include <signal.h>\n#include <unistd.h>\njmp_buf to;\n"
           "int restore(int n) { return n + 1; }\nvoid __getcontext(void) {}\nvoid __start_context(void) {}\n"
           "void __fentry__(void) {}\nvoid uw_init_context_2(void) {}\nint entry(int n) { return n; }\n"
           "void jumped_to(void) __asm__(\"restore.cold\");\nvoid jumped_to(void) {}\n"
           "int main(int n, char** v) { signal(1, (void (*)(int))v); if (!vfork()) _exit(0);\n"
           "return setjmp(to) ? restore(n) : (longjmp(to, 1), 0); }\n";
    const std::string command = fmt::format("cd {} && cc -O0 -static jumps.c -o jumps", folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    const auto places = [](const std::string& kind, const std::string& function) {
        auto selector = KernelSelector::parse(kind + ":" + folder_ + "/jumps:" + function);
        EXPECT_TRUE(selector);
        std::vector<std::string> notes, names;
        const auto found = places_of(*selector, notes);
        if (!found) return std::vector{found.error().message()};
        for (const ProbePlace& place : *found)
            names.push_back(place.name);
        return names;
    };
    for (const char* const name : {"_start", "_setjmp", "__getcontext", "__start_context", "vfork", "__vfork",
                                   "__longjmp", "__restore_rt", "__fentry__", "uw_init_context_2"}) {
        EXPECT_THAT(places("uretprobe", name),
                    ElementsAre(HasSubstr("does not return as other functions do")))
            << name;
        EXPECT_THAT(places("uprobe", name), ElementsAre(std::string("uprobe_") + name));
    }
    EXPECT_THAT(places("uretprobe", "restore.cold"),
                ElementsAre(HasSubstr("a part of a function, which is jumped to")));
    EXPECT_THAT(places("uretprobe!", "restore.cold"), ElementsAre(HasSubstr("a part of a function")));
    EXPECT_THAT(places("uprobe", "restore.cold"), ElementsAre("uprobe_restore.cold"));
    for (const char* const name : {"main", "restore", "entry"})
        EXPECT_THAT(places("uretprobe", name), ElementsAre(std::string("uretprobe_") + name));
    EXPECT_THAT(places("uretprobe", "*context*"), Not(Contains(EndsWith("context"))));
    EXPECT_THAT(places("uretprobe", "*st*r*"),
                AllOf(Contains("uretprobe_restore"), Not(Contains("uretprobe__start"))));
}

/* A probe of the first one stands behind its vector instruction, where another function begins. */
TEST_F(FunctionsTest, OfTwoWhoseProbesWouldStandAtOnePlaceItIsSaid) {
    std::ofstream(folder_ + "/local.s") << ".text\n.globl entry, entry_local\n.type entry,@function\n"
                                           ".type entry_local,@function\nentry: vzeroupper\n"
                                           "entry_local: leal 1(%rdi),%eax\nret\n";
    const std::string command = fmt::format("cd {} && cc -shared -nostdlib local.s -o local.so", folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::vector<std::string> notes;
    const std::string text = "uprobe:" + folder_ + "/local.so:entry*";
    const auto places = places_of(*KernelSelector::parse(text), notes);
    ASSERT_TRUE(places && places->size() == 1);
    EXPECT_EQ(places->front().name, "uprobe_entry");
    EXPECT_THAT(notes,
                ElementsAre(text + ": uprobe_entry_local with uprobe_entry: their probes would stand at "
                                   "one place, so one event is of both."));
}

TEST_F(FunctionsTest, WhoWalksItsStackIsKnown) {
    std::ofstream(folder_ + "/thrower.cc")
        << "int main(int n, char**) { try { if (n > 1) throw n; } catch (int) {} }";
    const std::string command = fmt::format("cd {} && c++ thrower.cc -o thrower && c++ -static thrower.cc -o "
                                            "static_thrower && cp whole.so go.so && "
                                            "objcopy --add-section .go.buildinfo=map --set-section-flags "
                                            ".go.buildinfo=alloc,readonly go.so 2>/dev/null && "
                                            "printf 'rustc version 1.63.0' >comment && objcopy "
                                            "--update-section .comment=comment whole.so rust.so",
                                            folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    const auto who = [](const char* name) {
        return who_walks_the_stack(*ElfFile::open(folder_ + "/" + name));
    };
    EXPECT_EQ(who("whole.so"), "");
    EXPECT_EQ(who("stripped.so"), "");
    EXPECT_THAT(who("thrower"), HasSubstr("C++"));
    EXPECT_THAT(who("static_thrower"), HasSubstr("C++"));
    EXPECT_EQ(who("go.so"), "Go");
    EXPECT_EQ(who("rust.so"), "Rust");
}

TEST_F(FunctionsTest, AnAddressHasItsNamesBack) {
    const auto elf = ElfFile::open(folder_ + "/whole.so");
    EXPECT_EQ(names_of_address(*elf, address_of("shop::Cart::add(int)")).front(), "shop::Cart::add(int)");
    EXPECT_EQ(names_of_address(*elf, address_of("json_parse") + 2).front(), "json_parse+0x2");
    EXPECT_THAT(names_of_address(*elf, address_of("f@V1")), ElementsAre("old_f", "f@V1", HasSubstr("0x")));
}

TEST_F(FunctionsTest, DamagedFilesAreReadWithoutHarm) {
    std::ifstream file(folder_ + "/whole.so", std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), {});
    std::mt19937 random(1);
    std::size_t read = 0;
    for (int round = 0; round < 2000; round++) {
        std::string bytes = good;
        for (int i = 0; i < 20; i++) /* the headers at both ends are what most depends on */
            bytes[i % 2 == 0 ? random() % bytes.size() : bytes.size() - 1 - random() % 2500] =
                static_cast<char>(random() % 4 == 0 ? 0xff : random());
        if (round % 10 == 0) bytes.resize(random() % bytes.size());
        const auto elf = ElfFile::of_bytes(std::as_bytes(std::span(bytes)), "damaged");
        if (!elf) continue;
        read++;
        (void)choose_functions(*elf, "damaged", "*");
        (void)choose_functions(*elf, "damaged", "f@V1");
        (void)symbol_address(*elf, "table");
        (void)names_of_address(*elf, random() % 16384);
    }
    EXPECT_GT(read, 100u);
}

} // namespace
} // namespace plumb
