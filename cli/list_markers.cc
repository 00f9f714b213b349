#include "cli/list_markers.h"

#include "base/output_buffer.h"
#include "cli/output.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace plumb {

std::vector<Marker> markers_of_file(const std::string& path) {
    const auto elf = ElfFile::open(path);
    return elf ? markers_of(*elf) : std::vector<Marker>{};
}

static void print_place(const Marker& marker) {
    std::string line = fmt::format("        at {:#x}{}", marker.address, marker.arguments.empty() ? "" : ":");
    for (std::size_t i = 0; i < marker.arguments.size(); i++) {
        const MarkerArgument& argument = marker.arguments[i];
        line += fmt::format("{} arg{}: {} {}", i == 0 ? "" : ",", i + 1, argument.type_name(),
                            escaped(argument.text));
    }
    print_out("{}\n", line);
}

void print_markers(const std::vector<Marker>& markers, bool verbose) {
    std::size_t width = 0;
    for (const Marker& marker : markers)
        width = std::max(width, escaped(marker.full_name()).size());
    for (std::size_t begin = 0, end = 0; begin < markers.size(); begin = end) {
        const std::string name = markers[begin].full_name();
        while (end < markers.size() && markers[end].full_name() == name)
            end++;
        print_out("    {:<{}}  USDT{}\n", escaped(name), width,
                  end - begin > 1 ? fmt::format(" ({} places)", end - begin) : "");
        for (std::size_t i = begin; verbose && i < end; i++)
            print_place(markers[i]);
    }
}

nlohmann::ordered_json json_of(const std::vector<Marker>& markers) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Marker& marker : markers) {
        nlohmann::ordered_json arguments = nlohmann::ordered_json::array();
        for (std::size_t i = 0; i < marker.arguments.size(); i++)
            arguments.push_back({{"name", fmt::format("arg{}", i + 1)},
                                 {"type", marker.arguments[i].type_name()},
                                 {"place", marker.arguments[i].text}});
        list.push_back({{"marker", marker.full_name()},
                        {"address", marker.address},
                        {"semaphore", marker.semaphore != 0},
                        {"arguments", std::move(arguments)}});
    }
    return list;
}

} // namespace plumb
