/*
 * What a tracing instance of ours was told, and whether that is still so: other tools reach all instances of the machine
 * (`trace-cmd stop -a`, `trace-cmd reset -a`), and what they change there costs events that the kernel counts nowhere.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_SESSION_SETTINGS_H
#define PLUMB_CONSUMERD_KERNEL_SESSION_SETTINGS_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

struct KernelEvent;

class SessionSettings {
public:
    SessionSettings() = default;
    /* As they are now. `instance`: its directory in tracefs. */
    SessionSettings(std::string instance, const std::vector<KernelEvent>& events);

    /* We have changed this file: what is in it now is as it should be. */
    void know(const std::string& file);
    /* Looks at what is changed most, and costs least: whether it traces at all. */
    bool is_running() const;
    /* What is otherwise by now, as "tracing_on (1, now 0)"; empty: all is as it was. */
    std::string changes() const;

private:
    std::string instance_;
    std::optional<std::string> running_;
    std::vector<std::pair<std::string, std::string>> files_; /* each with what was in it */
};

} // namespace plumb

#endif
