#include "base/number_text.h"

#include <fmt/format.h>

namespace plumb {

std::string with_commas(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3; at -= 3)
        text.insert(at - 3, 1, ',');
    return text;
}

std::string size_text(std::uint64_t bytes) {
    if (bytes < 1024) return counted(bytes, "byte");
    double value = static_cast<double>(bytes) / 1024;
    const char* unit = "KiB";
    for (const char* larger : {"MiB", "GiB", "TiB"}) {
        if (value < 1024) break;
        value /= 1024;
        unit = larger;
    }
    return fmt::format("{:.1f} {}", value, unit);
}

std::string counted(std::uint64_t number, const std::string& noun) {
    if (number == 1) return fmt::format("1 {}", noun);
    if (noun.ends_with('s'))
        return fmt::format("{} {}es", with_commas(number), noun); /* process, processes */
    if (noun.ends_with("ry"))                                     /* entry, entries */
        return fmt::format("{} {}ies", with_commas(number), noun.substr(0, noun.size() - 1));
    return fmt::format("{} {}s", with_commas(number), noun);
}

} // namespace plumb
