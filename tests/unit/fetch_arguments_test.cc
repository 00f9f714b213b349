// cmake-once
//
// Arguments of probes: told apart from a function's parameters, given names, and what the kernel says of them.
#include "consumerd/kernel/fetch_arguments.h"
#include "consumerd/kernel/probe_place.h"
#include "consumerd/kernel/tracefs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace plumb {
namespace {

using testing::HasSubstr;

std::pair<std::string, std::string> split(const std::string& text) {
    const ProbeText written = split_arguments(text);
    return {written.place, written.arguments};
}

std::string arguments_of(const std::string& text) {
    const auto arguments = fetch_arguments(text);
    return arguments ? *arguments : arguments.error().message();
}

TEST(FetchArguments, AreNoParametersOfAFunction) {
    using Pair = std::pair<std::string, std::string>;
    EXPECT_EQ(split("f"), Pair("f", ""));
    EXPECT_EQ(split("f(name=+0(%di):string, %si)"), Pair("f", "name=+0(%di):string, %si"));
    EXPECT_EQ(split("f ( %si ) "), Pair("f", "%si"));
    EXPECT_EQ(split("shop::Cart::add(int)"), Pair("shop::Cart::add(int)", ""));
    EXPECT_EQ(split("shop::Cart::add(int)(n=%si)"), Pair("shop::Cart::add(int)", "n=%si"));
    EXPECT_EQ(split("shop::Cart::operator()(char (*)(int)) const"),
              Pair("shop::Cart::operator()(char (*)(int)) const", ""));
    EXPECT_EQ(split("shop::Cart::operator()()"), Pair("shop::Cart::operator()()", ""));
    EXPECT_EQ(split("f)"), Pair("f)", ""));
    EXPECT_EQ(split(""), Pair("", ""));
}

TEST(FetchArguments, HaveNamesAndTheKernelsRegisters) {
    EXPECT_EQ(arguments_of(""), "");
    EXPECT_EQ(arguments_of("%di"), "arg1=%di");
    EXPECT_EQ(arguments_of("name=+0(%rdi):string, %rsi:u32,n=+8(+0(%r8))"),
              "name=+0(%di):string arg2=%si:u32 n=+8(+0(%r8))");
    EXPECT_EQ(arguments_of("%di %si"), "arg1=%di arg2=%si");
    EXPECT_EQ(arguments_of(R"(a=\"x y")"), R"(a=\"x y")");
    EXPECT_EQ(arguments_of("$retval"), "arg1=$retval");
    EXPECT_EQ(arguments_of("a=+4(%di, 2)  b=[1, 2]:u8 ,%rbx"), "a=+4(%di, 2) b=[1, 2]:u8 arg3=%bx");
    EXPECT_EQ(arguments_of(R"(a=\"x, y" b=%rip)"), R"(a=\"x, y" b=%ip)");
    EXPECT_EQ(arguments_of("\t%rax\n %rcx%rdx,_b2=%rbp "), "arg1=%ax arg2=%cx%dx _b2=%bp");
    EXPECT_EQ(arguments_of("%rsp,%r8,%rdx,%rdxx,%ra"), "arg1=%sp arg2=%r8 arg3=%dx arg4=%dxx arg5=%ra");
    EXPECT_EQ(arguments_of("+8(%di)=x"),
              "arg1=+8(%di)=x"); /* behind what begins a value, it is part of that */
    EXPECT_EQ(arguments_of("a=@b=c"), "a=@b=c");
}

TEST(FetchArguments, WithoutSenseAreErrors) {
    EXPECT_THAT(arguments_of(",%di"), HasSubstr("missing beside a comma"));
    EXPECT_THAT(arguments_of("%di,,%si"), HasSubstr("missing beside a comma"));
    EXPECT_THAT(arguments_of("=%di"), HasSubstr("\"\" is no name"));
    EXPECT_THAT(arguments_of("a-b=%di"), HasSubstr("\"a-b\" is no name"));
    EXPECT_THAT(
        arguments_of("a=+0(%di):string[2]"),
        HasSubstr(
            "a is an array of texts, which can not be recorded. Give each text an argument of its own."));
    EXPECT_THAT(arguments_of("%di,"), HasSubstr("missing beside a comma"));
    EXPECT_THAT(arguments_of("n=%di,n=%si"), HasSubstr("two arguments are called n"));
    EXPECT_THAT(arguments_of("%di,arg1=%si"), HasSubstr("two arguments are called arg1"));
    EXPECT_THAT(arguments_of("n="), HasSubstr("n has no value"));
    EXPECT_THAT(arguments_of("a b=%di"), HasSubstr("a b=%di"));
    EXPECT_THAT(arguments_of("1=%di"), HasSubstr("\"1\" is no name"));
}

TEST(FetchArguments, ARefusalIsTheOneOfOurCommand) {
    const std::string log = "[  1.5] trace_uprobe: error: Invalid register name\n"
                            "  Command: p:others/e /bin/x:0x10 a=%eax\n"
                            "                                    ^\n"
                            "[  2.5] trace_uprobe: error: Unknown type is specified\n"
                            "  Command: p:ours/e /bin/x:0x10 n=%di a=%ax:foo\n"
                            "                                            ^\n"
                            "[  3.5] trace_uprobe: error: Event name is too long\n"
                            "  Command: p:others/e /bin/x:0x10\n"
                            "             ^\n";
    EXPECT_EQ(refusal_in_log(log, "p:ours/e /bin/x:0x10 n=%di a=%ax:foo"),
              "Unknown type is specified:\n  a=%ax:foo\n        ^");
    EXPECT_EQ(refusal_in_log(log, "p:others/e /bin/x:0x10"), "Event name is too long");
    EXPECT_EQ(refusal_in_log(log, "p:nobody/e /bin/x:0x10"), "");
    EXPECT_EQ(refusal_in_log("  Command: x\n^", "x"), "");
    EXPECT_EQ(refusal_in_log("[1] a: error: b\n  Command: x y\n                                ^", "x y"),
              "b:\n  y\n  ^");
}

TEST(ProbeSelector, HasArgumentsAndInsists) {
    const auto parsed = [](const std::string& text) {
        const auto selector = KernelSelector::parse(text);
        EXPECT_TRUE(selector) << text;
        return selector ? *selector : KernelSelector{};
    };
    const KernelSelector entry = parsed("uprobe:/nowhere/x:f(n=%si:u32) if n > 3");
    EXPECT_EQ(entry.file, "/nowhere/x");
    EXPECT_EQ(entry.event, "f");
    EXPECT_EQ(entry.arguments, "n=%si:u32");
    EXPECT_EQ(entry.filter, "n > 3");
    EXPECT_EQ(parsed("kprobe:f(%di:u8)").arguments, "arg1=%di:u8");
    const KernelSelector result = parsed("uretprobe!:/nowhere/x:shop::Cart::add(int)($retval)");
    EXPECT_EQ(result.kind, KernelSelector::Kind::uretprobe);
    EXPECT_TRUE(result.insists);
    EXPECT_EQ(result.system, "uretprobe");
    EXPECT_EQ(result.file, "/nowhere/x");
    EXPECT_EQ(result.event, "shop::Cart::add(int)");
    EXPECT_FALSE(KernelSelector::parse("uprobe:/nowhere/x:f(n=)"));
    EXPECT_FALSE(KernelSelector::parse("uprobe:/nowhere/x:(%di)"));
    EXPECT_FALSE(KernelSelector::parse("uprobe:(%di)"));
}

TEST(ProbeNames, AreShortInTracefsAndOfFewLetters) {
    EXPECT_EQ(raw_probe_name("uprobe", "shop::Cart::add(int)"), "uprobe_shop__Cart__add_int_");
    const std::string raw_name = raw_probe_name("uprobe", std::string(500, 'f'));
    EXPECT_LE(another_raw_name(raw_name, 999999).size(), 63u);
    EXPECT_EQ(left_probe("uprobe_f", "/nowhere/x:0x10", "").name, "uprobe_f");
    EXPECT_EQ(left_probe("kprobe_f", "f", "").name, "kprobe_f");
}

} // namespace
} // namespace plumb
