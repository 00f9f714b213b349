// plumb.ko as a test's own: what it tells of its events, what it refuses, and what it was asked for, a line each. Who takes it puts
// it in the place of the system call and of ioctl().
#pragma once

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/kernel_filter.h>
#include <plumb/abi/kernel_probe.h>
#include <plumb/abi/module.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

namespace plumb::test {

struct Module {
    std::vector<plumb_kernel_event> events;
    std::map<unsigned, int> errors; /* by operation: errno */
    int not_opened = 0;
    int descriptor = -1;
    std::vector<std::string> asked;
    std::vector<plumb_kernel_probe> probes;
    std::uint64_t missed = 0;
    std::int32_t ended = 999; /* a process that was one */

    long open(long operation, plumb_descriptor_request& request) {
        if (operation != PLUMB_OPERATION_KERNEL_EVENTS) return EOPNOTSUPP;
        if (not_opened != 0) return not_opened;
        descriptor = request.descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        return 0;
    }
    int answer(unsigned operation, std::size_t bytes, void* argument) {
        if (const auto error = errors.find(operation); error != errors.end()) return error->second;
        const auto is = [&](unsigned which, std::size_t size) { return operation == which && bytes == size; };
        if (is(PLUMB_KERNEL_DESCRIBE, sizeof(plumb_kernel_event))) {
            auto& event = *static_cast<plumb_kernel_event*>(argument);
            if (event.index >= events.size()) return ENOENT;
            const std::uint32_t index = event.index;
            event = events[index];
            event.index = index;
            return 0;
        }
        if (is(PLUMB_KERNEL_CHANNEL, sizeof(plumb_kernel_channel))) {
            const auto& channel = *static_cast<plumb_kernel_channel*>(argument);
            asked.push_back(fmt::format("channel {}", channel.descriptor));
            return channel.reserved == 0 ? 0 : EINVAL;
        }
        if (is(PLUMB_KERNEL_ENABLE, sizeof(plumb_kernel_switch))) {
            const auto& on = *static_cast<plumb_kernel_switch*>(argument);
            const bool of_everybody = (on.event_id & PLUMB_KERNEL_OF_EVERYBODY) != 0;
            asked.push_back(fmt::format("event {} is {}{}", on.index,
                                        on.event_id & ~PLUMB_KERNEL_OF_EVERYBODY, of_everybody ? "!" : ""));
            return 0;
        }
        if (is(PLUMB_KERNEL_PROBE, sizeof(plumb_kernel_probe))) {
            const auto& probe = *static_cast<plumb_kernel_probe*>(argument);
            probes.push_back(probe);
            asked.push_back(fmt::format("probe {}+{} flags {} is {}", probe.symbol, probe.offset, probe.flags,
                                        probe.event_id));
            return 0;
        }
        if (is(PLUMB_KERNEL_FILTER, sizeof(plumb_kernel_filter))) {
            const auto& filter = *static_cast<plumb_kernel_filter*>(argument);
            asked.push_back(fmt::format("filter of {}, {} tests", filter.event_id, filter.test_count));
            return 0;
        }
        if (is(PLUMB_KERNEL_FOLLOW, sizeof(plumb_kernel_follow))) {
            const auto& follow = *static_cast<plumb_kernel_follow*>(argument);
            asked.push_back(fmt::format("follow {}", follow.process_id));
            if (follow.process_id == ended) return ESRCH;
            return follow.reserved == 0 ? 0 : EINVAL;
        }
        if (is(PLUMB_KERNEL_MISSED, 8)) {
            *static_cast<std::uint64_t*>(argument) = missed;
            return 0;
        }
        if (!is(PLUMB_KERNEL_BEGIN, 0) && !is(PLUMB_KERNEL_END, 0)) return EINVAL;
        asked.emplace_back(operation == PLUMB_KERNEL_BEGIN ? "begin" : "end");
        return argument == nullptr ? 0 : EINVAL;
    }
};

inline plumb_kernel_event event(const std::string& system, const std::string& name,
                                const std::vector<plumb_kernel_field>& fields = {}) {
    plumb_kernel_event made{};
    made.field_count = static_cast<std::uint32_t>(fields.size());
    std::memcpy(made.system, system.data(), system.size());
    std::memcpy(made.name, name.data(), name.size());
    std::copy_n(fields.begin(), std::min<std::size_t>(fields.size(), PLUMB_EVENT_MAX_FIELDS), made.fields);
    return made;
}
inline plumb_kernel_field field(const std::string& name, unsigned type = PLUMB_FIELD_INTEGER,
                                unsigned size = 4, unsigned flags = 0, std::uint16_t length = 0) {
    plumb_kernel_field made{};
    std::memcpy(made.name, name.data(), name.size());
    made.type = static_cast<std::uint8_t>(type);
    made.size = static_cast<std::uint8_t>(size);
    made.flags = static_cast<std::uint8_t>(flags);
    made.array_length = length;
    return made;
}

} // namespace plumb::test
