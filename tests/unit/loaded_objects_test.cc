// cmake-once
// Who loaded an object without telling: a few processes at a time are looked at, in turn, and each object is told once.
#include "base/file.h"
#include "base/processes.h"
#include "consumerd/channel/loaded_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

using namespace plumb;

namespace {

class LoadedObjectsTest : public testing::Test {
protected:
    void SetUp() override {
        child_ = ::fork();
        ASSERT_GE(child_, 0);
        if (child_ == 0) {
            ::alarm(300);
            for (;;)
                ::pause();
        }
        const Result<std::string> executable = read_link("/proc/self/exe");
        ASSERT_TRUE(executable) << executable.error().message();
        executable_ = *executable;
    }
    void TearDown() override { end_child(); }
    void end_child() {
        if (child_ <= 0) return;
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
        child_ = 0;
    }

    void note_process(pid_t process, const std::string& executable, pid_t parent = 0,
                      uint64_t boottime_ns = boottime_now_ns()) {
        ChannelEntry entry{};
        entry.type = PLUMB_ENTRY_PROCESS;
        entry.process_id = static_cast<uint32_t>(process);
        entry.parent_process_id = static_cast<uint32_t>(parent);
        entry.path = executable;
        objects_.note(entry, boottime_ns);
    }
    void note_object(pid_t process, uint64_t base, const std::string& path) {
        ChannelEntry entry{};
        entry.type = PLUMB_ENTRY_OBJECT;
        entry.process_id = static_cast<uint32_t>(process);
        entry.base = base;
        entry.path = path;
        objects_.note(entry, boottime_now_ns());
    }
    /* Who was found to have something that nobody had told. */
    std::set<pid_t> found(size_t processes, bool is_last = false) {
        std::set<pid_t> who;
        now_ns_ += 100 * LoadedObjects::longest_pause_ns;
        LoadedObjects::Looks looks{processes};
        looks.is_last = is_last;
        for (const ChannelEntry& entry : objects_.found(77, now_ns_, looks)) {
            EXPECT_EQ(entry.type, PLUMB_ENTRY_OBJECT);
            EXPECT_EQ(entry.timestamp, 77u);
            EXPECT_GT(entry.bytes, 0u) << entry.path;
            who.insert(static_cast<pid_t>(entry.process_id));
        }
        return who;
    }

    LoadedObjects objects_;
    uint64_t now_ns_ = 0;
    std::string executable_;
    pid_t child_ = 0;
};

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

} // namespace

TEST_F(LoadedObjectsTest, as_many_processes_as_wanted_are_looked_at) {
    note_process(::getpid(), executable_);
    note_process(child_, executable_);
    EXPECT_THAT(found(2), UnorderedElementsAre(::getpid(), child_));
    EXPECT_THAT(found(2), IsEmpty()) << "told twice";
}

TEST_F(LoadedObjectsTest, processes_are_looked_at_in_turn) {
    note_process(::getpid(), executable_);
    note_process(child_, executable_);
    std::set<pid_t> who = found(1);
    EXPECT_THAT(who, SizeIs(1));
    who.merge(found(1));
    EXPECT_THAT(who, UnorderedElementsAre(::getpid(), child_));
}

TEST_F(LoadedObjectsTest, a_forked_child_has_what_its_parent_has) {
    note_process(::getpid(), executable_);
    EXPECT_THAT(found(1), UnorderedElementsAre(::getpid()));
    note_process(child_, executable_, ::getpid());
    EXPECT_THAT(found(2), IsEmpty());
}

TEST_F(LoadedObjectsTest, a_program_that_said_another_path_is_looked_at) {
    note_process(::getpid(), "/as/in/a/chroot");
    EXPECT_THAT(found(1), UnorderedElementsAre(::getpid()));
}

TEST_F(LoadedObjectsTest, what_is_loaded_behind_exec_is_not_told_as_of_before) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(::pipe(pipe_ends.data()), 0);
    end_child();
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
        char byte = 0;
        (void)!::read(pipe_ends[0], &byte, 1);
        ::execl("/bin/sleep", "sleep", "300", nullptr);
        ::_exit(1);
    }
    note_process(child_, "/as/in/a/chroot");
    EXPECT_THAT(found(1), UnorderedElementsAre(child_));
    ASSERT_EQ(::write(pipe_ends[1], "x", 1), 1);
    while (*executable_of(static_cast<uint32_t>(child_)) == executable_)
        ::usleep(1000);
    EXPECT_THAT(found(1), IsEmpty());
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
}

TEST_F(LoadedObjectsTest, another_program_is_left_alone) {
    note_process(::getpid(), "/usr/bin/another", 0, 1); /* before this process began */
    EXPECT_THAT(found(1), IsEmpty());
    note_process(child_, executable_);
    end_child();
    EXPECT_THAT(found(2), IsEmpty());
}

