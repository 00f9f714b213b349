// cmake-once
// The state file from the controller's side: one store publishes, the lock goes with its holder, what dead
// controllers left is removed, and nothing in the file is believed.
#include "base/processes.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/state.h"
#include "tests/support/claims.h"
#include "tests/support/scratch_shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

// Runs `work` in a child process; its exit status, or 128 + signal.
template <typename Work>
int in_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// A process id that nobody has: of a child that is gone.
std::uint32_t dead_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return static_cast<std::uint32_t>(child);
}

// A process that lives, and has nothing to do with the state file.
class Stranger {
public:
    Stranger() {
        int ends[2]; /* closed by exec: until then it maps what this process maps */
        [[maybe_unused]] const int made = ::pipe2(ends, O_CLOEXEC);
        process_ = ::fork();
        if (process_ == 0) {
            ::execlp("sleep", "sleep", "100", nullptr);
            ::_exit(127);
        }
        ::close(ends[1]);
        char none;
        [[maybe_unused]] const ssize_t end = ::read(ends[0], &none, 1);
        ::close(ends[0]);
    }
    ~Stranger() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    std::uint32_t process_id() const { return static_cast<std::uint32_t>(process_); }

private:
    pid_t process_;
};

// Keeps this thread, and those it starts, on one CPU.
class SharedCpu {
public:
    SharedCpu() {
        ::sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(::sched_getcpu(), &one);
        ::sched_setaffinity(0, sizeof(one), &one);
    }
    ~SharedCpu() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    SharedCpu(const SharedCpu&) = delete;
    SharedCpu& operator=(const SharedCpu&) = delete;

private:
    cpu_set_t before_{};
};

plumb_session session_of(std::uint32_t process_id, std::uint64_t cookie, const char* name) {
    plumb_session session{};
    session.cookie = cookie;
    session.controller_process_id = process_id;
    session.controller_namespace = test::space_here();
    session.controller_boottime_ns = boottime_now_ns();
    std::strncpy(session.name, name, sizeof(session.name) - 1);
    return session;
}

void add_rule(plumb_rule_set& set, std::uint8_t session, const char* pattern) {
    plumb_rule& rule = set.rules[set.rule_count++];
    rule = {};
    rule.session = session;
    std::strncpy(rule.pattern, pattern, sizeof(rule.pattern) - 1);
}

class State : public ::testing::Test {
protected:
    State() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    void SetUp() override {
        ASSERT_TRUE(directory_) << directory_.error().message();
        ASSERT_TRUE(open());
    }
    void TearDown() override { unmap(); }

    bool open() {
        Result<StateFile> opened = StateFile::open_or_create(*directory_);
        if (!opened) ADD_FAILURE() << opened.error().message();
        if (opened) state_.emplace(std::move(*opened));
        return state_.has_value();
    }

    // The file's bytes, past all checks.
    std::byte* raw() {
        if (raw_ != nullptr) return raw_;
        const int fd = ::open(directory_->path_of_file("state").c_str(), O_RDWR | O_CLOEXEC);
        void* base = ::mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ::close(fd);
        return raw_ = static_cast<std::byte*>(base);
    }
    void unmap() {
        if (raw_ != nullptr) ::munmap(raw_, PLUMB_STATE_TOTAL_BYTES);
        raw_ = nullptr;
    }
    plumb_state_header& header() { return *reinterpret_cast<plumb_state_header*>(raw()); }
    plumb_rule_set& set(std::uint64_t generation) {
        return reinterpret_cast<plumb_rule_set*>(raw() + PLUMB_STATE_RULE_SETS_OFFSET)[generation % 2];
    }
    plumb_process& slot(std::uint32_t index) {
        return reinterpret_cast<plumb_process*>(raw() + PLUMB_STATE_PROCESSES_OFFSET)[index];
    }
    void take_slot(std::uint32_t index, std::uint32_t process_id, std::uint64_t registered_ns,
                   std::uint32_t flags = PLUMB_PROCESS_READY) {
        claim_slot(index, test::claim_here(process_id), registered_ns, flags);
    }
    void claim_slot(std::uint32_t index, std::uint64_t claim, std::uint64_t registered_ns,
                    std::uint32_t flags = PLUMB_PROCESS_READY) {
        slot(index).registered_boottime_ns = registered_ns;
        slot(index).flags = PLUMB_FLAGS(claim, flags);
        slot(index).claim = claim;
    }
    // What `damage` makes of the header, seen by the next controller while nobody maps the file.
    template <typename Damage>
    void reopen_damaged(Damage damage) {
        damage(header());
        unmap();
        state_.reset();
    }

    ScratchShm scratch_;
    Result<UserDirectory> directory_;
    std::optional<StateFile> state_;
    std::byte* raw_ = nullptr;
};

} // namespace

