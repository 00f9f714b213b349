// cmake-once
// Who could not be told of a change is named with the reason, who was told is named once, and whom it does not concern is
// neither. With slots written as processes would write them, of children that map the state file.
#include "consumerd/control/quiescence.h"
#include "consumerd/control/slotless.h"
#include "consumerd/control/unattached.h"
#include "tests/support/freezer.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <thread>
#include <vector>

using namespace plumb;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

namespace {

constexpr std::uint32_t ready = PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC;
constexpr std::uint64_t ms = 1'000'000;

const std::string filtered =
    "it has a seccomp filter, which may end it for a call that tracing makes; it is left as it "
    "is (--seccomp records it all the same)";
const std::string no_clock =
    "it may not read the cycle counter (PR_SET_TSC, strict mode), without which nothing can be "
    "recorded";

/* What the handlers of children do: they know nothing else. */
struct Shared {
    plumb_process* slot;
    std::uint64_t generation;
    std::uint32_t signals;
    bool answers, acknowledges;
    pid_t grandchild;
};
Shared* shared = nullptr;

void on_update(int) {
    __atomic_fetch_add(&shared->signals, 1u, __ATOMIC_SEQ_CST);
    if (shared->answers) __atomic_store_n(&shared->slot->unanswered, 0u, __ATOMIC_SEQ_CST);
    if (shared->acknowledges)
        __atomic_store_n(&shared->slot->acknowledged, shared->generation, __ATOMIC_SEQ_CST);
}

class Child {
public:
    explicit Child(
        const std::function<void()>& prepare = {}, void (*wait)() = [] { ::pause(); }) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (prepare) prepare();
            (void)!::write(ends[1], "", 1);
            for (;;)
                wait();
        }
        char byte;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1);
        for (const int end : ends)
            ::close(end);
    }
    ~Child() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }
    pid_t process() const { return process_; }

private:
    pid_t process_ = -1;
};

void install_filter() {
    sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{1, allow};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

void leave(int) {
    __atomic_store_n(&shared->slot->claim, 0, __ATOMIC_RELEASE);
    ::_exit(0);
}

void listen() {
    ::signal(SIGURG, on_update);
}

[[noreturn]] void be_grandchild() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        ::pause();
}

pid_t make_child() {
    const pid_t child = ::fork();
    if (child == 0) be_grandchild();
    return child;
}

/* One of its threads, from soon on. */
void wait_in_vfork() {
    std::thread([] {
        if (::vfork() == 0) be_grandchild();
    }).detach();
    ::usleep(20'000);
}

class Quiescence : public test::State {
protected:
    void SetUp() override {
        State::SetUp();
        void* const memory =
            ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared = static_cast<Shared*>(memory);
        shared->slot = &slot(7);
    }
    void TearDown() override {
        ::munmap(shared, sizeof(Shared));
        State::TearDown();
    }
    plumb_process& claim(const Child& child, std::uint32_t flags = ready,
                         std::uint32_t signal_number = SIGURG, std::uint32_t index = 7) {
        slot(index) = {};
        slot(index).signal_number = signal_number;
        claim_slot(index, test::claim_here(child.id(), index), boottime_now_ns(), flags);
        return slot(index);
    }
    std::uint64_t publish() {
        const auto generation = state_->edit([](plumb_rule_set&) { return ok(); });
        EXPECT_TRUE(generation);
        return shared->generation = generation ? *generation : 0;
    }
    Report wait(const QuiescenceOptions& options) {
        const std::uint64_t generation = publish();
        const auto report = wait_until_quiescent(*state_, generation, options);
        EXPECT_TRUE(report);
        EXPECT_EQ(report->generation, generation);
        return *report;
    }
    static QuiescenceOptions quick() {
        QuiescenceOptions options;
        options.timeout_ns = 3000 * ms;
        options.patience_ns = ms;
        return options;
    }
    /* Why the child could not be told: the only one that is spoken of. */
    std::string reason(const Child& child, const QuiescenceOptions& options) {
        const Report report = wait(options);
        EXPECT_THAT(report.acknowledged, IsEmpty());
        EXPECT_FALSE(report.complete());
        if (report.unreachable.size() != 1)
            return fmt::format("{} are unreachable", report.unreachable.size());
        EXPECT_EQ(report.unreachable[0].process_id, child.id());
        return report.unreachable[0].reason;
    }
    std::string reason(const Child& child) { return reason(child, quick()); }
};

} // namespace

