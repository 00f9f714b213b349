// Acts around what surrounds a program: its user, its limits, its namespaces, what it may call.
#include "tests/stress/storm/acts.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb::storm {

namespace {

constexpr uid_t nobody = 65534;

bool become_nobody() {
    return setgroups(0, nullptr) == 0 && setresgid(nobody, nobody, nobody) == 0 &&
           setresuid(nobody, nobody, nobody) == 0;
}

// A service that starts as root and drops it.
bool changes_user(Random& random) {
    step_for(random.below(30));
    if (!become_nobody()) return complain("could not change the user");
    step_for(20 + random.below(60));
    const pid_t child = fork();
    if (child == 0) {
        begin_writers();
        step_for(10);
        _exit(0);
    }
    const int status = wait_for_child(child);
    return status == 0 ||
           complain("the child of another user ended with status %#x", static_cast<unsigned>(status));
}

bool changes_user_and_execs(Random& random) {
    step_for(random.below(20));
    if (!become_nobody()) return complain("could not change the user");
    become("execs", (own_seed() & seed_mask) | 1u << 28);
}

// Only for a moment: a server that opens a file as its client.
bool changes_user_to_and_fro(Random& random) {
    for (int i = 0; i < 10; i++) {
        if (setresuid(static_cast<uid_t>(-1), nobody, 0) != 0) return complain("could not change the user");
        step_for(random.below(8));
        if (setresuid(static_cast<uid_t>(-1), 0, 0) != 0) return complain("could not change back");
        step_for(random.below(4));
    }
    return true;
}

bool has_an_empty_root(Random& random) {
    step_for(random.below(20));
    char directory[] = "/tmp/plumb-storm-root-XXXXXX";
    if (mkdtemp(directory) == nullptr || chroot(directory) != 0 || chdir("/") != 0)
        return complain("could not change the root");
    rmdir("/");
    step_for(20 + random.below(60));
    return true;
}

bool is_in_a_namespace(Random& random) {
    const uint32_t milliseconds = 20 + random.below(60);
    step_for(random.below(10));
    fflush(nullptr);
    if (unshare(CLONE_NEWPID) != 0) return complain("no new process-id namespace");
    const pid_t child = fork(); // process 1 there
    if (child == 0) {
        begin_writers();
        flag_writers(writer_is_inside);
        step_for(milliseconds);
        const pid_t grandchild = fork();
        begin_writers();
        flag_writers(writer_is_inside);
        step_for(milliseconds / 2);
        if (grandchild == 0) _exit(0);
        _exit(wait_for_child(grandchild) == 0 ? 0 : 1);
    }
    step_for(10);
    const int status = wait_for_child(child);
    return status == 0 ||
           complain("the child in a namespace ended with status %#x", static_cast<unsigned>(status));
}

// Whoever writes a file beyond its limit is sent SIGXFSZ.
bool may_not_write_files(Random& random) {
    const rlimit none = {0, 0};
    step_for(random.below(10));
    setrlimit(RLIMIT_FSIZE, &none);
    step_for(20 + random.below(30));
    // A pipe has no limit; the exec must not fail either.
    become("execs", own_seed() & seed_mask);
}

bool has_few_descriptors(Random& random) {
    const rlimit few = {3, 3};
    setrlimit(RLIMIT_NOFILE, &few);
    step_for(20 + random.below(60));
    return true;
}

// Kills the process at the first openat, membarrier or process_vm call: what a browser's renderer does to itself.
bool is_in_a_sandbox(Random& random) {
    step_for(random.below(40));
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return complain("no filter of system calls: %s", strerror(errno));
    step_for(20 + random.below(100));
    return true;
}

// Low memory for locks, stack, data; each limit that can fail a call of the runtime's.
bool has_little_room(Random& random) {
    const rlimit bytes = {256 << 20, 256 << 20};
    setrlimit(RLIMIT_AS, &bytes);
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_MEMLOCK, &none);
    setrlimit(RLIMIT_SIGPENDING, &none);
    setrlimit(RLIMIT_MSGQUEUE, &none);
    step_for(20 + random.below(60));
    return true;
}

constexpr Act acts[] = {
    {"changes_user", changes_user, act_needs_root},
    {"changes_user_and_execs", changes_user_and_execs, act_needs_root},
    {"changes_user_to_and_fro", changes_user_to_and_fro, act_needs_root},
    {"has_an_empty_root", has_an_empty_root, act_needs_root},
    {"is_in_a_namespace", is_in_a_namespace, act_needs_root},
    {"may_not_write_files", may_not_write_files},
    {"has_few_descriptors", has_few_descriptors},
    {"is_in_a_sandbox", is_in_a_sandbox},
    {"has_little_room", has_little_room},
};

} // namespace

std::span<const Act> surroundings_acts() {
    return acts;
}

} // namespace plumb::storm
