// cmake-once
// What a session's rules are in the state file, for whom they are, and whether they are still there: to the byte, and with
// what is said of those that can not be.
#include "base/processes.h"
#include "consumerd/control/session.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/control/unattached.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

/* A child; or an orphan, whose parent, a child, has ended. It maps what this process maps, or runs another program. */
class Process {
public:
    enum Kind { child, orphan, orphan_of_another_program };
    explicit Process(Kind kind = child) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        const pid_t first = ::fork();
        if (first == 0) {
            if (kind != child && ::fork() != 0) ::_exit(0);
            const pid_t self = ::getpid();
            (void)!::write(ends[1], &self, sizeof(self));
            ::close(ends[1]); /* or at exec() */
            if (kind == orphan_of_another_program) ::execlp("sleep", "sleep", "100", nullptr);
            ::alarm(100); /* nobody else would end an orphan */
            for (;;)
                ::pause();
        }
        ::close(ends[1]);
        EXPECT_EQ(::read(ends[0], &process_, sizeof(process_)), static_cast<ssize_t>(sizeof(process_)));
        ::close(ends[0]);
        if (kind != child) ::waitpid(first, nullptr, 0);
    }
    ~Process() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }

private:
    pid_t process_ = -1;
};

ChannelConfig small() {
    ChannelConfig config;
    config.session_name = "shop";
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    config.ring_count = 1;
    return config;
}

class Rules : public test::State {
protected:
    Session make(const QuiescenceOptions& options = {}) {
        Result<UserDirectory> directory = UserDirectory::open_existing_at(directory_->path(), ::geteuid());
        Result<Session> made = Session::create_in(std::move(*directory), small(), options);
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    std::vector<std::string> patterns() {
        const auto rules = state_->rule_set();
        std::vector<std::string> found;
        for (std::uint32_t i = 0; i < (*rules)->rule_count; i++)
            found.push_back(fmt::format("{} {}", (*rules)->rules[i].session, (*rules)->rules[i].pattern));
        return found;
    }
    void edit_raw(const std::function<void(plumb_rule_set&)>& change) {
        ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
            change(rules);
            return ok();
        }));
    }
};

std::string mistake_of(const Rule& rule) {
    const Result<plumb_rule> encoded = encode_rule(rule, 0);
    return encoded ? "" : encoded.error().message();
}

} // namespace

TEST(Rule, stands_in_the_state_file_as_it_was_meant) {
    const auto encoded = [](const Rule& rule) {
        const Result<plumb_rule> one = encode_rule(rule, 5);
        EXPECT_TRUE(one) << one.error().message();
        return fmt::format("{} {} {} {} {} {} '{}' '{}'", one->session, one->who, one->flags, one->log_level,
                           one->who_id, one->who_namespace, one->pattern, one->executable);
    };
    EXPECT_EQ(encoded({"shop:order"}), "5 0 0 255 0 0 'shop:order' ''");
    EXPECT_EQ(encoded({"shop"}), "5 0 0 255 0 0 'shop:*' ''");
    EXPECT_EQ(encoded({"*"}), "5 0 0 255 0 0 '*' ''");
    EXPECT_EQ(encoded({"sh*"}), "5 0 0 255 0 0 'sh*:*' ''");
    EXPECT_EQ(encoded({"!shop:debug_*", Who::all(), 4}),
              fmt::format("5 0 {} 4 0 0 'shop:debug_*' ''", PLUMB_RULE_EXCLUDE));
    EXPECT_EQ(encoded({"!shop"}), fmt::format("5 0 {} 255 0 0 'shop:*' ''", PLUMB_RULE_EXCLUDE));
    EXPECT_EQ(encoded({"a:b", Who::process(4711)}),
              fmt::format("5 {} 0 255 4711 0 'a:b' ''", static_cast<int>(PLUMB_WHO_PROCESS)));
    EXPECT_EQ(encoded({"a:b", Who::user(1000)}),
              fmt::format("5 {} 0 255 1000 0 'a:b' ''", static_cast<int>(PLUMB_WHO_USER)));
    EXPECT_EQ(encoded({"a:b", Who::with_executable("/usr/bin/*")}),
              fmt::format("5 {} 0 255 0 0 'a:b' '/usr/bin/*'", static_cast<int>(PLUMB_WHO_EXECUTABLE)));
    EXPECT_EQ(encoded({"a:b", Who::launched()}),
              fmt::format("5 {} 0 255 0 0 'a:b' ''", static_cast<int>(PLUMB_WHO_LAUNCHED)));
}

