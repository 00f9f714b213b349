/*
 * The BPF programs that read the strings of system calls, in the kernel, where a call begins and, for what was not in memory
 * then, where it returns. See syscall_texts.h for what they tell.
 *
 * They run for every call of every process, and look up whether it is one of those that are recorded; only these cost more
 * than that. They are gone when this object is, or its process, in whatever way.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_SYSCALL_TEXT_PROGRAM_H
#define PLUMB_CONSUMERD_KERNEL_SYSCALL_TEXT_PROGRAM_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/kernel/syscall_arguments.h"

#include <string>

namespace plumb {

class SyscallTextProgram {
public:
    /* Before the events of system calls are switched on: who comes first there is called first. `root`: of tracefs;
     * `marker`: what every text begins with. */
    static Result<SyscallTextProgram> attach(const std::string& root, const std::string& marker,
                                             const TextArguments& calls);

private:
    FileDescriptor calls_, late_, format_;
    FileDescriptor at_entry_, at_exit_;
};

/* Whether the kernel lets us, found out by trying. */
Status try_syscall_texts(const std::string& root);

} // namespace plumb

#endif
