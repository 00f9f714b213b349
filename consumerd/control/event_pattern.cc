#include "consumerd/control/event_pattern.h"

#include "base/glob.h"
#include "base/output_buffer.h"

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

bool is_control(char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

/* In a name are letters, digits and a few signs; sets, and what is quoted, may be anything. NUL: there is none. */
char letter_of_no_event(const std::string& pattern) {
    constexpr const char* no_letters = " \t\r\n\"'`!#%&(),;/<=>@{|}~+^";
    for (std::size_t at = 0; at < pattern.size(); at++) {
        if (pattern[at] == '\\')
            at++;
        else if (pattern[at] == '[')
            at = pattern.find(']', at + (pattern[at + 1] == '!' || pattern[at + 1] == '^' ? 3 : 2));
        else if (is_control(pattern[at]) || std::strchr(no_letters, pattern[at]) != nullptr)
            return pattern[at];
    }
    return '\0';
}

} // namespace

Status check_event_pattern(const std::string& pattern) {
    if (pattern.empty()) return Error("An event pattern is empty.").hint("'*' stands for all events.");
    const auto wrong = [&pattern](const std::string& what) {
        return Error("\"{}\" can not be the name of an event: {}.", escaped(pattern), what)
            .hint(
                "Write PROVIDER:EVENT, as in 'shop:*' or 'shop:order_*'; `plumb list` shows what there is.");
    };
    if (pattern.front() == ':') return wrong("it has no provider");
    if (const char* const mistake = glob_mistake(pattern)) return wrong(mistake);
    const bool has_set = pattern.find('[') != std::string::npos; /* where a colon may be one of the set */
    if (!has_set && std::count(pattern.begin(), pattern.end(), ':') > 1)
        return wrong(pattern.find(',') != std::string::npos
                         ? "it has more than one colon: several patterns have an option each"
                         : "it has more than one colon");
    if (pattern.back() == ':') return wrong("it has no event behind the provider");
    if (const char no_letter = letter_of_no_event(pattern); no_letter != '\0')
        return wrong(no_letter == ' ' ? "it has a space"
                                      : fmt::format("it has a '{}'", escaped(std::string(1, no_letter))));
    return ok();
}

bool pattern_matches(const std::string& pattern, const std::string& name) {
    std::string glob = pattern.substr(pattern.starts_with('!') ? 1 : 0);
    if (glob.find(':') == std::string::npos && glob != "*") glob += ":*";
    return glob_matches(glob.c_str(), name.c_str());
}

} // namespace plumb
