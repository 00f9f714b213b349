#include "cli/summary_file.h"

#include "base/file.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb {
namespace {

constexpr std::size_t bytes_max = std::size_t{64} << 20; /* as of a file on a line */
constexpr std::size_t depth_max = 16;
constexpr std::uint64_t values_max = std::uint64_t{1} << 21;
constexpr std::uint64_t comparisons_max = std::uint64_t{1}
                                          << 30; /* of names of members: some 46,000 in one object */

/* Whether reading it takes no more than that. Of what is no JSON this may say anything: the parser stops there. */
bool is_within_bounds(std::string_view text) {
    std::array<std::uint64_t, depth_max> members{};
    std::uint64_t values = 0, comparisons = 0;
    std::size_t depth = 0;
    bool is_in_string = false;
    for (std::size_t at = 0; at < text.size(); at++) {
        const char c = text[at];
        if (is_in_string) {
            is_in_string = c != '"';
            at += c == '\\';
            continue;
        }
        is_in_string = c == '"';
        values += c == ',' || c == '[' || c == '{';
        if (c == '[' || c == '{') {
            if (depth == depth_max) return false;
            members[depth++] = 0;
        } else if (depth != 0 && (c == ']' || c == '}')) {
            depth--;
        } else if (depth != 0 && c == ':') {
            comparisons += members[depth - 1]++;
        }
        if (values > values_max || comparisons > comparisons_max) return false;
    }
    return true;
}

} // namespace

Result<nlohmann::ordered_json> read_summary(const std::string& path) {
    const auto text = read_small_file(path, bytes_max);
    if (!text) return text.error();
    if (!is_within_bounds(*text))
        return Error("{} is no recorder's: it has more values than any, or they lie deeper.", path)
            .as(EPROTO);
    auto root = nlohmann::ordered_json::parse(*text, nullptr, false);
    if (!root.is_object()) return Error("{} is no summary.", path).as(EPROTO);
    return root;
}

} // namespace plumb
