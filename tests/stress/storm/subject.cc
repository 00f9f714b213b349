// A program of the storm: does one act. storm_plain is the same without Plumb.
//
//   storm_subject BOARD ACT SEED
#include "tests/stress/storm/acts.h"

#include <cstdlib>
#include <sys/resource.h>

int main(int count, char** arguments) {
    if (count != 4) return 2;
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    return plumb::storm::be(arguments[1], arguments[2],
                            static_cast<uint32_t>(strtoul(arguments[3], nullptr, 10)));
}
