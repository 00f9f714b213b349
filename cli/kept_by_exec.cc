#include "cli/kept_by_exec.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {

namespace {

/* struct sched_attr begins with its size, the policy, and 64 bits of flags: sched_setattr(2). C libraries do not have it, or
 * not beside the kernel's headers. */
constexpr std::size_t flags_at = 2;
constexpr std::uint32_t reset_on_fork = 1; /* SCHED_FLAG_RESET_ON_FORK */

} // namespace

KeptByExec::KeptByExec() {
    if (prctl(PR_GET_PDEATHSIG, &parent_death_signal_) != 0) parent_death_signal_ = 0;
    if (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper_) != 0) is_subreaper_ = 0;
    resets_scheduling_ = syscall(SYS_sched_getattr, 0, scheduling_.data(), sizeof(scheduling_), 0) == 0 &&
                         (scheduling_[flags_at] & reset_on_fork) != 0;
}

void KeptByExec::take_over() const {
    if (parent_death_signal_ != 0) (void)prctl(PR_SET_PDEATHSIG, parent_death_signal_);
    if (is_subreaper_ != 0) (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (resets_scheduling_) (void)syscall(SYS_sched_setattr, 0, scheduling_.data(), 0);
}

} // namespace plumb
