/*
 * What this machine offers to tracing, each thing found out by trying it, with what to do if it is missing.
 */
#ifndef PLUMB_CONSUMERD_DOCTOR_MACHINE_H
#define PLUMB_CONSUMERD_DOCTOR_MACHINE_H

#include <string>
#include <vector>

namespace plumb {

enum class Finding {
    good,    /* works */
    limited, /* tracing works without it, with less */
    missing  /* not there */
};

struct MachineCheck {
    std::string name; /* short and stable: "rseq", "membarrier", "shared-memory" ... */
    Finding finding;
    bool needed;        /* user-space tracing does not work without it */
    std::string found;  /* what was seen, one line */
    std::string advice; /* what to do; empty if good */
};

std::vector<MachineCheck> inspect_machine();

/* Whether everything that user-space tracing needs is there. */
bool can_trace_user_space(const std::vector<MachineCheck>& checks);

} // namespace plumb

#endif
