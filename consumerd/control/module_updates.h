/*
 * The update signal by plumb.ko, which ends no system call early: each thread of a process has work to do before its
 * next instruction in user space, and the first that comes by sends itself the signal there.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_MODULE_UPDATES_H
#define PLUMB_CONSUMERD_CONTROL_MODULE_UPDATES_H

#include "base/file.h"
#include "base/result.h"

#include <plumb/abi/module.h>

#include <cstdint>
#include <optional>

namespace plumb {

/* What is known of a process that was asked. */
struct ModuleUpdate {
    /* Threads that got work when it was asked: none, if all of them still had some, by whoever of this user asked. */
    std::uint32_t asked = 0;
    /* All of its threads sleep, or are stopped, and the first that goes on asks again before it does anything else. */
    bool is_asleep = false;
    /* Nobody has taken the signal, and some of its threads have come by and block it. */
    bool is_blocked = false;
};

class ModuleUpdates {
public:
    /* Of this process; nullptr where there is no module now. Any thread. */
    static ModuleUpdates* of_machine();

    /* Nothing: not by this way (the process is out of the module's reach or has ended, or there is no memory). */
    std::optional<ModuleUpdate> ask(std::uint32_t process_id, std::uint32_t signal_number,
                                    std::uint32_t slot_index);
    /* How far it is, of one that was asked by this signal. */
    std::optional<ModuleUpdate> look(std::uint32_t process_id, std::uint32_t signal_number);

private:
    explicit ModuleUpdates(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
    std::optional<ModuleUpdate> operate(plumb_update_operation operation, plumb_update& update) const;

    FileDescriptor descriptor_;
};

} // namespace plumb

#endif
