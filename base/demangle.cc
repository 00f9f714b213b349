#include "base/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace plumb {

constexpr std::size_t text_bytes_max = std::size_t{64} << 20;

/* "S_", "S1A_", "T0_": what stands for something before it. */
static std::ptrdiff_t substitutions_of(const std::string& mangled) {
    std::ptrdiff_t count = 0;
    for (std::size_t at = 0; at < mangled.size(); at++) {
        if (mangled[at] != 'S' && mangled[at] != 'T') continue;
        std::size_t end = at + 1;
        while (end < mangled.size() && (std::isdigit(static_cast<unsigned char>(mangled[end])) != 0 ||
                                        std::isupper(static_cast<unsigned char>(mangled[end])) != 0))
            end++;
        count += end < mangled.size() && mangled[end] == '_' ? 1 : 0;
    }
    return count;
}

/* How long its text may be at worst, about. Each substitution may stand for all before it, so that a few hundred bytes would
 * become gigabytes; most comes of three at a time that stand for the three before them. */
static std::size_t text_bytes_of(const std::string& mangled) {
    std::size_t bytes = mangled.size();
    for (std::ptrdiff_t left = substitutions_of(mangled); left >= 3 && bytes <= text_bytes_max; left -= 3)
        bytes *= 3;
    return bytes;
}

std::string demangled(std::string_view name) {
    /* Without it, "i" would be the type int. */
    constexpr std::string_view start = "_Z";
    constexpr std::size_t bytes_max = 16384;
    std::string mangled(name);
    if (!name.starts_with(start) || name.size() > bytes_max || mangled.find('\0') != std::string::npos)
        return mangled;
    if (text_bytes_of(mangled) > text_bytes_max) return mangled;
    struct Free {
        void operator()(char* text) const { std::free(text); }
    };
    int status = 0;
    const std::unique_ptr<char, Free> text(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status));
    return status == 0 && text ? std::string(text.get()) : mangled;
}

/* A function that is made of a template has its result in front: "void shop::each<int>". */
static std::string without_result(const std::string& name) {
    constexpr std::string_view brackets_open = "<([{", brackets_close = ">)]}", operators = "operator";
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < name.size(); at++) {
        if (depth == 0 && name.compare(at, operators.size(), operators) == 0) break; /* "operator new" */
        if (brackets_open.find(name[at]) != std::string_view::npos) depth++;
        if (brackets_close.find(name[at]) != std::string_view::npos) depth--;
        if (name[at] == ' ' && depth == 0) begin = at + 1;
    }
    return name.substr(begin);
}

/* The last parentheses that are in no others; of "operator()(int)" the second ones. */
std::string without_parameters(const std::string& name) {
    int depth = 0;
    for (std::size_t at = name.size(); at-- > 0;) {
        if (name[at] == ')') depth++;
        if (name[at] == '(' && --depth == 0) return at == 0 ? name : without_result(name.substr(0, at));
    }
    return name;
}

} // namespace plumb
