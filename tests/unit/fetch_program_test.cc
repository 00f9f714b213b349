// cmake-once
//
// Arguments of probes for plumb.ko: the steps that they become, and what is said of those that become none.
#include "consumerd/kernel/fetch_program.h"

#include "consumerd/kernel/module_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace plumb {
namespace {

using testing::HasSubstr;

/* "r7 +8 +u-16 : u4 hex n" for the first one. */
std::string steps_of(const std::string& arguments, bool is_return = false) {
    const auto program = fetch_program(arguments, is_return);
    if (!program) return program.error().message();
    const plumb_kernel_fetch& fetch = program->fetches.at(0);
    const EventField& field = program->fields.at(0);
    std::string text;
    switch (fetch.source) {
    case PLUMB_FETCH_VALUE:
        text = fmt::format("value {:#x}", fetch.value);
        break;
    case PLUMB_FETCH_REGISTER:
        text = fmt::format("r{}", fetch.number);
        break;
    case PLUMB_FETCH_STACK:
        text = fmt::format("stack {}", fetch.number);
        break;
    case PLUMB_FETCH_COMM:
        text = "comm";
        break;
    default:
        text = "?";
    }
    for (unsigned step = 0; step < fetch.depth; step++)
        text += fmt::format(" {}{:+}", (fetch.flags & PLUMB_FETCH_USER(step)) != 0 ? "u" : "",
                            fetch.offsets[step]);
    EXPECT_EQ(fetch.flags >> fetch.depth, 0);
    EXPECT_EQ(fetch.type, field.type);
    EXPECT_EQ(fetch.size, field.size);
    return text + ": " + field.type_name() + " " + field.name;
}

TEST(FetchProgram, IsWhatTheKernelsSyntaxSays) {
    EXPECT_EQ(steps_of("n=%di"), "r7: x64 n");
    EXPECT_EQ(steps_of("n=%ax:u8"), "r0: u8 n");
    EXPECT_EQ(steps_of("n=%cx:s16"), "r1: i16 n");
    EXPECT_EQ(steps_of("n=%r15:x32"), "r15: x32 n");
    EXPECT_EQ(steps_of("n=%flags:u64"), "r17: u64 n");
    EXPECT_EQ(steps_of("n=+8(%si):u32"), "r6 +8: u32 n");
    EXPECT_EQ(steps_of("n=-0x10(+u8(%dx)):s64"), "r2 u+8 -16: i64 n");
    EXPECT_EQ(steps_of("n=+u4(+1(+2(+3(%sp)))):char"), "r4 +3 +2 +1 u+4: i8 n");
    EXPECT_EQ(steps_of("name=+0(%bx):string"), "r3 +0: string name");
    EXPECT_EQ(steps_of("name=+0(+8(%bp)):ustring"), "r5 +8 u+0: string name");
    EXPECT_EQ(steps_of("who=$comm"), "comm: string who");
    EXPECT_EQ(steps_of("who=$comm:string"), "comm: string who");
    EXPECT_EQ(steps_of("top=$stack"), "r4: x64 top");
    EXPECT_EQ(steps_of("word=$stack3:u16"), "stack 3: u16 word");
    EXPECT_EQ(steps_of("a=@0xffffffff81000000:u32"), "value 0xffffffff81000000 +0: u32 a");
    EXPECT_EQ(steps_of("a=+4(@4096)"), "value 0x1000 +0 +4: x64 a");
    EXPECT_EQ(steps_of(R"(a=\-1:s32)"), "value 0xffffffffffffffff: i32 a");
    EXPECT_EQ(steps_of("r=$retval:s32", true), "r0: i32 r");
}

TEST(FetchProgram, KnowsWhereFunctionsGetTheirArguments) {
    const unsigned registers[] = {
        PLUMB_REGISTER_DI, PLUMB_REGISTER_SI, PLUMB_REGISTER_DX, PLUMB_REGISTER_CX, 8, 9};
    for (unsigned i = 0; i < 6; i++)
        EXPECT_EQ(steps_of(fmt::format("n=$arg{}", i + 1)), fmt::format("r{}: x64 n", registers[i]));
    for (const char* wrong : {"n=$arg0", "n=$arg7", "n=$arg", "n=$argx"})
        EXPECT_THAT(steps_of(wrong), HasSubstr("$arg1 to $arg6"));
    EXPECT_THAT(steps_of("n=$arg1", true), HasSubstr("not known any more"));
}

TEST(FetchProgram, HasAFieldForEach) {
    const auto program = fetch_program("a=%di:u8 b=%si:u16 c=+0(%dx):string", false);
    ASSERT_TRUE(program);
    ASSERT_EQ(program->fields.size(), 3U);
    EXPECT_EQ(program->fields[1].name, "b");
    EXPECT_EQ(program->fetches[2].type, PLUMB_FIELD_STRING);
    EXPECT_TRUE(fetch_program("", false)->fields.empty());
}

TEST(FetchProgram, TellsWhatItIsNot) {
    EXPECT_THAT(steps_of("n=%foo"), HasSubstr("no register %foo"));
    EXPECT_THAT(steps_of("n=foo"), HasSubstr("foo is no register"));
    EXPECT_THAT(steps_of("n=%di:u24"), HasSubstr("the type u24"));
    EXPECT_THAT(steps_of("n=%di:u32[4]"), HasSubstr("the type u32[4]"));
    EXPECT_THAT(steps_of("n=%di:symbol"), HasSubstr("the type symbol"));
    EXPECT_THAT(steps_of("n=%di:string"), HasSubstr("read from memory"));
    EXPECT_THAT(steps_of("n=$comm:u32"), HasSubstr("is a text, and no u32"));
    EXPECT_THAT(steps_of("n=+0($comm)"), HasSubstr("points nowhere"));
    EXPECT_THAT(steps_of("n=+8(%di"), HasSubstr("parentheses"));
    EXPECT_THAT(steps_of("n=+8"), HasSubstr("parentheses"));
    EXPECT_THAT(steps_of("n=+x(%di)"), HasSubstr("+x is no offset"));
    EXPECT_THAT(steps_of("n=+u(%di)"), HasSubstr("+u is no offset"));
    EXPECT_THAT(steps_of("n=@jiffies"), HasSubstr("the symbol jiffies"));
    EXPECT_THAT(steps_of(R"(n=\"a")"), HasSubstr("the text \"a\""));
    EXPECT_THAT(steps_of("n=$retval"), HasSubstr("known to a kretprobe"));
    EXPECT_THAT(steps_of("n=$stack65536"), HasSubstr("$stack65536"));
    EXPECT_THAT(steps_of("n=$foo"), HasSubstr("$foo"));
    EXPECT_THAT(steps_of("n=+1(+2(+3(+4(+5(%di)))))"), HasSubstr("more than 4 pointers"));
    std::string many;
    for (unsigned i = 0; i <= PLUMB_FETCH_MAX; i++)
        many += fmt::format("{}a{}=%di", i == 0 ? "" : " ", i);
    EXPECT_THAT(steps_of(many), HasSubstr("at most 30 arguments"));
    EXPECT_TRUE(fetch_program(many.substr(0, many.rfind(' ')), false));
}

