#include "consumerd/kernel/kernel_counts.h"

#include "base/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace plumb {
namespace {

/* The number behind "name: ", in a file of such lines. */
std::uint64_t count_of(const std::string& text, const std::string& name) {
    const std::string key = name + ":";
    std::size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
    if (at == std::string::npos) return 0;
    at = text.find(':', at) + 1;
    while (at < text.size() && text[at] == ' ')
        at++;
    std::uint64_t number = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), number);
    return number;
}

} // namespace

std::optional<KernelCounts> kernel_counts(const std::string& buffer, std::uint32_t cpu) {
    const auto text = read_small_file(fmt::format("{}/per_cpu/cpu{}/stats", buffer, cpu));
    if (!text) return {};
    return KernelCounts{count_of(*text, "overrun"),
                        count_of(*text, "dropped events") + count_of(*text, "commit overrun"),
                        count_of(*text, "read events"), count_of(*text, "entries")};
}

/* The kernel tells `unread` first, and goes on: what was written by then is at least that, and what had left the buffer before. */
bool CountsWatch::has_been_emptied(const KernelCounts& now) {
    const std::uint64_t written = now.unread + now.overrun + now.read;
    const bool is_emptied = now.overrun < last_.overrun || now.dropped < last_.dropped ||
                            now.read < last_.read || written < least_written_;
    least_written_ =
        is_emptied ? now.unread : std::max(least_written_, now.unread + last_.overrun + last_.read);
    last_ = now;
    return is_emptied;
}

} // namespace plumb