TEST_F(Quiescence, who_answers_is_told_and_not_signalled_again) {
    const Child child(listen);
    claim(child);
    shared->answers = shared->acknowledges = true;
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, ElementsAre(child.id()));
    EXPECT_TRUE(report.complete());
    EXPECT_THAT(report.asleep, IsEmpty());
    EXPECT_GE(shared->signals, 1u);
    EXPECT_LE(shared->signals, 2u) << "one more where the machine was busy";
    EXPECT_EQ(slot(7).unanswered, 0u);
}

TEST_F(Quiescence, who_has_several_runtimes_is_named_once_when_all_have_followed) {
    const Child child;
    for (const std::uint32_t index : {3u, 5u, 9u})
        claim(child, ready, SIGURG, index).acknowledged = UINT64_MAX;
    QuiescenceOptions options = quick();
    options.concerns = [](const ProcessSlot&) { return true; };
    EXPECT_THAT(wait(options).acknowledged, ElementsAre(child.id()));
    options.concerns = {};
    EXPECT_THAT(wait(options).acknowledged, IsEmpty()) << "it was not asked";
}

TEST_F(Quiescence, whom_it_does_not_concern_is_left_alone) {
    const Child child(listen);
    claim(child);
    QuiescenceOptions options = quick();
    int asked = 0;
    options.concerns = [&](const ProcessSlot& slot) {
        asked++;
        EXPECT_EQ(slot.process_id(), child.id());
        return false;
    };
    const Report report = wait(options);
    EXPECT_TRUE(report.complete());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(shared->signals, 0u);
    EXPECT_EQ(slot(7).unanswered, 0u);
}

TEST_F(Quiescence, who_says_that_it_can_not_is_believed) {
    const Child child(listen);
    claim(child, ready | PLUMB_PROCESS_NO_CLOCK);
    EXPECT_EQ(reason(child), no_clock);
    claim(child, ready, 0);
    EXPECT_EQ(reason(child),
              "it has no handler (linked with tp-sync.o alone): it asked once, when it started");
    claim(child, ready, 12);
    EXPECT_EQ(reason(child), "its slot names signal 12, which is not one of Plumb's");
    EXPECT_EQ(shared->signals, 0u);
}

TEST_F(Quiescence, who_has_no_handler_any_more_is_not_waited_for) {
    const Child child([] { ::signal(SIGURG, SIG_DFL); });
    claim(child);
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(child), "it has no handler for signal 23 (SIGURG) any more");
    EXPECT_GE(boottime_now_ns() - begin, 100 * ms) << "the next program may be about to set one";
    const Child other([] { ::signal(SIGWINCH, SIG_DFL); });
    claim(other, ready, SIGWINCH);
    EXPECT_EQ(reason(other), "it has no handler for signal 28 (SIGWINCH) any more");
    EXPECT_EQ(slot(7).unanswered, 0u) << "nothing was sent";
}

