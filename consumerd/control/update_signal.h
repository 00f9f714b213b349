/* The update signal from the controller's side (<plumb/abi/state.h>). */
#ifndef PLUMB_CONSUMERD_CONTROL_UPDATE_SIGNAL_H
#define PLUMB_CONSUMERD_CONTROL_UPDATE_SIGNAL_H

#include <cstdint>

namespace plumb {

/* To one thread, with the value that names the slot: 0, or errno. */
int queue_update_signal(std::uint32_t process_id, std::uint32_t thread_id, int signal_number,
                        std::uint32_t slot_index);

} // namespace plumb

#endif
