#include "consumerd/kernel/kernel_functions.h"

#include <fstream>
#include <string_view>

namespace plumb {
namespace {

struct Symbol {
    std::string_view name, module;
};

/* "ffffffff81000000 T name" and, of a module, "\t[module]" behind it; without a name if it is no function. */
Symbol function_in(std::string_view line) {
    const std::size_t kind_at = line.find(' ') + 1;
    if (kind_at == 0 || kind_at + 2 >= line.size()) return {};
    if (std::string_view("tTwW").find(line[kind_at]) == std::string_view::npos) return {};
    const std::string_view rest = line.substr(kind_at + 2);
    const std::size_t end = rest.find('\t');
    const std::string_view module = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const bool has_module = module.size() > 2 && module.front() == '[' && module.back() == ']';
    return {rest.substr(0, end), has_module ? module.substr(1, module.size() - 2) : std::string_view()};
}

} // namespace

std::map<std::string, std::size_t> count_kernel_functions(const std::vector<std::string>& names,
                                                          const std::string& symbols) {
    std::map<std::string, std::size_t> counts;
    std::ifstream lines(symbols);
    if (!lines) return counts;
    for (const std::string& name : names)
        counts[name] = 0;
    for (std::string line; std::getline(lines, line);) {
        const Symbol symbol = function_in(line);
        if (symbol.name.empty()) continue;
        if (const auto found = counts.find(std::string(symbol.name)); found != counts.end()) found->second++;
        if (symbol.module.empty()) continue;
        const auto found = counts.find(std::string(symbol.module) + ":" + std::string(symbol.name));
        if (found != counts.end()) found->second++;
    }
    return counts;
}

} // namespace plumb
