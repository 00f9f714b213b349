/* Numbers as a person reads them. */
#ifndef PLUMB_BASE_NUMBER_TEXT_H
#define PLUMB_BASE_NUMBER_TEXT_H

#include <cstdint>
#include <string>

namespace plumb {

/* "1,234,567" */
std::string with_commas(std::uint64_t number);
/* "12.3 MiB" */
std::string size_text(std::uint64_t bytes);
/* "1 event", "5 events" */
std::string counted(std::uint64_t number, const std::string& noun);

} // namespace plumb

#endif
