// cmake-once
// Nothing in the state file is believed. One that is damaged, or of another version, makes room for a new one when nobody
// uses it; else it stays, and its users are named.
#include "tests/support/state_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

using namespace plumb;
using plumb::test::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(State, hostile_rules_are_read_as_sane_ones) {
    std::memset(static_cast<void*>(&set(0)), 0xff, sizeof(plumb_rule_set));
    const auto rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ((*rules)->rule_count, PLUMB_MAX_RULES);
    for (const plumb_session& session : (*rules)->sessions)
        EXPECT_LT(::strnlen(session.name, sizeof(session.name)), sizeof(session.name));
    for (const plumb_rule& rule : (*rules)->rules) {
        EXPECT_LT(rule.session, PLUMB_MAX_SESSIONS);
        EXPECT_LT(::strnlen(rule.pattern, sizeof(rule.pattern)), sizeof(rule.pattern));
        EXPECT_LT(::strnlen(rule.executable, sizeof(rule.executable)), sizeof(rule.executable));
    }
    EXPECT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
}

TEST_F(State, a_damaged_file_that_nobody_uses_is_moved_aside) {
    using Damage = void (*)(plumb_state_header&);
    for (const Damage damage : {Damage([](plumb_state_header& h) { h.magic ^= 1; }),
                                Damage([](plumb_state_header& h) { h.total_bytes--; }),
                                Damage([](plumb_state_header& h) { h.processes_offset = 0; }),
                                Damage([](plumb_state_header& h) { h.rule_sets_offset = ~0ull; }),
                                Damage([](plumb_state_header& h) { h.process_count = ~0u; })}) {
        reopen_damaged(damage);
        EXPECT_FALSE(StateFile::open_existing(*directory_));
        ASSERT_TRUE(open());
        EXPECT_EQ(header().magic, PLUMB_STATE_MAGIC);
        EXPECT_EQ(header().process_count, PLUMB_MAX_PROCESSES);
    }
}

TEST_F(State, a_file_of_another_size_is_damaged) {
    state_.reset();
    ASSERT_EQ(::truncate(directory_->path_of_file("state").c_str(), 100), 0);
    const Result<StateFile> opened = StateFile::open_existing(*directory_);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("it has 100 bytes"));
    EXPECT_TRUE(open());
}

TEST_F(State, a_file_with_holes_is_damaged) {
    state_.reset();
    const std::string path = directory_->path_of_file("state");
    ASSERT_EQ(::truncate(path.c_str(), PLUMB_STATE_TOTAL_BYTES / 2), 0);
    ASSERT_EQ(::truncate(path.c_str(), PLUMB_STATE_TOTAL_BYTES), 0);
    const Result<StateFile> opened = StateFile::open_existing(*directory_);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("it has holes"));
    EXPECT_TRUE(open());
    EXPECT_TRUE(StateFile::open_existing(*directory_));
}

TEST_F(State, another_version_that_nobody_uses_is_replaced) {
    reopen_damaged([](plumb_state_header& h) { h.version_major = 2; });
    EXPECT_FALSE(StateFile::open_existing(*directory_));
    ASSERT_TRUE(open());
    EXPECT_EQ(header().version_major, PLUMB_STATE_VERSION_MAJOR);
}

TEST_F(State, another_version_in_use_is_left_alone_and_both_numbers_are_named) {
    header().version_major = 9; /* this process maps it */
    header().version_minor = 2;
    const Result<StateFile> opened = StateFile::open_or_create(*directory_);
    ASSERT_FALSE(opened);
    EXPECT_THAT(*directory_->file_names(), ElementsAre("state"));
    EXPECT_THAT(opened.error().message(), HasSubstr("version 9.2"));
    EXPECT_THAT(opened.error().message(),
                HasSubstr("understands version " + std::to_string(PLUMB_STATE_VERSION_MAJOR)));
    EXPECT_THAT(opened.error().message(), HasSubstr(fmt::format("pid {}", ::getpid())));
}

TEST_F(State, another_minor_version_is_read) {
    reopen_damaged([](plumb_state_header& h) { h.version_minor = 77; });
    EXPECT_TRUE(StateFile::open_existing(*directory_));
}

TEST_F(State, a_damaged_file_in_use_is_left_alone_and_its_users_are_named) {
    header().magic ^= 1; /* this process maps it */
    const Result<StateFile> opened = StateFile::open_or_create(*directory_);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("damaged"));
    EXPECT_THAT(opened.error().message(), HasSubstr(fmt::format("pid {}", ::getpid())));
    EXPECT_THAT(*directory_->file_names(), ElementsAre("state"));
}
