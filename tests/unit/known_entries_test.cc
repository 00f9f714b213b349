// Who is told of in the next chunk of a trace.
#include "consumerd/drain/known_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace plumb {
namespace {

class Known : public testing::Test {
protected:
    static ChannelEntry entry(plumb_entry_type type, uint32_t process, uint64_t time) {
        ChannelEntry made{};
        made.type = type;
        made.process_id = made.thread_id = process;
        made.timestamp = time;
        return made;
    }
    void process(uint32_t id, uint64_t time, const std::string& path, uint32_t parent = 0) {
        ChannelEntry made = entry(PLUMB_ENTRY_PROCESS, id, time);
        made.path = made.name = path;
        made.parent_process_id = parent;
        known.note(made);
    }
    void thread(uint32_t process, uint32_t id, uint64_t time, const std::string& name) {
        ChannelEntry made = entry(PLUMB_ENTRY_THREAD, process, time);
        made.thread_id = id;
        made.name = name;
        known.note(made);
    }
    void object(uint32_t process, uint64_t base, uint64_t time, const std::string& path) {
        ChannelEntry made = entry(PLUMB_ENTRY_OBJECT, process, time);
        made.base = base;
        made.path = path;
        known.note(made);
    }
    /* "name at time" */
    std::vector<std::string> at(uint64_t began) {
        std::vector<std::string> told;
        for (const ChannelEntry& each : known.at(began))
            told.push_back((each.type == PLUMB_ENTRY_OBJECT ? each.path : each.name) + " at " +
                           std::to_string(each.timestamp));
        return told;
    }

    std::set<std::pair<uint32_t, uint32_t>> ended;
    KnownEntries known{[this](uint32_t process, uint32_t thread) {
        return ended.count({process, 0}) == 0 && (thread == 0 || ended.count({process, thread}) == 0);
    }};
};

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST_F(Known, what_holds_is_told_again_as_of_then_and_what_came_since_as_it_was) {
    process(7, 10, "shop");
    thread(7, 8, 11, "first");
    thread(7, 8, 20, "second");
    thread(7, 8, 40, "third");
    object(7, 0x1000, 12, "libshop.so");
    EXPECT_THAT(at(30), ElementsAre("shop at 30", "second at 30", "third at 40", "libshop.so at 30"));
    EXPECT_THAT(at(50), ElementsAre("shop at 50", "third at 50", "libshop.so at 50"));
}

/* Readers take the last of one time for who has the number. */
TEST_F(Known, a_number_that_another_one_had_is_told_behind_that) {
    process(5000, 10, "family");
    thread(5000, 4000, 20, "its thread");
    thread(5000, 4001, 20, "its other thread");
    process(4000, 30, "later");
    process(3000, 40, "other");
    thread(3000, 5000, 50, "last");
    thread(3000, 4001, 150, "yet to come");
    EXPECT_THAT(at(100), ElementsAre("other at 100", "yet to come at 150", "later at 100", "family at 100",
                                     "its other thread at 100", "last at 100"));
    EXPECT_THAT(at(200), ElementsAre("other at 200", "later at 200", "family at 200", "yet to come at 200",
                                     "last at 200"));
}

TEST_F(Known, who_is_found_to_have_ended_is_told_of_once_more) {
    process(7, 10, "shop");
    thread(7, 8, 11, "stays");
    thread(7, 9, 11, "goes");
    ended.insert({7, 9});
    EXPECT_THAT(at(30), UnorderedElementsAre("shop at 30", "stays at 30", "goes at 30"));
    EXPECT_THAT(at(40), ElementsAre("shop at 40", "stays at 40"));
    ended.insert({7, 0});
    EXPECT_THAT(at(50), ElementsAre("shop at 50", "stays at 50"));
    EXPECT_THAT(at(60), IsEmpty());
    EXPECT_EQ(known.size(), 0u);
}

TEST_F(Known, a_parent_is_needed_as_long_as_a_child_lives_that_has_its_objects) {
    process(7, 10, "shop");
    object(7, 0x1000, 12, "libshop.so");
    process(9, 20, "shop", 7);
    ended.insert({7, 0});
    at(30);
    EXPECT_THAT(at(40), UnorderedElementsAre("shop at 40", "shop at 40", "libshop.so at 40"));
    ended.insert({9, 0});
    at(50);
    EXPECT_THAT(at(60), IsEmpty());
}

TEST_F(Known, an_exec_leaves_nothing_of_the_objects_before_it_and_a_second_runtime_does) {
    process(7, 10, "shell");
    object(7, 0x1000, 11, "libshell.so");
    process(7, 20, "shop");
    object(7, 0x1000, 21, "libshop.so");
    process(7, 30, "shop"); /* of a plug-in */
    object(7, 0x2000, 31, "plugin.so");
    EXPECT_THAT(at(40), ElementsAre("shop at 40", "libshop.so at 40", "plugin.so at 40"));
}

TEST_F(Known, of_many_who_have_ended_before_the_cut_nothing_is_kept) {
    for (uint32_t id = 1; id <= 20'000; id++) {
        process(id, id, "child");
        ended.insert({id, 0});
    }
    EXPECT_LT(known.size(), 10'000u);
    EXPECT_EQ(known.left_out(), 0u);
}

} // namespace
} // namespace plumb
