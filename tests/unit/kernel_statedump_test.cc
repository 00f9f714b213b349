// cmake-once
// The dump of the kernel's state speaks as LTTng's does: analyses know its numbers, not its labels.
#include "consumerd/kernel/kernel_statedump.h"

#include "base/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace plumb;
using ::testing::ElementsAre;

namespace {

std::vector<EventLabel> labels_of(const std::string& event_name, const std::string& field_name) {
    for (const EventDescription& event : kernel_statedump_events())
        for (const EventField& field : event.fields)
            if (event.name == event_name && field.name == field_name) return field.labels;
    ADD_FAILURE() << event_name << " has no " << field_name;
    return {};
}

} // namespace

TEST(kernel_statedump, calls_states_of_processes_as_lttng_does) {
    const std::string event = "lttng_statedump_process_state";
    EXPECT_THAT(labels_of(event, "type"),
                ElementsAre(EventLabel(0, "USER_THREAD"), EventLabel(1, "KERNEL_THREAD")));
    EXPECT_THAT(labels_of(event, "mode"), ElementsAre(EventLabel(5, "MODE_UNKNOWN")));
    EXPECT_THAT(labels_of(event, "submode"), ElementsAre(EventLabel(1, "UNKNOWN")));
    EXPECT_THAT(labels_of(event, "status"),
                ElementsAre(EventLabel(0, "UNNAMED"), EventLabel(2, "WAIT_CPU"), EventLabel(3, "EXIT"),
                            EventLabel(4, "ZOMBIE"), EventLabel(5, "WAIT"), EventLabel(7, "DEAD")));
}

/* Newer tools find whose files they are by the table, older ones by the process. */
TEST(kernel_statedump, says_of_files_what_lttng_says) {
    const auto fields_of = [](const std::string& name) {
        std::vector<std::string> names;
        for (const EventDescription& event : kernel_statedump_events())
            if (event.name == name)
                for (const EventField& field : event.fields)
                    names.push_back(field.name);
        return names;
    };
    EXPECT_THAT(fields_of("lttng_statedump_file_descriptor"),
                ElementsAre("pid", "file_table_address", "fd", "flags", "fmode", "filename"));
    EXPECT_THAT(fields_of("lttng_statedump_process_state"),
                ElementsAre("tid", "pid", "ppid", "name", "type", "mode", "submode", "status", "cpu",
                            "file_table_address"));
}

TEST(kernel_statedump, has_integers_of_sizes_that_integers_have) {
    for (const EventDescription& event : kernel_statedump_events())
        for (const EventField& field : event.fields) {
            EXPECT_EQ(field.array_length, 0) << event.name << " " << field.name;
            if (field.type != PLUMB_FIELD_INTEGER) continue;
            EXPECT_THAT(field.size, testing::AnyOf(1, 2, 4, 8)) << event.name << " " << field.name;
        }
}

TEST(kernel_statedump, says_which_process_a_thread_is_of) {
    const KernelStatedump dump = kernel_statedump({});
    const auto self = dump.threads.find(static_cast<std::uint32_t>(::gettid()));
    ASSERT_NE(self, dump.threads.end());
    EXPECT_EQ(self->second.process_id, static_cast<std::uint32_t>(::getpid()));
    const auto began = process_start_boottime_ns(static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(self->second.began_boottime_ns, began);
    EXPECT_FALSE(dump.records.empty());
}

TEST(kernel_statedump, lists_open_files_if_asked_to) {
    char path[] = "/tmp/plumb-statedump-XXXXXX";
    const int file = ::mkstemp(path);
    ASSERT_GE(file, 0);
    const auto is_listed = [&](const KernelStatedump& dump) {
        const std::string_view bytes(reinterpret_cast<const char*>(dump.records.data()), dump.records.size());
        return bytes.find(path) != std::string_view::npos;
    };
    EXPECT_TRUE(is_listed(kernel_statedump({.open_files = true})));
    EXPECT_FALSE(is_listed(kernel_statedump({})));
    ::close(file);
    ::unlink(path);
}

/* Neither read nor written by this descriptor, and one whose name the kernel does not tell, since it is too long. */
TEST(kernel_statedump, lists_files_that_are_but_places_and_those_of_long_names) {
    char folder[] = "/tmp/plumb-statedump-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const auto before = std::filesystem::current_path();
    ASSERT_EQ(::chdir(folder), 0);
    const std::string part(250, 'd');
    for (int depth = 0; depth < 20; depth++)
        ASSERT_TRUE(::mkdir(part.c_str(), 0700) == 0 && ::chdir(part.c_str()) == 0);
    constexpr int number = 776;
    const int place = ::open(folder, O_PATH), deep = ::open(".", O_RDONLY);
    ASSERT_EQ(::dup2(deep, number), number);
    const KernelStatedump dump = kernel_statedump({.open_files = true});
    const std::string_view bytes(reinterpret_cast<const char*>(dump.records.data()), dump.records.size());
    const auto number_at = [&](std::size_t at) {
        std::uint32_t value = ~0U;
        if (at <= bytes.size() - sizeof(value)) std::memcpy(&value, bytes.data() + at, sizeof(value));
        return value;
    };
    const std::size_t name = bytes.find(std::string_view(folder, sizeof(folder)));
    ASSERT_NE(name, std::string_view::npos);
    EXPECT_EQ(number_at(name - 4), 0U);
    bool is_there = false; /* its number, flags, mode, and a name of nothing */
    for (std::size_t at = 0; at + 12 < bytes.size(); at++)
        is_there |= number_at(at) == number && (number_at(at + 4) & O_DIRECTORY) == 0 &&
                    number_at(at + 8) == 1 && bytes[at + 12] == 0;
    EXPECT_TRUE(is_there);
    for (const int file : {place, deep, number})
        ::close(file);
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
}
