// cmake-once
//
// System calls for plumb.ko: what it is asked of each, as the kernel's formats describe them.
#include "consumerd/kernel/module_calls.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace plumb {
namespace {

struct Argument {
    const char* type;
    const char* name;
};

std::string format_of(const std::string& name, const std::vector<Argument>& arguments) {
    std::string text =
        fmt::format("name: {}\nID: 700\nformat:\n"
                    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
                    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
                    "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n",
                    name);
    for (std::size_t i = 0; i < arguments.size(); i++)
        text += fmt::format("\tfield:{} {};\toffset:{};\tsize:8;\tsigned:0;\n", arguments[i].type,
                            arguments[i].name, 16 + i * 8);
    return text + "\nprint fmt: \"\"\n";
}

const std::vector<Argument> of_linkat = {{"int", "olddfd"},          {"const char *", "oldname"},
                                         {"int", "newdfd"},          {"const char *", "newname"},
                                         {"unsigned long", "flags"}, {"void *", "address"}};

TEST(ModuleCalls, TakeArgumentsFromWhereProgramsGiveThem) {
    const auto call = module_call("sys_enter_linkat", format_of("sys_enter_linkat", of_linkat), true);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->description.full_name(), "syscalls:syscall_entry_linkat");
    EXPECT_EQ(call->request.flags, PLUMB_PROBE_CALL);
    EXPECT_EQ(call->request.offset, 265U);
    ASSERT_EQ(call->request.fetch_count, 6U);
    const unsigned registers[] = {PLUMB_REGISTER_DI, PLUMB_REGISTER_SI, PLUMB_REGISTER_DX, 10, 8, 9};
    const unsigned sizes[] = {4, 1, 4, 1, 8, 8};
    for (unsigned i = 0; i < 6; i++) {
        const plumb_kernel_fetch& fetch = call->request.fetches[i];
        const bool is_text = i == 1 || i == 3;
        EXPECT_EQ(fetch.source, PLUMB_FETCH_REGISTER);
        EXPECT_EQ(fetch.number, registers[i]);
        EXPECT_EQ(fetch.size, sizes[i]) << i;
        EXPECT_EQ(fetch.type, is_text ? PLUMB_FIELD_STRING : PLUMB_FIELD_INTEGER);
        EXPECT_EQ(fetch.depth, is_text ? 1 : 0);
        EXPECT_EQ(fetch.flags, is_text ? PLUMB_FETCH_USER(0) : 0);
        EXPECT_EQ(call->description.fields[i].type, is_text ? PLUMB_FIELD_STRING : PLUMB_FIELD_INTEGER);
        EXPECT_EQ(call->description.fields[i].name, of_linkat[i].name);
    }
}

TEST(ModuleCalls, TellTextsLateByTheNamesOfTheirArguments) {
    const auto call = module_call("sys_enter_linkat", format_of("sys_enter_linkat", of_linkat), true);
    ASSERT_TRUE(call && call->late);
    EXPECT_EQ(call->late->flags, PLUMB_PROBE_CALL | PLUMB_PROBE_RETURN | PLUMB_PROBE_LATE);
    EXPECT_EQ(call->late->offset, 265U);
    EXPECT_STREQ(call->late->symbol, "linkat");
    EXPECT_STREQ(call->late->names[0], "");
    EXPECT_STREQ(call->late->names[1], "oldname");
    EXPECT_STREQ(call->late->names[3], "newname");
    EXPECT_EQ(call->late->fetch_count, 6U);
    EXPECT_EQ(call->late->fetches[3].number, 10U);
    EXPECT_STREQ(call->request.symbol, "");

    const auto longest =
        module_call("sys_enter_unlink",
                    format_of("sys_enter_unlink", {{"const char *", "a_name_of_23_characters"}}), true);
    ASSERT_TRUE(longest);
    EXPECT_TRUE(longest->late);
    const auto too_long =
        module_call("sys_enter_unlink",
                    format_of("sys_enter_unlink", {{"const char *", "a_name_of_24_characters_"}}), true);
    ASSERT_TRUE(too_long);
    EXPECT_FALSE(too_long->late);
}

TEST(ModuleCalls, HaveAddressesWhereNamesOfFilesAreNotWantedAndOfLists) {
    const auto without = module_call("sys_enter_linkat", format_of("sys_enter_linkat", of_linkat), false);
    ASSERT_TRUE(without);
    EXPECT_EQ(without->description.fields[1].type, PLUMB_FIELD_INTEGER);
    EXPECT_TRUE(without->description.fields[1].hex);
    EXPECT_EQ(without->request.fetches[1].depth, 0);
    EXPECT_EQ(without->request.fetches[1].size, 8);
    EXPECT_FALSE(without->late);

    const auto execve = module_call(
        "sys_enter_execve",
        format_of("sys_enter_execve", {{"const char *", "filename"}, {"const char *const *", "argv"}}), true);
    ASSERT_TRUE(execve);
    EXPECT_EQ(execve->description.fields[0].type, PLUMB_FIELD_STRING);
    EXPECT_EQ(execve->description.fields[1].type, PLUMB_FIELD_INTEGER);
}

TEST(ModuleCalls, ReturnWhatIsInOneRegister) {
    const auto exit = module_call("sys_exit_newstat", format_of("sys_exit_newstat", {{"long", "ret"}}), true);
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->description.full_name(), "syscalls:syscall_exit_newstat");
    EXPECT_EQ(exit->request.flags, PLUMB_PROBE_CALL | PLUMB_PROBE_RETURN);
    EXPECT_EQ(exit->request.offset, 4U);
    ASSERT_EQ(exit->request.fetch_count, 1U);
    EXPECT_EQ(exit->request.fetches[0].number, PLUMB_REGISTER_AX);
    EXPECT_EQ(exit->request.fetches[0].size, 8);
    EXPECT_FALSE(exit->late);
}

TEST(ModuleCalls, WithoutANumberOrWithTooMuchAreNone) {
    EXPECT_FALSE(module_call("sys_enter_nosuch", format_of("sys_enter_nosuch", {}), true));
    EXPECT_FALSE(module_call("openat", format_of("openat", {}), true));
    EXPECT_FALSE(module_call("sys_enter_getpid", "no format", true));
    std::vector<Argument> seven(7, {"long", "a"});
    EXPECT_FALSE(module_call("sys_enter_getpid", format_of("sys_enter_getpid", seven), true));
    const auto none = module_call("sys_enter_getpid", format_of("sys_enter_getpid", {}), true);
    ASSERT_TRUE(none);
    EXPECT_EQ(none->request.fetch_count, 0U);
}

TEST(ModuleCalls, AreKnownByNumbersThatHeadersOfTheBuildLack) {
    for (const auto& [name, number] : std::vector<std::pair<std::string, unsigned>>{{"statmount", 457},
                                                                                    {"mseal", 462},
                                                                                    {"futex_wait", 455},
                                                                                    {"newfstat", 5},
                                                                                    {"newuname", 63},
                                                                                    {"sendfile64", 40}})
        EXPECT_EQ(syscall_number(name), number) << name;
}

} // namespace
} // namespace plumb
