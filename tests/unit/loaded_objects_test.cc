// cmake-once
// Who loaded an object without telling: a few processes at a time are looked at, in turn, and each object is told once.
#include "base/file.h"
#include "consumerd/channel/loaded_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
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

    void note_process(pid_t process, const std::string& executable, pid_t parent = 0) {
        ChannelEntry entry{};
        entry.type = PLUMB_ENTRY_PROCESS;
        entry.process_id = static_cast<uint32_t>(process);
        entry.parent_process_id = static_cast<uint32_t>(parent);
        entry.path = executable;
        objects_.note(entry);
    }
    /* Who was found to have something that nobody had told. */
    std::set<pid_t> found(size_t processes) {
        std::set<pid_t> who;
        for (const ChannelEntry& entry : objects_.found(77, processes)) {
            EXPECT_EQ(entry.type, PLUMB_ENTRY_OBJECT);
            EXPECT_EQ(entry.timestamp, 77u);
            EXPECT_GT(entry.bytes, 0u) << entry.path;
            who.insert(static_cast<pid_t>(entry.process_id));
        }
        return who;
    }

    LoadedObjects objects_;
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

TEST_F(LoadedObjectsTest, another_program_is_left_alone) {
    note_process(::getpid(), "/usr/bin/another");
    EXPECT_THAT(found(1), IsEmpty());
    note_process(child_, executable_);
    end_child();
    EXPECT_THAT(found(2), IsEmpty());
}
