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

} // namespace plumb
