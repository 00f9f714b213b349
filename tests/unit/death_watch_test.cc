// cmake-once
//
// Deaths of processes by signals are told once each, with the signal, whoever waits for them, in each way that this kernel has; ends
// that are none are not.
#include "consumerd/control/session.h"
#include "consumerd/daemon/death_watch.h"
#include "tests/support/private_shm.h"
#include "tests/support/subject.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <map>
#include <memory>
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

} // namespace
} // namespace plumb
