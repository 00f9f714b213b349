// Looks for functions and markers in files that nobody vouches for. Input: a byte that chooses what is asked for, and the
// bytes of a file.
#include "consumerd/kernel/marker_place.h"
#include "consumerd/probe/function_choice.h"
#include "consumerd/probe/markers.h"
#include "consumerd/probe/unwinding.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const auto elf = plumb::ElfFile::of_bytes(std::as_bytes(std::span(data + 1, size - 1)), "input");
    if (!elf) return 0;
    static const std::vector<std::string> patterns = {"*", "f", "f@*", "f+0x10", "0x1000", "shop::*"};
    if (const auto places = plumb::choose_functions(*elf, "input", patterns[data[0] % patterns.size()]))
        for (const plumb::FunctionPlace& place : *places)
            if (place.name.empty()) abort();
    (void)plumb::names_of_address(*elf, data[0] * 64u);
    (void)plumb::who_walks_the_stack(*elf);
    std::vector<std::string> notes;
    for (const plumb::Marker& marker : plumb::markers_of(*elf)) {
        if (marker.provider.empty() || marker.name.empty()) abort();
        (void)plumb::place_of_marker(marker, *elf, "/input", notes);
    }
    return 0;
}
