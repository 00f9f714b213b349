#include "consumerd/probe/similar_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace plumb {
namespace {

std::string lower_case(std::string text) {
    for (char& each : text)
        each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    return text;
}

/* How many letters have to be changed, put in or taken out. */
std::size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); i++) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); j++) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row.back();
}

} // namespace

std::vector<std::string> similar_names(const std::string& wanted, std::vector<std::string> names) {
    constexpr std::size_t shown_max = 5, part_least = 3, letters_for_one_mistake = 3, length_max = 256;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const std::string text = lower_case(wanted);
    if (text.size() > length_max) return {};
    std::vector<std::pair<std::size_t, std::string>> scored;
    for (std::string& name : names) {
        const std::string other = lower_case(name);
        const std::size_t difference =
            std::max(text.size(), other.size()) - std::min(text.size(), other.size());
        const std::size_t mistakes_max = 1 + text.size() / letters_for_one_mistake / 2;
        const bool is_part = std::min(text.size(), other.size()) >= part_least &&
                             (other.find(text) != std::string::npos || text.find(other) != std::string::npos);
        if (!is_part && difference > mistakes_max) continue;
        const std::size_t distance = is_part ? difference : edit_distance(text, other);
        if (is_part || distance <= mistakes_max) scored.emplace_back(distance, std::move(name));
    }
    std::stable_sort(scored.begin(), scored.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> found;
    for (std::size_t i = 0; i < std::min(scored.size(), shown_max); i++)
        found.push_back(std::move(scored[i].second));
    return found;
}

} // namespace plumb
