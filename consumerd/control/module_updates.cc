#include "consumerd/control/module_updates.h"

#include "consumerd/control/kernel_module.h"

#include <plumb/abi/state.h>

#include <memory>
#include <mutex>
#include <sys/ioctl.h>
#include <utility>

namespace plumb {

ModuleUpdates* ModuleUpdates::of_machine() {
    static std::mutex mutex;
    static std::unique_ptr<ModuleUpdates> opened; /* while it is, the module stays */
    const std::lock_guard lock(mutex);
    if (!opened) {
        if (FileDescriptor descriptor = kernel_module_descriptor(PLUMB_OPERATION_UPDATES);
            descriptor.is_open())
            opened.reset(new ModuleUpdates(std::move(descriptor)));
    }
    return opened.get();
}

std::optional<ModuleUpdate> ModuleUpdates::operate(plumb_update_operation operation,
                                                   plumb_update& update) const {
    if (::ioctl(descriptor_.get(), PLUMB_IOCTL(operation, sizeof(update)), &update) != 0) return {};
    return ModuleUpdate{update.asked, update.threads != 0 && update.asleep == update.threads,
                        update.taken == 0 && update.blocked != 0};
}

std::optional<ModuleUpdate> ModuleUpdates::ask(std::uint32_t process_id, std::uint32_t signal_number,
                                               std::uint32_t slot_index) {
    plumb_update update = {};
    update.process_id = process_id;
    update.signal_number = signal_number;
    update.value = PLUMB_SIGNAL_VALUE(slot_index);
    return operate(PLUMB_UPDATE_ASK, update);
}

std::optional<ModuleUpdate> ModuleUpdates::look(std::uint32_t process_id, std::uint32_t signal_number) {
    plumb_update update = {};
    update.process_id = process_id;
    update.signal_number = signal_number;
    return operate(PLUMB_UPDATE_LOOK, update);
}

} // namespace plumb