TEST_F(Quiescence, who_blocks_the_signal_or_is_stopped_is_named) {
    const Child blocks([] {
        listen();
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGURG);
        ::sigprocmask(SIG_BLOCK, &set, nullptr);
    });
    claim(blocks);
    EXPECT_EQ(reason(blocks), "signal 23 (SIGURG) is blocked in every thread");
    EXPECT_EQ(slot(7).unanswered, 0u);
    const Child stopped(listen);
    ::kill(stopped.process(), SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, stopped.id(), &info, WSTOPPED | WNOWAIT), 0);
    claim(stopped);
    EXPECT_EQ(reason(stopped), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "it hears of it then";
    EXPECT_EQ(reason(stopped), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "once is enough";
}

/* What waits in a call that goes on is not looked at so closely before it has not answered. */
TEST_F(Quiescence, whose_cgroup_is_frozen_is_named) {
    test::Freezer freezer;
    if (!freezer.is_there()) GTEST_SKIP() << "no cgroup to freeze";
    const Child frozen(listen, [] {
        int ends[2];
        char byte;
        if (::pipe(ends) == 0) (void)!::read(ends[0], &byte, 1);
    });
    ::usleep(20'000); /* until it waits */
    ASSERT_TRUE(freezer.freeze(frozen.process()));
    claim(frozen);
    EXPECT_EQ(reason(frozen), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "it hears of it then";
    EXPECT_EQ(reason(frozen), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "once is enough";
    freezer.thaw();
}

TEST_F(Quiescence, who_does_not_answer_is_given_up) {
    const Child deaf(listen);
    claim(deaf);
    shared->answers = true; /* but does not ask */
    QuiescenceOptions options = quick();
    options.timeout_ns = 700 * ms;
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(deaf, options), "it did not answer within 0.7 s");
    EXPECT_GE(boottime_now_ns() - begin, options.timeout_ns);
    EXPECT_GE(shared->signals, 2u) << "it is sent again once in a while";
    EXPECT_LE(shared->signals, PLUMB_UNANSWERED_MAX);
}

TEST_F(Quiescence, signals_that_do_not_reach_plumb_are_not_sent_for_ever) {
    const Child silent(listen);
    plumb_process& its = claim(silent);
    const auto now_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    const std::string reached =
        "signal 23 (SIGURG) does not reach Plumb there: 3 were not answered; the program has "
        "installed its own handler for it since, or was busy all the time";
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = now_s;
    EXPECT_EQ(reason(silent), reached);
    EXPECT_EQ(shared->signals, 0u);
    EXPECT_EQ(its.unanswered, PLUMB_UNANSWERED_MAX);
    /* One more after a long silence, which may be answered. */
    its.signalled_s = now_s - PLUMB_SILENCE_S - 2;
    shared->answers = shared->acknowledges = true;
    EXPECT_THAT(wait(quick()).acknowledged, ElementsAre(silent.id()));
    EXPECT_EQ(shared->signals, 1u);
    EXPECT_GE(its.signalled_s, now_s);
    /* And one only. */
    shared->answers = shared->acknowledges = false;
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = now_s - PLUMB_SILENCE_S - 2;
    EXPECT_THAT(reason(silent),
                StartsWith("signal 23 (SIGURG) does not reach Plumb there: 4 were not answered"));
    EXPECT_EQ(shared->signals, 2u);
}

#if !defined(__SANITIZE_THREAD__) /* it makes a fork() of it, for which nobody waits */
TEST_F(Quiescence, who_waits_in_vfork_is_told_so) {
    const Child waits([] {
        listen();
        wait_in_vfork();
    });
    plumb_process& its = claim(waits);
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    const std::string why = reason(waits);
    EXPECT_EQ(why, "it waits in vfork() until its child calls exec() or ends, and hears no signal before "
                   "that: it will ask again when it goes on");
    EXPECT_EQ(reason_when_late(why), "it waited in vfork() for its child when it was to be switched on");
}
#endif

TEST_F(Quiescence, a_child_that_was_not_heard_of_and_hears_nothing_is_named) {
    const Child parent([] { shared->grandchild = make_child(); });
    const auto child = static_cast<std::uint32_t>(shared->grandchild);
    const auto only_child = ElementsAre(
        AllOf(Field(&Unreachable::process_id, child), Field(&Unreachable::reason, unheard_child_reason)));
    QuiescenceOptions options = quick();
    options.look_for.emplace();
    EXPECT_THAT(wait(options).unreachable, IsEmpty()) << "a stranger, as is its parent";
    claim(parent).acknowledged = UINT64_MAX;
    EXPECT_THAT(wait(options).unreachable, only_child);
    options.concerns = [&](const ProcessSlot& slot) { return slot.process_id() != child; };
    EXPECT_THAT(wait(options).unreachable, IsEmpty());
    options.concerns = {};
    slot(7) = {};
    options.look_for = {child};
    EXPECT_THAT(wait(options).unreachable, only_child) << "asked for by its number";
    slot(9).acknowledged = UINT64_MAX;
    slot(9).signal_number = SIGURG;
    claim_slot(9, test::claim_here(child, 9), boottime_now_ns(), ready);
    EXPECT_THAT(wait(options).unreachable, IsEmpty()) << "it has a slot";
}

/* Until it calls exec(), it is its parent's thread. */
TEST_F(Quiescence, a_child_of_vfork_is_not_named) {
    const Child parent([] { wait_in_vfork(); });
    claim(parent).acknowledged = UINT64_MAX;
    QuiescenceOptions options = quick();
    options.look_for.emplace();
    EXPECT_TRUE(wait(options).complete());
}

TEST_F(Quiescence, who_has_a_filter_is_told_what_that_means_for_it) {
    const Child child([] {
        listen();
        install_filter();
    });
    QuiescenceOptions options = quick();
    options.holder = 2;
    const std::string without_clock =
        "it has a seccomp filter, and the clock is read by a system call here, which the "
        "filter may end it for: its events are lost since (--clock tsc has none, where "
        "that can be had)";
    for (const bool by_itself : {false, true}) {
        const auto with = [&](std::uint32_t flags) {
            claim(child, ready | flags).held = by_itself ? PLUMB_HELD_BY_ITSELF : 0;
            const std::string text = reason(child, options);
            EXPECT_EQ(slot(7).held, by_itself ? PLUMB_HELD_BY_ITSELF : PLUMB_HELD_BY_SESSION(2));
            return text;
        };
        EXPECT_EQ(with(0), filtered);
        EXPECT_EQ(with(PLUMB_PROCESS_CLOCK_CALLS), without_clock);
        EXPECT_EQ(with(PLUMB_PROCESS_CLOCK_CALLS | PLUMB_PROCESS_NO_TIMES), without_clock);
        EXPECT_EQ(
            with(PLUMB_PROCESS_NO_TIMES),
            "it has a seccomp filter, which may end it for a call that tracing makes; it is left as it is, "
            "and "
            "how long it waited for locks is not known since, as a system call would have to tell (--seccomp "
            "records it all the same)");
    }
    EXPECT_EQ(shared->signals, 0u);
    /* Who insists signals it, and takes back what it said itself. */
    claim(child).held = PLUMB_HELD_BY_ITSELF;
    shared->answers = shared->acknowledges = true;
    options.filtered_too = true;
    EXPECT_THAT(wait(options).acknowledged, ElementsAre(child.id()));
    EXPECT_EQ(slot(7).held, 0u);
    EXPECT_GE(shared->signals, 1u);
    /* But not against those whom the change does not concern. */
    claim(child).held = PLUMB_HELD_BY_ITSELF;
    options.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(options).complete());
    EXPECT_EQ(slot(7).held, PLUMB_HELD_BY_ITSELF);
}

TEST_F(Quiescence, who_is_held_by_another_recording_is_left_to_it) {
    const Child child(listen);
    claim(child).held = PLUMB_HELD_BY_SESSION(4) | PLUMB_HELD_BY_SESSION(2);
    ASSERT_TRUE(state_->edit([](plumb_rule_set& set) {
        set.sessions[4] = test::session_of(static_cast<std::uint32_t>(::getpid()), 1, "other");
        return ok();
    }));
    QuiescenceOptions options = quick();
    options.holder = 2;
    EXPECT_EQ(
        reason(child, options),
        "another recording keeps Plumb from making system calls there, as it has a seccomp filter that that "
        "recorder has not; it is left as it is (--seccomp records it all the same)");
    EXPECT_EQ(slot(7).held, PLUMB_HELD_BY_SESSION(4)) << "one's own is taken back";
    EXPECT_EQ(slot(7).flags & PLUMB_PROCESS_UNFILTERED, PLUMB_PROCESS_UNFILTERED)
        << "it is told that it has none";
}

TEST_F(Quiescence, who_has_ended_frees_its_slot_and_who_is_not_seen_is_named) {
    slot(3).signal_number = SIGURG;
    claim_slot(3, test::claim_here(test::dead_process(), 1), boottime_now_ns(), ready);
    slot(4).signal_number = SIGURG;
    claim_slot(4, PLUMB_CLAIM(1, 4711, 2), boottime_now_ns(), ready);
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_EQ(slot(3).claim, 0u);
    if (in_first_namespace()) { /* everybody is seen from there */
        EXPECT_TRUE(report.complete());
        EXPECT_EQ(slot(4).claim, 0u);
        return;
    }
    ASSERT_EQ(report.unreachable.size(), 1u);
    EXPECT_EQ(report.unreachable[0].process_id, 4711u);
    EXPECT_EQ(report.unreachable[0].reason,
              "it ran in another process-id namespace, which cannot be seen from here, and may have ended "
              "(the number is its own)");
    QuiescenceOptions others = quick();
    others.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(others).complete());
}

TEST_F(Quiescence, who_ends_when_it_is_asked_is_told_apart) {
    const Child child([] { ::signal(SIGURG, leave); });
    claim(child);
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_THAT(report.ended, ElementsAre(child.id()));
    EXPECT_TRUE(report.complete());
    const Child other([] { ::signal(SIGURG, leave); });
    claim(other);
    QuiescenceOptions none = quick();
    none.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_THAT(wait(none).ended, IsEmpty());
}

TEST_F(Quiescence, who_could_not_open_the_channel_is_named_by_that_session_alone) {
    const Child child;
    plumb_process& its = claim(child);
    its.acknowledged = UINT64_MAX;
    its.not_attached = 1u << 15;
    its.error = EACCES;
    QuiescenceOptions options = quick();
    EXPECT_TRUE(wait(options).complete());
    options.session = 14;
    EXPECT_TRUE(wait(options).complete());
    options.session = 15;
    EXPECT_EQ(reason(child, options), "it could not open the session's channel: Permission denied");
    options.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(options).complete());
}

