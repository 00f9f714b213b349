/*
 * What a process keeps over exec(), and its child by fork() has not: whoever starts a command by way of a recorder means the
 * command, which so has it as it would without. Timers, and what they end, stay the recorder's own.
 */
#ifndef PLUMB_CLI_KEPT_BY_EXEC_H
#define PLUMB_CLI_KEPT_BY_EXEC_H

#include <array>
#include <cstdint>

namespace plumb {

class KeptByExec {
public:
    /* That of this process. */
    KeptByExec();
    /* In a child of it, before exec; async-signal-safe. What it may not have, it goes without: real-time scheduling wants
     * rights of its own. */
    void take_over() const;
    /* The signal that it is to be sent when its parent ends; 0: none. */
    int parent_death_signal() const { return parent_death_signal_; }

private:
    int parent_death_signal_ = 0, is_subreaper_ = 0;
    bool resets_scheduling_ = false;
    alignas(std::uint64_t) std::array<std::uint32_t, 32> scheduling_{}; /* struct sched_attr */
};

} // namespace plumb

#endif