Result<ModuleProbe> probe_of(const std::string& text) {
    const auto selector = KernelSelector::parse(text);
    if (!selector) return selector.error();
    return module_probe(*selector);
}

std::string refusal_of(const std::string& text) {
    const auto probe = probe_of(text);
    return probe ? "" : probe.error().message();
}

TEST(ModuleProbe, StandsWhereItIsSaid) {
    const auto entry = probe_of("kprobe:vfs_read+0x10(n=%dx:u64)");
    ASSERT_TRUE(entry);
    EXPECT_STREQ(entry->request.symbol, "vfs_read");
    EXPECT_EQ(entry->request.offset, 16U);
    EXPECT_EQ(entry->request.flags, 0U);
    EXPECT_EQ(entry->request.fetch_count, 1U);
    EXPECT_EQ(entry->description.full_name(), "kprobe:kprobe_vfs_read+0x10");
    ASSERT_EQ(entry->description.fields.size(), 2U);
    EXPECT_EQ(entry->description.fields[0].name, "__probe_ip");
    EXPECT_TRUE(entry->description.fields[0].hex);
    EXPECT_EQ(entry->description.fields[1].name, "n");

    const auto exit = probe_of("kretprobe:nf_tables:nft_do_chain");
    ASSERT_TRUE(exit);
    EXPECT_STREQ(exit->request.symbol, "nf_tables:nft_do_chain");
    EXPECT_EQ(exit->request.flags, PLUMB_PROBE_RETURN);
    ASSERT_EQ(exit->description.fields.size(), 2U);
    EXPECT_EQ(exit->description.fields[0].name, "__probe_func");
    EXPECT_EQ(exit->description.fields[1].name, "__probe_ret_ip");

    const auto address = probe_of("kprobe:0xffffffff81000010");
    ASSERT_TRUE(address);
    EXPECT_STREQ(address->request.symbol, "");
    EXPECT_EQ(address->request.offset, 0xffffffff81000010U);
}

TEST(ModuleProbe, TellsWhatIsWrongWithItsPlace) {
    EXPECT_THAT(refusal_of("kprobe:vfs_read+x"), HasSubstr("+x is no offset"));
    EXPECT_THAT(refusal_of("kretprobe:vfs_read+1"), HasSubstr("returns as a whole"));
    EXPECT_THAT(refusal_of("kprobe:" + std::string(128, 'x')), HasSubstr("so long a name"));
    EXPECT_EQ(refusal_of("kprobe:" + std::string(127, 'x')), "");
    EXPECT_THAT(refusal_of("kprobe:vfs_read(n=%di:u24)"), HasSubstr("kprobe:vfs_read(n=%di:u24): "));
}

TEST(ModuleProbe, TellsWhyTheKernelDoesNotTakeIt) {
    const auto selector = KernelSelector::parse("kprobe:vfs_read");
    ASSERT_TRUE(selector);
    const auto said = [&](int error) { return probe_not_taken(*selector, error).message(); };
    EXPECT_THAT(said(ENOENT), HasSubstr("no function of that name"));
    EXPECT_THAT(said(EADDRNOTAVAIL), HasSubstr("no function of that name"));
    EXPECT_THAT(said(EINVAL), HasSubstr("nobody probe there"));
    EXPECT_THAT(said(EILSEQ), HasSubstr("nobody probe there"));
    EXPECT_THAT(said(E2BIG), HasSubstr("1000 probes"));
    EXPECT_THAT(said(ENOTTY), HasSubstr("an older one"));
    EXPECT_THAT(said(EPERM), HasSubstr("root"));
    EXPECT_THAT(said(ENOMEM), HasSubstr("Cannot allocate memory"));
}

} // namespace
} // namespace plumb