TEST_F(Quiescence, only_those_who_are_asked_again_are_signalled) {
    const Child child(listen), other(listen);
    claim(child);
    claim(other, ready, SIGURG, 8);
    shared->answers = shared->acknowledges = true;
    publish();
    const auto anybody = [](std::uint32_t) { return true; };
    ask_again(*state_, {}, anybody);
    EXPECT_EQ(shared->signals, 0u);
    ask_again(*state_, {7}, [](std::uint32_t) { return false; }); /* another user's */
    EXPECT_EQ(shared->signals, 0u);
    ask_again(*state_, {7}, anybody);
    EXPECT_GE(shared->signals, 1u);
    EXPECT_EQ(slot(7).acknowledged, shared->generation);
    EXPECT_EQ(slot(8).acknowledged, 0u);
}

TEST_F(Quiescence, who_listens_without_a_slot_is_looked_for) {
    const Child listens(listen), does_not, is_filtered([] {
        listen();
        install_filter();
    });
    QuiescenceOptions options = quick();
    EXPECT_TRUE(wait(options).complete());
    EXPECT_EQ(shared->signals, 0u) << "nobody is looked for";
    options.look_for = std::vector<std::uint32_t>{does_not.id()};
    EXPECT_EQ(reason(does_not, options), unheard_child_reason);
    EXPECT_EQ(shared->signals, 0u);
    options.look_for = std::vector<std::uint32_t>{listens.id()};
    EXPECT_TRUE(wait(options).complete()) << "it may be about to take a slot";
    EXPECT_EQ(shared->signals, 1u);
    header().slots_refused = 1;
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(listens, options), "it found none of the 4096 places for processes free when it "
                                        "started: start it again when others have "
                                        "ended (`plumb doctor` shows how many are taken)");
    EXPECT_EQ(shared->signals, 2u);
    EXPECT_GE(boottime_now_ns() - begin, 200 * ms) << "it has time to take one";
    const std::string unlisted =
        "it has a seccomp filter, and had it before it could be listed as a traced program: it "
        "can not be recorded";
    options.look_for = std::vector<std::uint32_t>{is_filtered.id()};
    EXPECT_EQ(reason(is_filtered, options), unlisted);
    EXPECT_EQ(shared->signals, 2u);
    options.look_for = std::vector<std::uint32_t>{};
    const Report all = wait(options);
    std::vector<std::uint32_t> unreachable;
    for (const Unreachable& each : all.unreachable)
        unreachable.push_back(each.process_id);
    EXPECT_THAT(unreachable, UnorderedElementsAre(listens.id(), is_filtered.id()));
    options.concerns = [](const ProcessSlot& slot) {
        EXPECT_EQ(slot.own_name().space, test::space_here());
        return false;
    };
    EXPECT_TRUE(wait(options).complete());
}