TEST(Rule, that_can_not_be_says_why) {
    const std::string longest(PLUMB_PATTERN_BYTES - 1, 'x');
    EXPECT_EQ(mistake_of({"a:" + longest.substr(2)}), "");
    EXPECT_EQ(mistake_of({"a:" + longest.substr(1)}),
              fmt::format("The event pattern 'a:{}' is too long: {} bytes are possible.", longest.substr(1),
                          PLUMB_PATTERN_BYTES - 1));
    EXPECT_EQ(mistake_of({longest.substr(2)}), "") << "with the ':*' that it stands for";
    EXPECT_THAT(mistake_of({longest.substr(1)}), HasSubstr("is too long"));
    const std::string path(PLUMB_EXECUTABLE_BYTES - 1, 'x');
    EXPECT_EQ(mistake_of({"a:b", Who::with_executable(path)}), "");
    EXPECT_EQ(mistake_of({"a:b", Who::with_executable(path + "x")}),
              fmt::format("The executable's pattern '{}x' is too long: {} bytes are possible.", path,
                          PLUMB_EXECUTABLE_BYTES - 1));
    EXPECT_THAT(mistake_of({"a:b", Who::with_executable("[")}),
                HasSubstr("\"[\" can not be an executable: "));
    const std::string no_pattern = "An event pattern is empty. '*' stands for all events.";
    EXPECT_EQ(mistake_of({""}), no_pattern);
    EXPECT_EQ(mistake_of({"!"}), no_pattern);
    const auto wrong = [](const std::string& pattern) {
        const std::string text = mistake_of({pattern});
        const std::size_t begin = text.find("event: "), end = text.find(". Write PROVIDER:EVENT");
        return begin == std::string::npos || end == std::string::npos
                   ? text
                   : text.substr(begin + 7, end - begin - 7);
    };
    EXPECT_EQ(wrong(":b"), "it has no provider");
    EXPECT_EQ(wrong("a:"), "it has no event behind the provider");
    EXPECT_EQ(wrong("a:b:c"), "it has more than one colon");
    EXPECT_EQ(wrong("a:b,c:d"), "it has more than one colon: several patterns have an option each");
    EXPECT_EQ(wrong("a b"), "it has a space");
    EXPECT_EQ(wrong("a,b"), "it has a ','");
    EXPECT_EQ(wrong("a\nb"), "it has a '\\n'");
    EXPECT_EQ(wrong("a\x7f"), "it has a '\\x7f'");
    EXPECT_EQ(wrong("a\x1f"), "it has a '\\x1f'");
    EXPECT_EQ(wrong("a^"), "it has a '^'");
    /* What is quoted, or in a set, may be anything; behind it is looked on. */
    for (const char* pattern :
         {"a\\,b", "a[,]b", "a[!,]b", "a[^,]b", "a[],]b", "a[!],]b", "x:[a:b]", "\xc3\xa4:b"})
        EXPECT_EQ(mistake_of({pattern}), "") << pattern;
    EXPECT_EQ(wrong("a\\,,"), "it has a ','");
    EXPECT_EQ(wrong("a[,],"), "it has a ','");
    EXPECT_EQ(wrong("a[!,],"), "it has a ','");
    EXPECT_EQ(wrong("a[],],"), "it has a ','");
}

