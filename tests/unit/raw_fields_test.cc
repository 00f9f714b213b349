// cmake-once
// Which fields of the kernel's events hold numbers of processes, and what is read from fields.
#include "consumerd/kernel/raw_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace plumb {
namespace {

using testing::ElementsAre;

constexpr const char* common = "format:\n"
                               "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                               "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
                               "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
                               "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

RawFields fields_of(const std::string& fields) {
    return RawFields("name: one\nID: 77\n" + std::string(common) + fields +
                     "\nprint fmt: \"field:int pid;\"\n");
}

TEST(RawFieldsTest, are_found_by_their_names) {
    const RawFields fields = fields_of("\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                                       "\tfield:__data_loc char[] filename;\toffset:24;\tsize:4;\tsigned:0;\n"
                                       "\tfield:unsigned long long flags;\toffset:32;\tsize:8;\tsigned:0;\n");
    EXPECT_EQ(fields.id(), 77);
    EXPECT_EQ(fields.all().size(), 7U);
    EXPECT_EQ(fields.find("nothing"), nullptr);
    std::array<std::byte, 48> event{};
    const std::uint32_t location = 40 | 5 << 16;
    const std::uint64_t flags = 0x123456789a;
    std::memcpy(event.data() + 24, &location, sizeof(location));
    std::memcpy(event.data() + 32, &flags, sizeof(flags));
    std::memcpy(event.data() + 40, "/bin", 5);
    EXPECT_EQ(raw_text(*fields.find("filename"), event), "/bin");
    EXPECT_EQ(raw_number(*fields.find("flags"), event), 0x123456789a);
    EXPECT_FALSE(raw_number(*fields.find("flags"), std::span(event).first(39)));
    EXPECT_EQ(raw_text(*fields.find("filename"), std::span(event).first(44)), "");
    EXPECT_FALSE(raw_number(*fields.find("comm"), event));
}

TEST(RawFieldsTest, numbers_of_processes_are_told_from_others) {
    const RawFields fields = fields_of("\tfield:pid_t child_pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                                       "\tfield:int pid;\toffset:12;\tsize:4;\tsigned:1;\n"
                                       "\tfield:unsigned int tgid;\toffset:16;\tsize:4;\tsigned:0;\n"
                                       "\tfield:pid_t ngid;\toffset:20;\tsize:4;\tsigned:1;\n"
                                       "\tfield:tid_t tid;\toffset:24;\tsize:4;\tsigned:0;\n"
                                       "\tfield:u32 pid;\toffset:28;\tsize:4;\tsigned:0;\n"
                                       "\tfield:int rapid;\toffset:32;\tsize:4;\tsigned:1;\n"
                                       "\tfield:pid_t pids[2];\toffset:36;\tsize:8;\tsigned:1;\n");
    EXPECT_THAT(process_number_offsets("sched", fields), ElementsAre(4, 8, 12, 16));
    EXPECT_THAT(process_number_offsets("syscalls", fields), ElementsAre(4)); /* the program's own */
    EXPECT_THAT(process_number_offsets("plumb_r1_2", fields), ElementsAre(4));
}

} // namespace
} // namespace plumb
