#include "cli/group_witness.h"

#include "base/process_title.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace plumb {
namespace {

/* Without "plumb" or "record": who ends recorders by name means neither this nor the whole group. */
constexpr const char* witness_name = "signal-witness";

/* Beyond the patience that was asked for: one that is stopped, or a machine that is busy. */
constexpr int answer_patience_ms = 300;

struct Question {
    std::uint32_t number;
    std::int32_t signal_number;
    std::uint64_t patience_ns;
};

struct Answer {
    std::uint32_t number; /* of the question */
    std::int32_t was_seen;
    std::int32_t code;
    std::int32_t sender;
};

Answer look(const Question& question) {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, question.signal_number);
    const timespec patience{static_cast<time_t>(question.patience_ns / 1'000'000'000),
                            static_cast<long>(question.patience_ns % 1'000'000'000)};
    siginfo_t found{};
    int taken;
    do
        taken = ::sigtimedwait(&wanted, &found, &patience);
    while (taken < 0 && errno == EINTR);
    if (taken < 0) return {question.number, 0, 0, 0};
    return {question.number, 1, found.si_code, found.si_pid};
}

[[noreturn]] void watch(int socket, const sigset_t& asked_about) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (::sigismember(&asked_about, number) != 1) ::signal(number, SIG_IGN);
    ::sigprocmask(SIG_SETMASK, &asked_about, nullptr);
    take_process_title(witness_name);
    constexpr int kept = 0;
    ::dup2(socket, kept);
    close_files_from(1);
    if (::chdir("/") != 0) ::_exit(0);
    Question question{};
    for (;;) {
        const ssize_t received = ::recv(kept, &question, sizeof(question), 0);
        if (received < 0 && errno == EINTR) continue;
        if (received != sizeof(question)) ::_exit(0); /* the recorder has ended */
        const Answer answer = look(question);
        if (::send(kept, &answer, sizeof(answer), MSG_NOSIGNAL) < 0) ::_exit(0);
    }
}

} // namespace

void GroupWitness::start(const sigset_t& asked_about) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    FileDescriptor ours(ends[0]);
    const FileDescriptor theirs(ends[1]);
    const pid_t between = ::fork();
    if (between < 0) return;
    if (between == 0) {
        ours.reset();
        /* Nobody's child: who looks for the recorder's child looks for the command. */
        const pid_t witness = ::fork();
        if (witness == 0) watch(theirs.get(), asked_about);
        ::_exit(::send(theirs.get(), &witness, sizeof(witness), MSG_NOSIGNAL) < 0 || witness < 0 ? 1 : 0);
    }
    while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_t witness = 0;
    if (::recv(ours.get(), &witness, sizeof(witness), MSG_DONTWAIT) != sizeof(witness) || witness <= 0)
        return;
    process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, witness, 0)));
    socket_ = std::move(ours);
}

void GroupWitness::send(int signal_number) const {
    if (process_.is_open()) ::syscall(SYS_pidfd_send_signal, process_.get(), signal_number, nullptr, 0);
}

std::optional<bool> GroupWitness::saw(const siginfo_t& signal, std::uint64_t patience_ns) {
    if (socket_.get() < 0) return {};
    const Question question{++questions_asked_, signal.si_signo, patience_ns};
    if (::send(socket_.get(), &question, sizeof(question), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN) socket_.reset();
        return {};
    }
    const int patience_ms = static_cast<int>(patience_ns / 1'000'000) + answer_patience_ms;
    for (;;) {
        pollfd ready{socket_.get(), POLLIN, 0};
        const int answered = ::poll(&ready, 1, patience_ms);
        if (answered < 0 && errno == EINTR) continue;
        Answer answer{};
        if (answered <= 0 || ::recv(socket_.get(), &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
            return {};
        if (answer.number != questions_asked_)
            continue; /* it was stopped, and answers what was asked before */
        return answer.was_seen != 0 && answer.code == signal.si_code && answer.sender == signal.si_pid;
    }
}

} // namespace plumb