TEST_F(LoadedObjectsTest, one_process_is_read_once_however_many_may_be) {
    note_process(::getpid(), executable_);
    EXPECT_THAT(found(64, true), UnorderedElementsAre(::getpid()));
    EXPECT_EQ(objects_.looks(), 1u);
}

TEST_F(LoadedObjectsTest, who_loads_nothing_is_read_less_and_less_often) {
    note_process(::getpid(), executable_);
    constexpr uint64_t turn_ns = 100'000'000, turns = 300;
    for (uint64_t turn = 0; turn < turns; turn++)
        objects_.found(77, turn * turn_ns, {4});
    EXPECT_GE(objects_.looks(), 10u);
    EXPECT_LE(objects_.looks(), turns * turn_ns / LoadedObjects::longest_pause_ns + 6);
}

TEST_F(LoadedObjectsTest, who_takes_long_is_left_for_a_while) {
    note_process(::getpid(), executable_);
    LoadedObjects::Looks looks{4};
    looks.budget_ns = 0;
    EXPECT_EQ(objects_.found(77, 1, looks).size(), 1u) << "one, however little time there is";
    EXPECT_EQ(objects_.found(77, 2, looks).size(), 0u) << "it was not left alone";
    EXPECT_GT(objects_.found(77, 100 * LoadedObjects::longest_pause_ns, {4}).size(), 0u)
        << "the rest was forgotten";
}

TEST_F(LoadedObjectsTest, who_is_gone_is_forgotten_and_what_he_shared_stays) {
    note_process(::getpid(), executable_);
    EXPECT_THAT(found(1), UnorderedElementsAre(::getpid()));
    note_process(child_, executable_, ::getpid());
    const pid_t child = child_;
    end_child();
    objects_.forget_gone(10);
    EXPECT_THAT(found(2), IsEmpty());
    EXPECT_FALSE(objects_.knows(static_cast<uint32_t>(child)));
    EXPECT_TRUE(objects_.knows(static_cast<uint32_t>(::getpid())));
}

TEST_F(LoadedObjectsTest, looks_after_so_many_processes_and_after_others_once_these_are_gone) {
    constexpr pid_t nobody = 5'000'000; /* beyond what process ids can be */
    for (size_t i = 0; i <= LoadedObjects::processes_max; i++)
        note_process(nobody + static_cast<pid_t>(i), "/bin/nobody");
    EXPECT_TRUE(objects_.knows(nobody));
    EXPECT_FALSE(objects_.knows(nobody + LoadedObjects::processes_max));
    objects_.forget_gone(10);
    note_process(child_, executable_);
    EXPECT_TRUE(objects_.knows(static_cast<uint32_t>(child_)));
}

TEST_F(LoadedObjectsTest, what_is_loaded_where_something_was_before_is_told_again) {
    const FileDescriptor file(::open("/bin/sleep", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file.is_open());
    constexpr size_t bytes = 4096;
    const auto load = [&](void* at) {
        return ::mmap(at, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at != nullptr ? MAP_FIXED : 0),
                      file.get(), 0);
    };
    void* const at = load(nullptr);
    ASSERT_NE(at, MAP_FAILED);
    note_process(::getpid(), executable_);
    EXPECT_THAT(found(1), UnorderedElementsAre(::getpid()));
    EXPECT_THAT(found(1), IsEmpty());
    ::munmap(at, bytes);
    EXPECT_THAT(found(1), IsEmpty());
    ASSERT_EQ(load(at), at);
    EXPECT_THAT(found(1), UnorderedElementsAre(::getpid())) << "it may be another file by now";
    EXPECT_THAT(found(1), IsEmpty());
    ::munmap(at, bytes);
}

TEST_F(LoadedObjectsTest,
       what_is_told_without_end_is_remembered_up_to_a_number_and_forgotten_when_it_is_not_there) {
    note_process(child_, executable_);
    for (uint64_t i = 0; i < LoadedObjects::objects_max + 100; i++)
        note_object(child_, i << 12, "/made/up.so");
    EXPECT_EQ(objects_.objects(), LoadedObjects::objects_max);
    note_process(::getpid(), executable_, child_);
    note_object(::getpid(), 1, "/made/up.so"); /* would be a copy of all */
    EXPECT_EQ(objects_.objects(), LoadedObjects::objects_max);
    std::set<pid_t> who = found(2); /* the first one has no room before the other one's are forgotten */
    who.merge(found(2));
    EXPECT_THAT(who, UnorderedElementsAre(child_, ::getpid()));
    EXPECT_LT(objects_.objects(), 1000u);
    end_child();
    objects_.forget_gone(10);
    objects_ = {};
    EXPECT_EQ(objects_.objects(), 0u);
}