TEST_F(State, a_new_file_is_as_the_abi_says) {
    EXPECT_EQ(header().magic, PLUMB_STATE_MAGIC);
    EXPECT_EQ(header().version_major, PLUMB_STATE_VERSION_MAJOR);
    EXPECT_EQ(header().total_bytes, PLUMB_STATE_TOTAL_BYTES);
    EXPECT_EQ(header().process_count, PLUMB_MAX_PROCESSES);
    EXPECT_EQ(state_->generation(), 0u);
    EXPECT_THAT(state_->processes(), IsEmpty());
    const Result<plumb_rule_set> rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ(rules->rule_count, 0u);
}

TEST_F(State, controllers_share_one_file) {
    Result<StateFile> other = StateFile::open_or_create(*directory_);
    ASSERT_TRUE(other) << other.error().message();
    EXPECT_EQ(other->inode(), state_->inode());
    ASSERT_TRUE(other->edit([](plumb_rule_set&) { return ok(); }));
    EXPECT_EQ(state_->generation(), 1u);
    EXPECT_THAT(*directory_->file_names(), ElementsAre("state"));
}

TEST_F(State, an_edit_writes_the_set_that_is_not_in_use) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Result<std::uint64_t> first = state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[3] = session_of(self, 7, "first");
        add_rule(rules, 3, "a:*");
        return ok();
    });
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, 1u);
    const plumb_rule_set before = set(1);
    const Result<std::uint64_t> second = state_->edit([&](plumb_rule_set& rules) {
        add_rule(rules, 3, "b:*");
        return ok();
    });
    ASSERT_TRUE(second);
    EXPECT_EQ(*second, 2u);
    EXPECT_EQ(std::memcmp(&before, &set(1), sizeof(before)), 0) << "the set in use was written";
    EXPECT_EQ(set(2).generation, 2u);
    EXPECT_EQ(set(2).rule_count, 2u);
    EXPECT_STREQ(set(2).rules[1].pattern, "b:*");
}

TEST_F(State, a_failed_edit_changes_nothing) {
    const Result<std::uint64_t> edited = state_->edit([](plumb_rule_set& rules) -> Status {
        add_rule(rules, 0, "a:*");
        return Error("No.");
    });
    ASSERT_FALSE(edited);
    EXPECT_EQ(edited.error().message(), "No.");
    EXPECT_EQ(state_->generation(), 0u);
    EXPECT_EQ(set(0).rule_count, 0u);
}

TEST_F(State, a_controller_killed_in_an_edit_changes_nothing_and_blocks_nobody) {
    const int status = in_child([&] {
        Result<StateFile> own = StateFile::open_or_create(*directory_);
        const auto edited = own->edit([](plumb_rule_set& rules) {
            add_rule(rules, 0, "a:*");
            ::raise(SIGKILL);
            return ok();
        });
        (void)edited.has_value();
    });
    EXPECT_EQ(status, 128 + SIGKILL);
    EXPECT_EQ(state_->generation(), 0u);
    const Result<std::uint64_t> edited = state_->edit([](plumb_rule_set&) { return ok(); });
    ASSERT_TRUE(edited);
    EXPECT_EQ(*edited, 1u);
    EXPECT_EQ(set(1).rule_count, 0u);
}

