/*
 * The part of `plumb list FILE` that shows USDT markers: what `plumb record -k usdt:FILE:...` can record.
 */
#ifndef PLUMB_CLI_LIST_MARKERS_H
#define PLUMB_CLI_LIST_MARKERS_H

#include "consumerd/probe/markers.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace plumb {

/* None if the file can not be read; whoever looks for its tracepoints says why. */
std::vector<Marker> markers_of_file(const std::string& path);

/* One line for each name; with `verbose`, its places and arguments below. */
void print_markers(const std::vector<Marker>& markers, bool verbose);

nlohmann::ordered_json json_of(const std::vector<Marker>& markers);

} // namespace plumb

#endif
