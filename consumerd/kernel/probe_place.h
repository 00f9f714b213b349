/*
 * From a pattern such as "uprobe:FILE:SYMBOL" to the places that the kernel is asked to watch, and what their events are
 * called: in tracefs, where names are short and of few letters, and in the trace.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_PROBE_PLACE_H
#define PLUMB_CONSUMERD_KERNEL_PROBE_PLACE_H

#include "base/result.h"
#include "consumerd/kernel/tracefs.h"

#include <string>
#include <vector>

namespace plumb {

struct ProbePlace {
    std::string type;      /* "p" or "r", as the kernel writes it */
    std::string place;     /* "vfs_read", "/bin/x:0x1234" */
    std::string raw_name;  /* for tracefs, not yet distinct: "uprobe_shop__Cart__add_int_" */
    std::string name;      /* in the trace: "uprobe_shop::Cart::add(int)" */
    std::string file;      /* of a uprobe, absolute */
    std::string arguments; /* "n=%di:u32 m=%si"; empty: none */
    std::string provider;  /* of a marker */
    std::vector<std::string>
        floats; /* arguments that hold floating point, which the kernel reads as integers */
};

/* `notes` gets what a person should know of places that were left out. */
Result<std::vector<ProbePlace>> places_of(const KernelSelector& selector, std::vector<std::string>& notes);

/* A probe that somebody else made and that is only known as tracefs lists it, with what it is called in the trace: as
 * places_of() named it, as far as the file still says. */
ProbePlace left_probe(const std::string& raw_name, const std::string& place, const std::string& arguments);

/* An event's name may hold letters, digits and underscores, and no more than 63 of them; ours are shorter, so that
 * another_raw_name() has room. */
std::string raw_probe_name(const std::string& system, const std::string& name);
/* "uprobe_f" -> "uprobe_f_2" */
std::string another_raw_name(const std::string& raw_name, std::size_t number);

} // namespace plumb

#endif
