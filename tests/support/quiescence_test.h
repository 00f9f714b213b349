/* Children that wait, with slots that are written as their processes would write them, and what is found of them. */
#ifndef PLUMB_TESTS_SUPPORT_QUIESCENCE_TEST_H
#define PLUMB_TESTS_SUPPORT_QUIESCENCE_TEST_H

#include "base/processes.h"
#include "consumerd/control/quiescence.h"
#include "tests/support/paused_process.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <csignal>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace plumb::test {

inline constexpr std::uint32_t ready = PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC;
inline constexpr std::uint64_t ms = 1'000'000;

inline const std::string filtered =
    "it has a seccomp filter, which may end it for a call that tracing makes; it is left as it "
    "is (--seccomp records it all the same)";
inline const std::string no_clock =
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
inline Shared* shared = nullptr;

inline void on_update(int) {
    __atomic_fetch_add(&shared->signals, 1u, __ATOMIC_SEQ_CST);
    if (shared->answers) __atomic_store_n(&shared->slot->unanswered, 0u, __ATOMIC_SEQ_CST);
    if (shared->acknowledges)
        __atomic_store_n(&shared->slot->acknowledged, shared->generation, __ATOMIC_SEQ_CST);
}

class Child : public PausedProcess {
public:
    using PausedProcess::PausedProcess;
    std::uint32_t id() const { return static_cast<std::uint32_t>(process()); }
    pid_t process() const { return PausedProcess::id(); }
};

inline void install_filter() {
    sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{1, allow};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

inline void leave(int) {
    __atomic_store_n(&shared->slot->claim, 0, __ATOMIC_RELEASE);
    ::_exit(0);
}

inline void listen() {
    ::signal(SIGURG, on_update);
}

[[noreturn]] inline void be_grandchild() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        ::pause();
}

inline pid_t make_child() {
    const pid_t child = ::fork();
    if (child == 0) be_grandchild();
    return child;
}

/* One of its threads, from soon on. */
inline void wait_in_vfork() {
    std::thread([] {
        if (::vfork() == 0) be_grandchild();
    }).detach();
    ::usleep(20'000);
}

class Quiescence : public State {
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
        claim_slot(index, claim_here(child.id(), index), boottime_now_ns(), flags);
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
        EXPECT_THAT(report.acknowledged, testing::IsEmpty());
        EXPECT_FALSE(report.complete());
        if (report.unreachable.size() != 1)
            return fmt::format("{} are unreachable", report.unreachable.size());
        EXPECT_EQ(report.unreachable[0].process_id, child.id());
        return report.unreachable[0].reason;
    }
    std::string reason(const Child& child) { return reason(child, quick()); }
};

} // namespace plumb::test

#endif
