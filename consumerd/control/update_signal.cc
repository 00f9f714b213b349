#include "consumerd/control/update_signal.h"

#include <plumb/abi/state.h>

#include <cerrno>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {

int queue_update_signal(std::uint32_t process_id, std::uint32_t thread_id, int signal_number,
                        std::uint32_t slot_index) {
    siginfo_t info{};
    info.si_code = SI_QUEUE;
    info.si_signo = signal_number;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value.sival_ptr = reinterpret_cast<void*>(PLUMB_SIGNAL_VALUE(slot_index));
    const long sent = ::syscall(SYS_rt_tgsigqueueinfo, process_id, thread_id, signal_number, &info);
    return sent == 0 ? 0 : errno;
}

} // namespace plumb
