#include "base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace plumb {

std::string demangled(std::string_view name) {
    /* Without it, "i" would be the type int. */
    constexpr std::string_view start = "_Z";
    /* What it stands for may be longer by far: templates nest. */
    constexpr std::size_t bytes_max = 16384;
    std::string mangled(name);
    if (!name.starts_with(start) || name.size() > bytes_max || mangled.find('\0') != std::string::npos)
        return mangled;
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