TEST_F(State, no_edit_of_many_controllers_is_lost) {
    constexpr int controllers = 4;
    constexpr int edits = 40;
    const auto self = static_cast<std::uint32_t>(::getpid());
    std::vector<pid_t> children;
    for (int i = 0; i < controllers; i++) {
        children.push_back(::fork());
        if (children.back() != 0) continue;
        Result<StateFile> own = StateFile::open_or_create(*directory_);
        for (int n = 0; own && n < edits; n++) {
            const auto edited = own->edit([&](plumb_rule_set& rules) {
                ::usleep(100); /* without the lock, others edit the same copy meanwhile */
                rules.sessions[0] = session_of(self, 1, "shared");
                add_rule(rules, 0, "x:y");
                return ok();
            });
            if (!edited) ::_exit(1);
        }
        ::_exit(own ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(state_->generation(), static_cast<std::uint64_t>(controllers * edits));
    EXPECT_EQ(state_->rule_set()->rule_count, static_cast<std::uint32_t>(controllers * edits));
}

TEST_F(State, a_reader_sees_whole_sets) {
    constexpr int edits = 10'000;
    const SharedCpu shared; /* so the writer often runs while the reader is in the middle of a set */
    std::atomic<bool> done = false;
    std::thread writer([&] {
        for (int i = 0; i < edits; i++) {
            const auto edited = state_->edit([&](plumb_rule_set& rules) {
                rules.rule_count = PLUMB_MAX_RULES;
                for (plumb_rule& rule : rules.rules)
                    rule.who_id = static_cast<std::uint32_t>(i);
                return ok();
            });
            if (!edited) break;
        }
        done = true;
    });
    Result<StateFile> reader = StateFile::open_existing(*directory_);
    ASSERT_TRUE(reader);
    int torn = 0;
    while (!done) {
        const Result<plumb_rule_set> rules = reader->rule_set();
        if (!rules) continue; /* says that it changes too often */
        for (std::uint32_t i = 1; i < rules->rule_count; i++)
            torn += rules->rules[i].who_id != rules->rules[0].who_id;
    }
    writer.join();
    EXPECT_EQ(torn, 0);
    EXPECT_EQ(state_->generation(), static_cast<std::uint64_t>(edits));
}

TEST_F(State, an_edit_removes_sessions_of_dead_controllers_with_their_rules) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const std::uint32_t dead = dead_process();
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[1] = session_of(dead, 11, "dead");
        rules.sessions[2] = session_of(self, 12, "alive");
        rules.sessions[3] = session_of(self, 13, "of an earlier process");
        rules.sessions[3].controller_boottime_ns = 1;
        add_rule(rules, 1, "dead:*");
        add_rule(rules, 2, "alive:*");
        add_rule(rules, 3, "earlier:*");
        return ok();
    }));
    ASSERT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
    const Result<plumb_rule_set> rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ(rules->sessions[1].cookie, 0u);
    EXPECT_EQ(rules->sessions[2].cookie, 12u);
    EXPECT_EQ(rules->sessions[3].cookie, 0u);
    ASSERT_EQ(rules->rule_count, 1u);
    EXPECT_STREQ(rules->rules[0].pattern, "alive:*");
}

TEST_F(State, a_clean_up_removes_the_channels_of_the_dead_only) {
    ChannelConfig config;
    config.subbuf_bytes = 4096;
    config.subbuf_count = 2;
    config.ring_count = 1;
    const std::uint32_t dead = dead_process();
    const auto self = static_cast<std::uint32_t>(::getpid());
    Result<Channel> made_by_the_dead = Channel::create(*directory_, config);
    Result<Channel> used = Channel::create(*directory_, config);
    Result<Channel> fresh = Channel::create(*directory_, config);
    ASSERT_TRUE(made_by_the_dead && used && fresh);
    const std::uint64_t left = made_by_the_dead->cookie();
    const FileDescriptor writer(::open(made_by_the_dead->path().c_str(), O_RDONLY | O_CLOEXEC));
    made_by_the_dead = Error("gone"); /* and its lock */
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[0] = session_of(self, left, "left behind");
        rules.sessions[1] = session_of(dead, used->cookie(), "used");
        rules.sessions[1].controller_namespace = 1; /* one that is not seen from here */
        return ok();
    }));
    const Result<StateCleanup> removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_THAT(removed->sessions, ElementsAre("left behind"));
    EXPECT_THAT(removed->channels, ElementsAre(channel_file_name(left)));
    plumb_channel_header header{};
    ASSERT_EQ(::pread(writer.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    EXPECT_NE(header.closed, 0u) << "writers that map it go on";
    const Result<std::vector<std::string>> names = directory_->file_names();
    EXPECT_THAT(*names, Contains(channel_file_name(used->cookie())));
    EXPECT_THAT(*names, Contains(channel_file_name(fresh->cookie())))
        << "its session is about to be published";
    const Result<StateCleanup> again = state_->clean_up();
    ASSERT_TRUE(again);
    EXPECT_THAT(again->sessions, IsEmpty());
    EXPECT_THAT(again->channels, IsEmpty());
    EXPECT_EQ(state_->generation(), 2u) << "nothing was dead, but a generation was published";
}

TEST_F(State, a_clean_up_frees_the_slots_of_the_dead_only) {
    const Stranger stranger;
    const std::uint64_t now = boottime_now_ns();
    take_slot(0, dead_process(), now);
    take_slot(1, static_cast<std::uint32_t>(::getpid()), now);
    take_slot(2, stranger.process_id(), 1); /* registered before that process began: an earlier one's */
    take_slot(3, stranger.process_id(), now);
    take_slot(4, dead_process(), 0, 0); /* killed while it filled it */
    take_slot(PLUMB_MAX_PROCESSES - 1, dead_process(), now);
    const Result<StateCleanup> removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 4u);
    std::vector<std::uint32_t> taken;
    for (const ProcessSlot& one : state_->processes())
        taken.push_back(one.index);
    EXPECT_THAT(taken, ElementsAre(1u, 3u));
}

