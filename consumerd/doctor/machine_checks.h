/*
 * The single checks behind machine.h. Those of shared memory name the place they look at, so that tests can
 * try them on places that are missing, full, read-only or somebody else's.
 */
#ifndef PLUMB_CONSUMERD_DOCTOR_MACHINE_CHECKS_H
#define PLUMB_CONSUMERD_DOCTOR_MACHINE_CHECKS_H

#include "base/memory_room.h"
#include "consumerd/doctor/machine.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace plumb {

class UserDirectory;

MachineCheck check_rseq();
MachineCheck check_membarrier();
MachineCheck check_clock();
MachineCheck check_clock_rate();
MachineCheck check_proc();
MachineCheck check_seccomp();
MachineCheck check_tracefs();
/* Tracing instances and probes of killed recorders; nothing if there is no tracefs to look into. */
std::vector<MachineCheck> check_tracefs_leftovers();
/* Whether file names of system calls can be read; nothing if there is no tracefs, where they would be told. */
std::vector<MachineCheck> check_syscall_texts();
MachineCheck check_kernel_module();

/* The file system that channels and the state file live on. */
MachineCheck check_shared_memory(const std::string& mount_point);
/* Whether a channel of the usual size fits there now. */
MachineCheck check_room(const std::string& mount_point);
/* The same of plumb.ko's memory, where it keeps the directories. */
MachineCheck check_module_room(const UserDirectory& directory);

/* Memory cgroups and other limits of who asks. */
MachineCheck check_memory(const MemoryRoom& room);

/* The user's directory, its state file, and what dead controllers left in it; nothing there is changed. */
MachineCheck check_user_directory(const std::string& path, uid_t user_id);
std::vector<MachineCheck> check_state(const std::string& path, uid_t user_id);
std::vector<MachineCheck> check_state(const UserDirectory& directory);

} // namespace plumb

#endif
