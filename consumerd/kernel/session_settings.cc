#include "consumerd/kernel/session_settings.h"

#include "base/file.h"
#include "consumerd/kernel/event_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumb {
namespace {

constexpr const char* switch_file = "tracing_on";

/* With every enabled event of a machine `set_event` has 50 KiB. */
std::string text_of(const std::string& path) {
    constexpr std::size_t bytes_max = std::size_t{1} << 20;
    const auto text = read_small_file(path, bytes_max);
    return text ? *text : std::string();
}

std::string shown(const std::string& text) {
    constexpr std::size_t long_text = 40;
    const std::string line = text.substr(0, text.find('\n'));
    return line.size() == text.size() - 1 && line.size() <= long_text ? line : std::string();
}

} // namespace

SessionSettings::SessionSettings(std::string instance, const std::vector<KernelEvent>& events)
    : instance_(std::move(instance)) {
    for (const char* const file :
         {switch_file, "trace_clock", "tracing_cpumask", "set_event", "trace_options"})
        files_.emplace_back(file, "");
    for (const KernelEvent& event : events)
        files_.emplace_back(fmt::format("events/{}/{}/filter", event.system, event.raw_name), "");
    for (auto& [file, text] : files_)
        text = text_of(instance_ + "/" + file);
}

bool SessionSettings::is_running() const {
    return files_.empty() || text_of(instance_ + "/" + switch_file) == files_.front().second;
}

std::string SessionSettings::changes() const {
    constexpr std::size_t named_max = 3;
    std::vector<std::string> changed;
    for (const auto& [file, before] : files_) {
        const std::string now = text_of(instance_ + "/" + file);
        if (now == before) continue;
        const std::string was = shown(before), is = shown(now);
        changed.push_back(was.empty() || is.empty() ? file : fmt::format("{} ({}, now {})", file, was, is));
    }
    const std::size_t count = changed.size();
    if (count > named_max) {
        changed.resize(named_max);
        changed.push_back(fmt::format("and {} more", count - named_max));
    }
    return fmt::format("{}", fmt::join(changed, ", "));
}

} // namespace plumb