TEST(Rule, is_on_in_sessions_for_the_processes_that_it_is_for) {
    plumb_rule_set rules{};
    EventDescription event;
    event.provider = "shop";
    event.name = "order";
    event.log_level = 6;
    TracedProcess process{};
    const Process child;
    process.process_id = child.id();
    process.own_name = {77, 4711};
    process.user_id = 1000;
    process.executable = "/usr/bin/shop";
    for (std::uint32_t i = 0; i < PLUMB_MAX_SESSIONS; i++)
        rules.sessions[i] = test::session_of(1, i + 1, fmt::format("s{}", i).c_str());
    const auto add = [&](std::uint8_t session, const char* pattern) -> plumb_rule& {
        test::add_rule(rules, session, pattern);
        plumb_rule& rule = rules.rules[rules.rule_count - 1];
        rule.log_level = 255;
        return rule;
    };
    const auto found = [&] { return sessions_with(rules, process, event); };
    EXPECT_THAT(found(), IsEmpty());
    add(15, "shop:*");
    add(3, "shop:order");
    add(0, "*");
    add(4, "shop:other");
    EXPECT_THAT(found(), ElementsAre("s0", "s3", "s15"));
    /* One that is over, one for more severe events, one that leaves it out. */
    rules.sessions[0].cookie = 0;
    rules.rules[1].log_level = 5;
    EXPECT_THAT(found(), ElementsAre("s15"));
    rules.rules[1].log_level = 6;
    EXPECT_THAT(found(), ElementsAre("s3", "s15"));
    add(15, "shop:ord*").flags = PLUMB_RULE_EXCLUDE;
    EXPECT_THAT(found(), ElementsAre("s3"));
    add(3, "shop:ord?").flags = PLUMB_RULE_EXCLUDE;
    EXPECT_THAT(found(), ElementsAre("s3"));
    rules.rule_count = 0;
    const auto is_for = [&](int who, std::uint32_t id, std::uint32_t space, const char* executable) {
        rules.rule_count = 0;
        plumb_rule& rule = add(1, "*");
        rule.who = static_cast<std::uint8_t>(who);
        rule.who_id = id;
        rule.who_namespace = space;
        std::strncpy(rule.executable, executable, sizeof(rule.executable) - 1);
        return !found().empty();
    };
    EXPECT_TRUE(is_for(PLUMB_WHO_PROCESS, 4711, 77, ""));
    EXPECT_FALSE(is_for(PLUMB_WHO_PROCESS, 4711, 78, ""));
    EXPECT_FALSE(is_for(PLUMB_WHO_PROCESS, 4712, 77, ""));
    EXPECT_TRUE(is_for(PLUMB_WHO_USER, 1000, 0, ""));
    EXPECT_FALSE(is_for(PLUMB_WHO_USER, 1001, 0, ""));
    EXPECT_TRUE(is_for(PLUMB_WHO_EXECUTABLE, 0, 0, "shop"));
    EXPECT_TRUE(is_for(PLUMB_WHO_EXECUTABLE, 0, 0, "/usr/*"));
    EXPECT_FALSE(is_for(PLUMB_WHO_EXECUTABLE, 0, 0, "bin"));
    EXPECT_FALSE(is_for(PLUMB_WHO_EXECUTABLE, 0, 0, "/shop"));
    EXPECT_FALSE(is_for(99, 0, 0, ""));
    /* Launched is who descends from the controller, if that is of our namespace. */
    rules.sessions[1].controller_process_id = static_cast<std::uint32_t>(::getpid());
    EXPECT_TRUE(is_for(PLUMB_WHO_LAUNCHED, 0, 0, ""));
    rules.sessions[1].controller_namespace ^= 1;
    EXPECT_FALSE(is_for(PLUMB_WHO_LAUNCHED, 0, 0, ""));
}