TEST(QuiescenceReport, adds_all_of_another_one) {
    Report sum, other;
    for (Report* const report : {&sum, &other}) {
        const std::uint32_t first = report == &sum ? 0 : 10;
        report->generation = first + 1;
        report->acknowledged = {first + 1};
        report->asleep = {first + 2};
        report->ended = {first + 6};
        report->disturbed = {{first + 3, 0, "poll"}};
        report->reached_late = {{first + 4, ""}};
    }
    EXPECT_TRUE(sum.complete());
    other.unreachable = {{15, "x"}};
    sum.add(other);
    EXPECT_FALSE(sum.complete());
    EXPECT_EQ(sum.generation, 1u);
    EXPECT_THAT(sum.acknowledged, ElementsAre(1, 11));
    EXPECT_THAT(sum.asleep, ElementsAre(2, 12));
    EXPECT_THAT(sum.ended, ElementsAre(6, 16));
    ASSERT_EQ(sum.disturbed.size(), 2u);
    EXPECT_EQ(sum.disturbed[1].process_id, 13u);
    ASSERT_EQ(sum.reached_late.size(), 2u);
    EXPECT_EQ(sum.reached_late[1].process_id, 14u);
    ASSERT_EQ(sum.unreachable.size(), 1u);
    EXPECT_EQ(sum.unreachable[0].process_id, 15u);
}

