// A state file of the test's own with its controller, and its bytes past all checks: what the tests of the controller's side
// share.
#pragma once

#include "base/processes.h"
#include "consumerd/control/state.h"
#include "tests/support/claims.h"
#include "tests/support/scratch_shm.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace plumb::test {

// A process id that nobody has: of a child that is gone.
inline std::uint32_t dead_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return static_cast<std::uint32_t>(child);
}

inline plumb_session session_of(std::uint32_t process_id, std::uint64_t cookie, const char* name) {
    plumb_session session{};
    session.cookie = cookie;
    session.controller_process_id = process_id;
    session.controller_namespace = space_here();
    session.controller_boottime_ns = boottime_now_ns();
    std::strncpy(session.name, name, sizeof(session.name) - 1);
    return session;
}

inline void add_rule(plumb_rule_set& set, std::uint8_t session, const char* pattern) {
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
        claim_slot(index, claim_here(process_id), registered_ns, flags);
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

} // namespace plumb::test