TEST_F(Rules, of_one_session_come_and_go_beside_those_of_others) {
    Session first = make(), second = make();
    ASSERT_TRUE(first.enable({{"a"}, {"b"}, {"c"}}));
    ASSERT_TRUE(second.enable({{"b"}}));
    EXPECT_THAT(patterns(), ElementsAre("0 a:*", "0 b:*", "0 c:*", "1 b:*"));
    ASSERT_TRUE(first.enable({{"b"}, {"d"}}));
    EXPECT_THAT(patterns(), ElementsAre("0 a:*", "0 b:*", "0 c:*", "1 b:*", "0 d:*")) << "each once";
    ASSERT_TRUE(first.disable({{"b"}, {"nothing"}}));
    EXPECT_THAT(patterns(), ElementsAre("0 a:*", "0 c:*", "1 b:*", "0 d:*"));
    EXPECT_TRUE(first.check_entrance());
    ASSERT_TRUE(first.end());
    EXPECT_THAT(patterns(), ElementsAre("1 b:*"));
    const auto rules = state_->rule_set();
    EXPECT_EQ((*rules)->sessions[0].cookie, 0u);
    EXPECT_EQ((*rules)->sessions[1].cookie, second.cookie());
    EXPECT_EQ((*rules)->rules[1].pattern[0], '\0') << "nothing is left of them";
    EXPECT_EQ(first.channel().header().closed, 1u);
    EXPECT_EQ(second.channel().header().closed, 0u);
    ASSERT_TRUE(first.end()) << "once more is no harm";
    EXPECT_TRUE(first.remove_channel());
}

TEST_F(Rules, there_is_room_for_a_number_of_rules_and_of_sessions) {
    Session session = make();
    std::vector<Rule> many;
    for (std::uint32_t i = 0; i < PLUMB_MAX_RULES; i++)
        many.push_back({fmt::format("p:e{}", i)});
    ASSERT_TRUE(session.enable(many));
    EXPECT_EQ((*state_->rule_set())->rule_count, PLUMB_MAX_RULES);
    EXPECT_TRUE(session.enable({{"p:e0"}})) << "it is there already";
    EXPECT_THAT(session.enable({{"p:more"}}).error().message(),
                HasSubstr("All 256 rules are taken. Use patterns with * instead of many single events."));
    ASSERT_TRUE(session.end());
    std::vector<Session> sessions;
    for (std::uint32_t i = 0; i < PLUMB_MAX_SESSIONS; i++)
        sessions.push_back(make());
    const std::vector<std::string> files = *directory_->file_names();
    Result<UserDirectory> directory = UserDirectory::open_existing_at(directory_->path(), ::geteuid());
    const Result<Session> refused = Session::create_in(std::move(*directory), small());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("All 16 sessions of this user are taken"));
    EXPECT_EQ(*directory_->file_names(), files) << "its channel is left";
    sessions.erase(sessions.begin() + 7);
    const Session again = make();
    EXPECT_EQ((*state_->rule_set())->sessions[7].cookie, again.cookie()) << "the first free place";
}

TEST_F(Rules, of_a_session_that_is_dropped_are_gone_with_its_channel) {
    const Session other = make();
    {
        Session dropped = make();
        ASSERT_TRUE(dropped.enable({{"a"}}));
        EXPECT_EQ(patterns().size(), 1u);
    }
    EXPECT_THAT(patterns(), IsEmpty());
    EXPECT_EQ((*state_->rule_set())->sessions[1].cookie, 0u);
    EXPECT_EQ((*state_->rule_set())->sessions[0].cookie, other.cookie());
    EXPECT_THAT(*directory_->file_names(), ElementsAre(channel_file_name(other.cookie()), "state"));
}

