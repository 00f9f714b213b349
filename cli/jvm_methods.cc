#include "cli/jvm_methods.h"

#include "base/glob.h"
#include "cli/jvm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace plumb {
namespace {

constexpr std::string_view methods_word = "methods=";

std::vector<std::string> patterns_in(const std::string& agent_options) {
    std::vector<std::string> found;
    for (std::size_t begin = 0; begin < agent_options.size();) {
        const std::size_t end = std::min(agent_options.find(',', begin), agent_options.size());
        const std::string word = agent_options.substr(begin, end - begin);
        if (word.starts_with(methods_word)) found.push_back(word.substr(methods_word.size()));
        begin = end + 1;
    }
    return found;
}

} // namespace

/* What can stand neither among the agent's options nor in JAVA_TOOL_OPTIONS is in no name that a compiler writes. */
const char* jvm_methods_mistake(std::string_view pattern) {
    const std::size_t colons = pattern.find("::");
    if (colons == std::string_view::npos || colons == 0)
        return "it is CLASS::METHOD, as com.shop.Order::place*";
    const std::string_view method = pattern.substr(colons + 2);
    if (method.empty() || method.starts_with('(')) return "there is no method behind the \"::\"";
    if (pattern.substr(0, colons).find('/') != std::string_view::npos)
        return "parts of a class's name have dots between them";
    if (pattern.find_first_of(", \t\r\n\v\f\"'") != std::string_view::npos)
        return "there is no space, comma or quote in the name of a method";
    return nullptr;
}

void add_agent_option(std::string& agent_options, const std::string& option) {
    agent_options += (agent_options.empty() ? "" : ",") + option;
}

void ask_for_jvm_methods(std::string& agent_options, const std::string& pattern) {
    add_agent_option(agent_options, std::string(methods_word) + pattern);
}

bool asks_for_jvm_methods(const std::string& agent_options) {
    return !patterns_in(agent_options).empty();
}

bool names_jvm_methods(std::string_view pattern) {
    return pattern.starts_with("jvm:method") &&
           (glob_matches(pattern, "jvm:method_entry") || glob_matches(pattern, "jvm:method_exit"));
}

void add_about_jvm_methods(std::vector<std::string>& patterns) {
    const auto pattern_of = [](const std::string& words) {
        return std::string_view(words).substr(0, words.find(' '));
    };
    if (std::any_of(patterns.begin(), patterns.end(),
                    [&](const std::string& each) { return names_jvm_methods(pattern_of(each)); }))
        patterns.insert(patterns.end(), std::begin(about_jvm_methods), std::end(about_jvm_methods));
    else if (std::none_of(patterns.begin(), patterns.end(), [&](const std::string& each) {
                 return glob_matches(pattern_of(each), "jvm:method_entry");
             }))
        patterns.push_back("jvm:method_*");
}

/* The agent tells one by its number, and 1, each time. */
Result<std::vector<std::string>> unmatched_jvm_methods(std::uint32_t process_id,
                                                       const std::string& agent_options) {
    const std::vector<std::string> patterns = patterns_in(agent_options);
    std::vector<std::string> unmatched;
    for (std::size_t from = 0; from < patterns.size();) {
        const auto answer = ask_jvm_agent(process_id, fmt::format("unmatched_methods_from={}", from));
        if (!answer) return answer.error();
        if (*answer <= static_cast<int>(from) || static_cast<std::size_t>(*answer) > patterns.size()) break;
        from = static_cast<std::size_t>(*answer);
        unmatched.push_back(patterns[from - 1]);
    }
    return unmatched;
}

Status look_for_jvm_methods(std::uint32_t process_id, const std::string& agent_options) {
    if (!asks_for_jvm_methods(agent_options)) return ok();
    const auto unmatched = unmatched_jvm_methods(process_id, agent_options);
    if (!unmatched || unmatched->empty()) return ok();
    return Error("process {}: no method of a class that is loaded matches {}; classes that are loaded later "
                 "are looked at.",
                 process_id, fmt::join(*unmatched, ", "));
}

} // namespace plumb
