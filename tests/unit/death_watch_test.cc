// cmake-once
//
// Deaths of processes by signals are told once each, with the signal, whoever waits for them, in each way that this kernel has; ends
// that are none are not.
#include "consumerd/control/session.h"
#include "consumerd/daemon/death_watch.h"
#include "tests/support/private_shm.h"
#include "tests/support/state_test.h"
#include "tests/support/subject.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace plumb {
namespace {

using test::Subject;

std::map<std::uint32_t, int> deaths_in(DeathWatch& watch, std::size_t count) {
    std::map<std::uint32_t, int> deaths;
    for (int tries = 0; tries < 200 && deaths.size() < count; tries++) {
        for (const Death& death : watch.take()) {
            EXPECT_FALSE(deaths.contains(death.process_id));
            if (death.signal != 0) deaths[death.process_id] = death.signal;
        }
        ::usleep(10'000);
    }
    for (const Death& death : watch.take())
        EXPECT_EQ(death.signal, 0);
    return deaths;
}

void check_deaths(DeathWatch::Means means) {
    ASSERT_TRUE(test::has_private_shm());
    Result<DeathWatch> watch = DeathWatch::open_by(means);
    if (!watch) GTEST_SKIP() << watch.error().message();
    ChannelConfig config;
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    Result<Session> session = Session::create(config);
    ASSERT_TRUE(session) << session.error().message();
    std::vector<std::unique_ptr<Subject>> subjects;
    std::map<std::uint32_t, int> expected;
    std::uint32_t unwanted = 0;
    for (const int number : {SIGKILL, SIGQUIT, SIGTERM, SIGKILL, SIGKILL, 0}) {
        subjects.push_back(std::make_unique<Subject>(std::vector<std::string>{"spin"}));
        const auto process_id = subjects.back()->id();
        if (number == 0)
            unwanted = process_id;
        else
            expected[process_id] = number;
    }
    watch->look(session->state(), [&](const ProcessSlot& slot) { return slot.process_id() != unwanted; });
    for (const auto& [process_id, number] : expected)
        ::kill(static_cast<pid_t>(process_id), number);
    ::kill(static_cast<pid_t>(unwanted), SIGKILL);
    for (std::size_t i = 0; i < subjects.size(); i += 2)
        (void)subjects[i]->end(); /* waited for, and others are not */
    EXPECT_EQ(deaths_in(*watch, expected.size()), expected);
    EXPECT_EQ(watch->unseen(), 0u);
    subjects.clear();
    (void)session->end();
    (void)session->remove_channel();
}

TEST(DeathWatch, ByPidfd) {
    check_deaths(DeathWatch::Means::pidfd);
}

TEST(DeathWatch, ByConnector) {
    check_deaths(DeathWatch::Means::connector);
}

bool everybody(const ProcessSlot&) {
    return true;
}

/* A process that stands still on its way to a slot, in each of the steps that can be seen from outside. */
class DeathWatchOfState : public test::State {
protected:
    void SetUp() override {
        State::SetUp();
        Result<DeathWatch> opened = DeathWatch::open();
        if (!opened) GTEST_SKIP() << opened.error().message();
        watch_.emplace(std::move(*opened));
        watch_->look(*state_, everybody);
        process_ = ::fork();
        if (process_ == 0)
            while (true)
                ::pause();
    }
    void TearDown() override {
        if (process_ > 0) ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0);
        State::TearDown();
    }
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }
    void look() { watch_->look(*state_, everybody); }
    /* Of the process, told when it is killed now. */
    void expect_death() {
        ::kill(process_, SIGKILL);
        EXPECT_EQ(deaths_in(*watch_, 1), (std::map<std::uint32_t, int>{{id(), SIGKILL}}));
        EXPECT_EQ(watch_->unseen(), 0u);
    }

    std::optional<DeathWatch> watch_;
    pid_t process_ = -1;
};

TEST_F(DeathWatchOfState, CountedAndSeenBeforeItHasASlot) {
    header().claims = 1;
    look();
    claim_slot(0, test::claim_here(id(), 0), boottime_now_ns());
    look();
    expect_death();
}

TEST_F(DeathWatchOfState, SeenBeforeItsSlotIsReady) {
    header().claims = 1;
    claim_slot(0, test::claim_here(id(), 0), boottime_now_ns(), 0);
    look();
    look();
    slot(0).flags = PLUMB_FLAGS(slot(0).claim, PLUMB_PROCESS_READY);
    look();
    expect_death();
}

/* One that is overtaken by another, whose slot is not taken for its own. */
TEST_F(DeathWatchOfState, OvertakenOnItsWay) {
    header().claims = 2;
    claim_slot(0, test::claim_here(static_cast<std::uint32_t>(::getpid()), 1), boottime_now_ns());
    look();
    claim_slot(1, test::claim_here(id(), 0), boottime_now_ns());
    look();
    expect_death();
}

constexpr std::uint64_t ms = 1'000'000;

TEST(ClaimsUnderWay, OneThatIsSeenEndsTheLooks) {
    ClaimsUnderWay claims;
    EXPECT_TRUE(claims.may_have_come(0, 5000 * ms));
    claims.looked(0, 5000 * ms);
    EXPECT_FALSE(claims.may_have_come(0, 5020 * ms));
    EXPECT_TRUE(claims.may_have_come(2, 5040 * ms));
    claims.looked(2, 5040 * ms);
    claims.seen(test::claim_here(7, 1));
    EXPECT_TRUE(claims.may_have_come(2, 5060 * ms));
    claims.looked(2, 5060 * ms);
    claims.seen(test::claim_here(8, 0));
    EXPECT_FALSE(claims.may_have_come(2, 5080 * ms));
}

TEST(ClaimsUnderWay, OneThatNeverComesIsLookedForLessOften) {
    ClaimsUnderWay claims;
    claims.looked(0, 5000 * ms);
    claims.looked(1, 5020 * ms);
    std::uint32_t looks = 0;
    for (std::uint64_t now_ns = 5040 * ms; now_ns < 15'020 * ms; now_ns += 20 * ms) {
        if (!claims.may_have_come(1, now_ns)) continue;
        claims.looked(1, now_ns);
        looks++;
    }
    EXPECT_EQ(looks, 49u + 9u); /* for a second each time, and once in a second behind that */
}

TEST(ClaimsUnderWay, CountsComeRound) {
    ClaimsUnderWay claims;
    claims.looked(0xffff'fffeu, 5000 * ms);
    (void)claims.may_have_come(0xffff'fffeu, 6000 * ms);
    claims.looked(0xffff'fffeu,
                  6000 * ms); /* whoever came before the first look is not looked for any more */
    EXPECT_FALSE(claims.may_have_come(0xffff'fffeu, 6020 * ms));
    claims.looked(1, 6040 * ms); /* 0xfffffffe, 0xffffffff, 0 */
    for (const std::uint32_t count : {0x3feu, 0x3ffu, 0u}) {
        EXPECT_TRUE(claims.may_have_come(1, 6060 * ms)) << count;
        claims.seen(test::claim_here(7, count));
    }
    EXPECT_FALSE(claims.may_have_come(1, 6060 * ms));
}

TEST(ClaimsUnderWay, WhoCameBeforeTheFirstLookIsLookedForToo) {
    ClaimsUnderWay claims;
    claims.looked(3'000'000'000, 5000 * ms);
    EXPECT_TRUE(claims.may_have_come(3'000'000'000, 5020 * ms));
    claims.looked(3'000'000'000, 5980 * ms);
    EXPECT_FALSE(claims.may_have_come(3'000'000'000, 6000 * ms));
}

} // namespace
} // namespace plumb