TEST_F(Rules, are_in_the_state_with_who_made_them) {
    const std::uint64_t before = boottime_now_ns();
    QuiescenceOptions insisting;
    insisting.filtered_too = true;
    const Session first = make(), second = make(insisting);
    const auto rules = state_->rule_set();
    const plumb_session& its = (*rules)->sessions[0];
    EXPECT_STREQ(its.name, "shop");
    EXPECT_EQ(its.cookie, first.cookie());
    EXPECT_EQ(its.controller_process_id, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(its.controller_namespace, test::space_here());
    EXPECT_GE(its.controller_boottime_ns, before);
    EXPECT_LE(its.controller_boottime_ns, boottime_now_ns());
    EXPECT_EQ(its.flags, 0u);
    EXPECT_EQ((*rules)->sessions[1].flags, PLUMB_SESSION_FILTERED_TOO);
    EXPECT_EQ(its.since_generation, 1u);
    EXPECT_EQ((*rules)->sessions[1].since_generation, 2u);
    EXPECT_EQ(first.name(), "shop");
    const std::string own = fmt::format("{:016x}", first.cookie());
    EXPECT_EQ(first.sessions_variable(nullptr), own);
    EXPECT_EQ(first.sessions_variable(""), own);
    EXPECT_EQ(first.sessions_variable("0123"), "0123," + own);
}

TEST_F(Rules, that_are_not_found_any_more_are_told) {
    Session session = make();
    EXPECT_TRUE(session.check_entrance());
    ASSERT_TRUE(session.enable({{"a"}, {"b"}}));
    EXPECT_TRUE(session.check_entrance());
    const std::string path = directory_->path_of_file(PLUMB_STATE_FILE);
    edit_raw([](plumb_rule_set& rules) { rules.rules[1].log_level = 1; });
    EXPECT_EQ(session.check_entrance().error().message(),
              "Rules of the session are not in " + path + " any more.");
    edit_raw([](plumb_rule_set& rules) { rules.rules[1].log_level = 255; });
    EXPECT_TRUE(session.check_entrance());
    set(state_->generation()).sessions[0].cookie = 0;
    EXPECT_EQ(session.check_entrance().error().message(), "The session is not in " + path + " any more.");
    EXPECT_THAT(session.enable({{"c"}}).error().message(),
                HasSubstr("The session is not in the state file any more"));
    EXPECT_THAT(session.end().error().message(), HasSubstr("The session is not in the state file any more"));
}

TEST_F(Rules, of_a_session_whose_files_are_removed_or_replaced_are_told) {
    const Session session = make();
    const std::string channel = directory_->path_of_file(channel_file_name(session.cookie())),
                      state = directory_->path_of_file(PLUMB_STATE_FILE);
    ASSERT_EQ(::rename(channel.c_str(), (channel + "x").c_str()), 0);
    EXPECT_EQ(session.check_entrance().error().message(), channel + " was removed or replaced.");
    ::close(::open(channel.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(session.check_entrance().error().message(), channel + " was removed or replaced.");
    ASSERT_EQ(::rename((channel + "x").c_str(), channel.c_str()), 0);
    EXPECT_TRUE(session.check_entrance());
    ASSERT_EQ(::rename(state.c_str(), (state + "x").c_str()), 0);
    EXPECT_EQ(session.check_entrance().error().message(), state + " was removed or replaced.");
    ASSERT_EQ(::rename((state + "x").c_str(), state.c_str()), 0);
    header().magic ^= 1;
    EXPECT_EQ(session.check_entrance().error().message(),
              state + " is damaged: it does not begin as a state file.");
    header().magic ^= 1;
    header().total_bytes ^= 1;
    EXPECT_EQ(session.check_entrance().error().message(),
              state + " is damaged: its parts are not where they belong.");
    header().total_bytes ^= 1;
    const std::uint64_t at = state_->generation();
    set(at).generation = at + 2;
    EXPECT_EQ(session.check_entrance().error().message(),
              fmt::format("{} is damaged: its generation is {}, its rules are of {}.", state, at, at + 2));
    set(at).generation = at;
    EXPECT_TRUE(session.check_entrance());
    ASSERT_EQ(::chmod(directory_->path().c_str(), 0701), 0);
    EXPECT_THAT(session.check_entrance().error().message(), HasSubstr("may be entered by others"));
}

TEST_F(Rules, of_a_session_are_counted_from_its_beginning) {
    header().claims = 5;
    header().slots_refused = 7;
    const Session session = make();
    EXPECT_EQ(session.programs_begun(), 0u);
    EXPECT_EQ(session.processes_without_slot(), 0u);
    header().claims = 8;
    header().slots_refused = 9;
    EXPECT_EQ(session.programs_begun(), 3u);
    EXPECT_EQ(session.processes_without_slot(), 2u);
}

/* Who could not attach while it was on, lives, and is meant; and who has ended since. */
TEST_F(Rules, of_a_session_that_ends_are_told_with_those_who_could_not_follow_them) {
    const Process other;
    Session session = make();
    const auto with = [&](std::uint64_t acknowledged, std::uint32_t not_attached) {
        slot(4) = {};
        slot(4).error = ENOMEM;
        slot(4).not_attached = not_attached;
        slot(4).acknowledged = acknowledged;
        take_slot(4, other.id(), boottime_now_ns(), PLUMB_PROCESS_READY);
    };
    ASSERT_TRUE(session.enable({{"a", Who::process(other.id())}}));
    with(UINT64_MAX, 1);
    const Result<Report> ended = session.end();
    ASSERT_TRUE(ended);
    ASSERT_EQ(ended->unreachable.size(), 1u);
    EXPECT_EQ(ended->unreachable[0].process_id, other.id());
    EXPECT_EQ(ended->unreachable[0].reason,
              "it could not open the session's channel: Cannot allocate memory");
    EXPECT_TRUE(session.remove_channel());
    /* Of another session, not asked since this one began, or nobody whom the rules mean. */
    for (const int which : {0, 1, 2}) {
        Session next = make();
        ASSERT_TRUE(next.enable(
            {{"a", Who::process(which == 2 ? static_cast<std::uint32_t>(::getpid()) : other.id())}}));
        if (which == 1) slot(4) = {};
        with(which == 1 ? state_->generation() - 1 : UINT64_MAX, which == 0 ? 2 : 1);
        if (which == 1) slot(4).signal_number = 0;
        const Result<Report> report = next.end();
        ASSERT_TRUE(report);
        for (const Unreachable& each : report->unreachable)
            EXPECT_THAT(each.reason, ::testing::Not(HasSubstr("could not open"))) << which;
        EXPECT_TRUE(next.remove_channel());
        slot(4) = {};
    }
}

/* Its environment may be written over, and its parent have ended: but it maps the channel. */
TEST_F(Rules, for_those_that_were_launched_are_for_whoever_maps_the_channel) {
    Session session = make();
    ASSERT_TRUE(session.enable({{"a", Who::launched()}}));
    const Process launched(Process::orphan), stranger(Process::orphan_of_another_program);
    const auto self = static_cast<std::uint32_t>(::getpid());
    if (descends_from(launched.id(), self)) GTEST_SKIP() << "orphans come to this process";
    const auto claim = [&](std::uint32_t index, const Process& process) {
        slot(index) = {};
        take_slot(index, process.id(), boottime_now_ns());
    };
    for (int tries = 0; tries < 10'000 && state_->is_mapped_by(stranger.id()); tries++)
        ::usleep(1000);
    claim(4, launched);
    claim(5, stranger);
    const Result<Report> off = session.disable({{"a", Who::launched()}});
    ASSERT_TRUE(off);
    ASSERT_EQ(off->unreachable.size(), 1u);
    EXPECT_EQ(off->unreachable[0].process_id, launched.id());
    EXPECT_THAT(off->unreachable[0].reason, HasSubstr("it has no handler"));
}
