/* Text for errno values: thread-safe, unlike strerror(). */
#include "base/result.h"

#include <cstring>

namespace plumb {

std::string errno_text(int number) {
    const char* text = ::strerrordesc_np(number);
    return text != nullptr ? text : fmt::format("error {}", number);
}

} // namespace plumb
