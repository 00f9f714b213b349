/*
 * Tells a signal to the recorder from one to its whole process group, which the command has got by itself.
 *
 * The kernel does not say which of both a signal was: kill(2) of a process and of its group look alike to whoever gets
 * them. The sender's own group does not tell either: a script that signals its recorder is in the same group as the recorder.
 * So a small process in the group takes nothing and only lets signals wait: what was sent to the group waits there, too,
 * from the same sender. It ends with the recorder.
 */
#ifndef PLUMB_CLI_GROUP_WITNESS_H
#define PLUMB_CLI_GROUP_WITNESS_H

#include "base/file.h"

#include <csignal>
#include <cstdint>
#include <optional>

namespace plumb {

class GroupWitness {
public:
    /* Once, before the process has other threads, and before the command: what was forked last is signalled first.
     * Where it can not be started, nothing is known to have reached the group. Of other signals than those that it is asked
     * about, none waits: real-time ones would pile up. */
    void start(const sigset_t& asked_about);
    /* Whether `signal`, which was just taken, reached the group, now or within `patience_ns`; nothing where there is no
     * witness, or it does not answer. Forgets it: asked for every signal that the recorder takes, once. */
    std::optional<bool> saw(const siginfo_t& signal, std::uint64_t patience_ns);
    /* When the recorder goes on after a stop: whoever made it go on may not know of the witness. */
    void go_on() const { send(SIGCONT); }

    GroupWitness() = default;
    /* A group that loses its last member with a parent outside, and has a stopped one, gets SIGHUP from the kernel. */
    ~GroupWitness() { send(SIGKILL); }
    GroupWitness(const GroupWitness&) = delete;
    GroupWitness& operator=(const GroupWitness&) = delete;

private:
    void send(int signal_number) const;

    FileDescriptor socket_;
    FileDescriptor process_; /* of pidfd_open(); none before Linux 5.3 */
    std::uint32_t questions_asked_ = 0;
};

} // namespace plumb

#endif
