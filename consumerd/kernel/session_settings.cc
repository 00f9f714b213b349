#include "consumerd/kernel/session_settings.h"

#include "base/file.h"
#include "consumerd/kernel/event_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumb {
namespace {

constexpr const char* switch_file = "tracing_on";

/* With every enabled event of a machine `set_event` has 50 KiB. */
std::optional<std::string> text_of(const std::string& path) {
    constexpr std::size_t bytes_max = std::size_t{1} << 20;
    auto text = read_small_file(path, bytes_max);
    return text ? std::optional(std::move(*text)) : std::nullopt;
}

std::string shown(const std::string& text) {
    constexpr std::size_t long_text = 40;
    const std::string line = text.substr(0, text.find('\n'));
    return line.size() == text.size() - 1 && line.size() <= long_text ? line : std::string();
}

} // namespace

SessionSettings::SessionSettings(std::string instance, const std::vector<KernelEvent>& events)
    : instance_(std::move(instance)) {
    const auto note = [this](std::string file) {
        if (auto text = text_of(instance_ + "/" + file))
            files_.emplace_back(std::move(file), std::move(*text));
    };
    for (const char* const file : {"trace_clock", "tracing_cpumask", "set_event", "trace_options",
                                   "buffer_size_kb", "buffer_subbuf_size_kb"})
        note(file);
    for (const KernelEvent& event : events)
        note(fmt::format("events/{}/{}/filter", event.system, event.raw_name));
    running_ = text_of(instance_ + "/" + switch_file);
}

void SessionSettings::know(const std::string& file) {
    for (auto& [known, text] : files_)
        if (known == file) text = text_of(instance_ + "/" + file).value_or(text);
}

bool SessionSettings::is_running() const {
    const auto now = running_ ? text_of(instance_ + "/" + switch_file) : std::nullopt;
    return !now || now == running_;
}

std::string SessionSettings::changes() const {
    constexpr std::size_t named_max = 3;
    std::vector<std::string> changed;
    if (!is_running()) changed.emplace_back("tracing_on (1, now 0)");
    for (const auto& [file, before] : files_) {
        const auto now = text_of(instance_ + "/" + file);
        if (!now || *now == before) continue; /* or it can not be read now, for want of a descriptor */
        const std::string was = shown(before), is = shown(*now);
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
