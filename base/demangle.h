/* Names of C++ as people write them. */
#ifndef PLUMB_BASE_DEMANGLE_H
#define PLUMB_BASE_DEMANGLE_H

#include <string>
#include <string_view>

namespace plumb {

/* "_ZN4shop4Cart3addEi" -> "shop::Cart::add(int)". What is no such name stays as it is. */
std::string demangled(std::string_view name);

/* A demangled name without its parameters, what is behind them, and a result: "shop::Cart::add". */
std::string without_parameters(const std::string& name);

} // namespace plumb

#endif
