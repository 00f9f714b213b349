/*
 * The part of `plumb list --json` that is the same wherever an event's description comes from.
 */
#ifndef PLUMB_CLI_LIST_EVENTS_H
#define PLUMB_CLI_LIST_EVENTS_H

#include "consumerd/event/elf_events.h"

#include <nlohmann/json_fwd.hpp>

namespace plumb {

/* Its name, log level, fields with their labels, and where it stands in the source. */
nlohmann::ordered_json json_of(const EventDescription& event);

} // namespace plumb

#endif