TEST_F(State, a_slot_that_somebody_else_has_taken_is_not_freed) {
    claim_slot(0, test::claim_here(4242, 1), 100);
    const ProcessSlot seen = state_->processes().at(0);
    const std::uint64_t again =
        test::claim_here(4242, 2); /* the same id, and it has yet to store anything else */
    slot(0).claim = again;
    state_->free_slot(seen);
    EXPECT_EQ(slot(0).claim, again);
    take_slot(0, 4243, 100);
    state_->free_slot(seen);
    EXPECT_EQ(slot(0).claim, test::claim_here(4243));
}

TEST_F(State, what_the_last_owner_left_is_not_taken_for_the_next_ones) {
    claim_slot(0, test::claim_here(4242, 1), 100);
    EXPECT_TRUE(state_->processes().at(0).is_ready());
    slot(0).claim = test::claim_here(4243, 2);
    EXPECT_FALSE(state_->processes().at(0).is_ready());
}

TEST_F(State, a_slot_of_a_namespace_that_is_not_seen_is_left_alone) {
    const std::uint32_t self = static_cast<std::uint32_t>(::getpid());
    claim_slot(0, PLUMB_CLAIM(test::space_here(), dead_process(), 0), boottime_now_ns());
    claim_slot(1, PLUMB_CLAIM(1, self, 0), boottime_now_ns());
    const std::vector<ProcessSlot> slots = state_->processes();
    ASSERT_EQ(slots.size(), 2u);
    EXPECT_EQ(slots[1].process_id(), 0u) << "it is not this process";
    ASSERT_TRUE(state_->clean_up());
    EXPECT_EQ(slot(0).claim, 0u);
    /* From the first namespace of the machine everybody is seen, also that a namespace has ended. */
    const bool sees_all = test::space_here() == 0xeffffffc;
    EXPECT_EQ(slot(1).claim != 0, !sees_all);
}

TEST_F(State, who_does_not_know_his_namespace_is_found_by_the_file_that_he_maps) {
    const std::uint32_t self = static_cast<std::uint32_t>(::getpid());
    const Stranger stranger; /* does not map it */
    claim_slot(0, PLUMB_CLAIM(0, self, 0), boottime_now_ns());
    claim_slot(1, PLUMB_CLAIM(0, stranger.process_id(), 0), boottime_now_ns());
    const std::vector<ProcessSlot> slots = state_->processes();
    ASSERT_EQ(slots.size(), 2u);
    EXPECT_EQ(slots[0].process_id(), self);
    EXPECT_EQ(slots[1].process_id(), 0u);
}

TEST_F(State, hostile_rules_are_read_as_sane_ones) {
    std::memset(static_cast<void*>(&set(0)), 0xff, sizeof(plumb_rule_set));
    const Result<plumb_rule_set> rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ(rules->rule_count, PLUMB_MAX_RULES);
    for (const plumb_session& session : rules->sessions)
        EXPECT_LT(::strnlen(session.name, sizeof(session.name)), sizeof(session.name));
    for (const plumb_rule& rule : rules->rules) {
        EXPECT_LT(rule.session, PLUMB_MAX_SESSIONS);
        EXPECT_LT(::strnlen(rule.pattern, sizeof(rule.pattern)), sizeof(rule.pattern));
        EXPECT_LT(::strnlen(rule.executable, sizeof(rule.executable)), sizeof(rule.executable));
    }
    EXPECT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
}

TEST_F(State, impossible_process_ids_are_not_processes) {
    claim_slot(0, PLUMB_CLAIM(test::space_here(), 0, 1), 1);
    claim_slot(1, 1, 1);
    EXPECT_THAT(state_->processes(), IsEmpty());
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
    EXPECT_THAT(opened.error().message(), HasSubstr("understands version 3"));
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

TEST_F(State, a_wait_ends_with_an_acknowledgement_or_its_time) {
    const std::uint64_t start = boottime_now_ns();
    state_->wait_for_ack(state_->ack_count(), 20'000'000);
    EXPECT_GE(boottime_now_ns() - start, 20'000'000u);
    EXPECT_EQ(header().ack_waiters, 0u);

    std::thread process([&] {
        while (__atomic_load_n(&header().ack_waiters, __ATOMIC_SEQ_CST) == 0)
            ::usleep(1000);
        __atomic_fetch_add(&header().ack_futex, 1u, __ATOMIC_SEQ_CST);
        ::syscall(SYS_futex, &header().ack_futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    });
    const std::uint32_t seen = state_->ack_count();
    const std::uint64_t second = boottime_now_ns();
    while (state_->ack_count() == seen && boottime_now_ns() - second < 20'000'000'000)
        state_->wait_for_ack(seen, 30'000'000'000);
    process.join();
    EXPECT_LT(boottime_now_ns() - second, 20'000'000'000u);
    EXPECT_EQ(header().ack_waiters, 0u);
    state_->wait_for_ack(seen, 30'000'000'000); /* already past: returns at once */
}
