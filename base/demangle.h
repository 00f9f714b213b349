/* Names of C++ as people write them. */
#ifndef PLUMB_BASE_DEMANGLE_H
#define PLUMB_BASE_DEMANGLE_H

#include <string>
#include <string_view>

namespace plumb {

/* "_ZN4shop4Cart3addEi" -> "shop::Cart::add(int)". What is no such name stays as it is. */
std::string demangled(std::string_view name);

} // namespace plumb

#endif
