/*
 * `-k 'EVENT if FILTER'` for plumb.ko: what is written there, as the tests that the module makes of each payload
 * (<plumb/abi/kernel_filter.h>). Of our conditions it takes what the kernel's own filters have: fields that are compared with numbers
 * (`flags & 0x40`, `(mode & 3) == 1`), or with texts (`comm ~ "shop*"`), and `&&`, `||`, `!`.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_MODULE_FILTER_H
#define PLUMB_CONSUMERD_KERNEL_MODULE_FILTER_H

#include "base/condition_parser.h"
#include "base/result.h"
#include "consumerd/event/elf_events.h"

#include <plumb/abi/kernel_filter.h>

#include <string>
#include <vector>

namespace plumb {

/* An event's fields as filters name them: as the kernel does (`prev_pid`), and, where it has none of that name, as the trace does
 * (`prev_tid`); a name that is one field's here and another's there is refused. Else `common_pid`, `COMM`, `CPU` are those of the thread that runs. */
struct FilteredFields {
    const EventDescription& event;
    std::vector<std::string> kernel_names; /* one for each field; empty: they are the event's own */
};

/* The names in a filter that are nothing of the event. */
std::vector<std::string> lacking_fields(const ConditionTree& filter, const FilteredFields& fields);

/* What any of the filters lets through; without an id. Errors show the filter, and point at a column. */
Result<plumb_kernel_filter> module_filter(const std::vector<ConditionTree>& any_of,
                                          const FilteredFields& fields);

} // namespace plumb

#endif
