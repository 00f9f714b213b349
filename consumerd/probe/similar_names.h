/*
 * For who mistyped a name: what there is that looks like it.
 */
#ifndef PLUMB_CONSUMERD_PROBE_SIMILAR_NAMES_H
#define PLUMB_CONSUMERD_PROBE_SIMILAR_NAMES_H

#include <string>
#include <vector>

namespace plumb {

/* At most five, the most similar first: few letters differ, or one is part of the other. */
std::vector<std::string> similar_names(const std::string& wanted, std::vector<std::string> names);

} // namespace plumb

#endif
