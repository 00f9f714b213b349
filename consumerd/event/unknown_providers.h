/*
 * Tracepoints of LTTng-UST that were wanted, and stayed off, since the probe in the program does not know the version of their
 * provider. They have descriptions in the channel, and no records (PLUMB_UNKNOWN_PROVIDER_FIELD).
 */
#ifndef PLUMB_CONSUMERD_EVENT_UNKNOWN_PROVIDERS_H
#define PLUMB_CONSUMERD_EVENT_UNKNOWN_PROVIDERS_H

#include "consumerd/event/elf_events.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct UnknownProvider {
    std::string name;
    std::int64_t major;
    std::vector<std::string> events; /* full names, each once */
};

bool is_of_unknown_provider(const EventDescription& event);

/* By name; what is of none is left out. */
std::vector<UnknownProvider> unknown_providers_of(const std::vector<EventDescription>& events);

/* "shop:order, shop:paid were not recorded: ..." */
std::string unknown_provider_text(const UnknownProvider& provider);

} // namespace plumb

#endif
