// cmake-once
// A session that is kept: nobody removes it when its controller is gone, programs go on writing to it and join it, and the next
// controller has it as it was.
#include "consumerd/control/kept_sessions.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/session.h"
#include "tests/support/session_fixture.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/wait.h>

using namespace plumb;
using plumb::test::quick;
using plumb::test::small_channel;
using plumb::test::Subject;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

class KeptSessionTest : public plumb::test::SessionTest {
protected:
    static UserDirectory directory() {
        return std::move(*UserDirectory::open_or_create(main_place(::geteuid())));
    }
    static Result<Session> make_kept() {
        ChannelConfig config = small_channel();
        config.is_kept = true;
        config.session_name = "kept";
        return Session::create(config, quick());
    }
    static Session adopt(std::uint64_t cookie) {
        Result<Session> adopted = Session::adopt_in(directory(), cookie, quick());
        EXPECT_TRUE(adopted) << adopted.error().message();
        return std::move(*adopted);
    }
    /* What it is made by is gone, without a chance to say anything. */
    static std::uint64_t of_killed_controller(const std::vector<Rule>& rules) {
        int ends[2];
        EXPECT_EQ(::pipe(ends), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            Result<Session> made = make_kept();
            std::uint64_t cookie = 0;
            if (made && made->enable(rules)) cookie = made->cookie();
            [[maybe_unused]] const ssize_t said = ::write(ends[1], &cookie, sizeof(cookie));
            ::kill(::getpid(), SIGKILL);
        }
        std::uint64_t cookie = 0;
        EXPECT_EQ(::read(ends[0], &cookie, sizeof(cookie)), static_cast<ssize_t>(sizeof(cookie)));
        ::waitpid(child, nullptr, 0);
        ::close(ends[0]);
        ::close(ends[1]);
        EXPECT_NE(cookie, 0u);
        return cookie;
    }
    static void destroy(Session& session) {
        EXPECT_TRUE(session.end());
        EXPECT_TRUE(session.remove_channel());
        EXPECT_THAT(kept_sessions(directory()), IsEmpty());
    }
};

} // namespace

TEST_F(KeptSessionTest, outlives_its_controller_whoever_looks) {
    const std::uint64_t cookie = of_killed_controller({{"subject:tick"}});
    ASSERT_THAT(kept_sessions(directory()), SizeIs(1));
    EXPECT_FALSE(kept_sessions(directory())[0].lives);
    EXPECT_EQ(kept_sessions(directory())[0].name, "kept");
    Session other = make("other"); /* who begins removes what is dead */
    enable(other, {{"subject:warning"}});
    EXPECT_TRUE(other.end());
    EXPECT_TRUE(other.remove_channel());
    ASSERT_THAT(kept_sessions(directory()), SizeIs(1));
    EXPECT_EQ(kept_sessions(directory())[0].cookie, cookie);
    EXPECT_THAT(*left_channels(directory()), IsEmpty());
    Session adopted = adopt(cookie);
    destroy(adopted);
}

TEST_F(KeptSessionTest, programs_go_on_and_new_ones_join_while_nobody_is_its_controller) {
    Subject before({"trace"});
    const std::uint64_t cookie = of_killed_controller({{"subject:tick"}});
    const Subject later({"trace"});
    Session adopted = adopt(cookie);
    EXPECT_EQ(adopted.channel().config().mode, PLUMB_MODE_OVERWRITE);
    EXPECT_TRUE(grows(adopted));
    EXPECT_EQ(before.end(), 0);
    EXPECT_TRUE(grows(adopted)) << "the one that began when it had no controller is not in it";
    ASSERT_TRUE(adopted.rules());
    ASSERT_THAT(*adopted.rules(), SizeIs(1));
    EXPECT_STREQ((*adopted.rules())[0].pattern, "subject:tick");
    EXPECT_TRUE(adopted.check_entrance());
    disable(adopted, {{"subject:tick"}});
    const std::uint64_t at_end = written(adopted);
    usleep(50'000);
    EXPECT_EQ(written(adopted), at_end);
    destroy(adopted);
}

TEST_F(KeptSessionTest, has_one_controller_at_a_time) {
    Result<Session> made = make_kept();
    ASSERT_TRUE(made);
    const std::uint64_t cookie = made->cookie();
    EXPECT_TRUE(kept_sessions(directory())[0].lives);
    const Result<Session> second = Session::adopt_in(directory(), cookie, quick());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().number(), EBUSY);
    made->leave();
    EXPECT_FALSE(kept_sessions(directory())[0].lives);
    Session adopted = adopt(cookie);
    destroy(adopted);
    const Result<Session> none = Session::adopt_in(directory(), cookie, quick());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().number(), ENOENT);
}

TEST_F(KeptSessionTest, gets_the_rules_it_should_have_in_one_step) {
    Subject subject({"trace"});
    const std::uint64_t cookie = of_killed_controller({{"subject:tick"}, {"subject:none", {}, 255, "v > 5"}});
    Session adopted = adopt(cookie);
    ASSERT_TRUE(adopted.set_rules({{"subject:warning"}}));
    ASSERT_THAT(*adopted.rules(), SizeIs(1));
    EXPECT_STREQ((*adopted.rules())[0].pattern, "subject:warning");
    EXPECT_TRUE(grows(adopted));
    EXPECT_TRUE(adopted.check_entrance());
    ASSERT_TRUE(adopted.set_rules({}));
    const std::uint64_t at_end = written(adopted);
    usleep(50'000);
    EXPECT_EQ(written(adopted), at_end);
    destroy(adopted);
}

TEST_F(KeptSessionTest, is_gone_when_its_channel_was_removed_by_hand) {
    const std::uint64_t cookie = of_killed_controller({{"subject:tick"}});
    ASSERT_TRUE(directory().unlink_file(channel_file_name(cookie)));
    const Result<Session> none = Session::adopt_in(directory(), cookie, quick());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().number(), ENOENT);
    Session other = make("other");
    EXPECT_THAT(kept_sessions(directory()), IsEmpty());
}

TEST_F(KeptSessionTest, with_a_damaged_header_is_refused_and_can_be_given_up) {
    const std::uint64_t cookie = of_killed_controller({{"subject:tick"}});
    {
        const auto file = directory().open_file(channel_file_name(cookie), true);
        ASSERT_TRUE(file);
        const std::uint32_t subbuf_bytes = 8192;
        ASSERT_EQ(::pwrite(file->get(), &subbuf_bytes, sizeof(subbuf_bytes),
                           offsetof(plumb_channel_header, subbuf_bytes)),
                  static_cast<ssize_t>(sizeof(subbuf_bytes)));
    }
    const Result<Session> refused = Session::adopt_in(directory(), cookie, quick());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().number(), EBADMSG);
    EXPECT_THAT(kept_sessions(directory()), SizeIs(1));
    EXPECT_TRUE(stop_keeping(directory(), cookie));
    EXPECT_THAT(kept_sessions(directory()), IsEmpty());
}
