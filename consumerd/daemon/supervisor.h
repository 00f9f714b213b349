/*
 * The supervisor: the process of plumb-consumerd that everybody talks to. It knows which sessions there are (by their descriptions),
 * keeps a worker running for each, and passes on what is asked of one. It holds nothing else: killed, it is started again, and
 * finds the workers that went on.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_SUPERVISOR_H
#define PLUMB_CONSUMERD_DAEMON_SUPERVISOR_H

#include "base/result.h"

namespace plumb {

/* Until there is no session, and nobody has asked for some time; or a signal says so. */
Status run_supervisor();

} // namespace plumb

#endif