TEST(QuiescenceReport, says_of_every_error_what_it_means) {
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERED), filtered);
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_NO_CLOCK), no_clock);
    EXPECT_THAT(not_attached_reason(PLUMB_ERROR_NO_EXECUTABLE), HasSubstr("which executable it is"));
    EXPECT_THAT(not_attached_reason(PLUMB_ERROR_TIME_NAMESPACE), HasSubstr("in which time namespace it is"));
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERS_UNKNOWN(ENOENT)),
              "it could not look in /proc whether it has a seccomp filter from the start: No such file or "
              "directory "
              "(--seccomp records it all the same)");
    for (const int refused : {EMFILE, ENFILE, EACCES, EPERM})
        EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERS_UNKNOWN(refused)),
                  "it could not look in /proc whether it has a seccomp filter from the start: " +
                      errno_text(refused))
            << "nor would it find the channel";
    EXPECT_EQ(not_attached_reason(ENOMEM), "it could not open the session's channel: Cannot allocate memory");
    plumb_process process{};
    for (std::uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
        process.not_attached = 1u << session;
        for (std::uint32_t other = 0; other < PLUMB_MAX_SESSIONS; other++)
            EXPECT_EQ(has_not_attached(process, other), other == session);
    }
    const std::string stopped = "it is stopped, or its cgroup is frozen: it will ask again when it goes on";
    EXPECT_EQ(reason_when_late(stopped),
              "it was stopped, or its cgroup frozen, when it was to be switched on");
    EXPECT_EQ(reason_when_late("another"), "another");
    EXPECT_EQ(
        ended_reason(ENOMEM),
        "it has ended, and while it ran it could not open the session's channel: Cannot allocate memory");
}

TEST_F(Quiescence, words_of_those_who_have_ended_are_counted_from_the_beginning_of_a_session) {
    header().unattached[3] = {7, EACCES, PLUMB_CLAIM(0, 11, 0)};
    header().reached_late[3] = {9, EACCES, PLUMB_CLAIM(0, 12, 0)};
    const UnattachedWords words(*state_, 3);
    EXPECT_THAT(words.of_ended(*state_), IsEmpty());
    EXPECT_THAT(words.of_reached_late(*state_), IsEmpty());
    const auto told = [&](std::uint32_t ended, std::uint32_t late) {
        header().unattached[3] = {7 + ended, ENOMEM, PLUMB_CLAIM(5, 4711, 1)};
        header().reached_late[3] = {9 + late, ENOENT, PLUMB_CLAIM(5, 4712, 1)};
        std::string text;
        for (const auto& all : {words.of_ended(*state_), words.of_reached_late(*state_)})
            for (const Unreachable& each : all)
                text += fmt::format("{}: {}\n", each.process_id, each.reason);
        return text;
    };
    const std::string
        ended = "4711: it has ended, and while it ran it could not open the session's channel: Cannot "
                "allocate memory",
        late = "4712: what it traced before is missing, since it could not open the session's channel: No "
               "such file or directory";
    EXPECT_EQ(told(0, 0), "");
    EXPECT_EQ(told(1, 0), ended + "\n");
    EXPECT_EQ(told(0, 1), late + "\n");
    EXPECT_EQ(told(2, 3), ended + "; 1 more like it have ended, too\n" + late + "; 2 more were, too\n");
    EXPECT_EQ(state_->unattached(2).count, 0u);
    EXPECT_EQ(state_->reached_late(4).count, 0u);
}
