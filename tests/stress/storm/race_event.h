// An event whose strings change while they are traced: nobody counts it.
#pragma once

#include <plumb/tracepoint.h>

PLUMB_EVENT(storm, race, (string, view), (string, pointer))
