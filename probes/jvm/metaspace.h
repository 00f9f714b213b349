/*
 * Room for classes that are given to the JVM anew, where that is limited (-XX:MaxMetaspaceSize): it reports what it does not get there
 * as an OutOfMemoryError, by which a program may end (-XX:+ExitOnOutOfMemoryError).
 */
#ifndef PLUMB_PROBES_JVM_METASPACE_H
#define PLUMB_PROBES_JVM_METASPACE_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

struct plumb_metaspace {
    int64_t left; /* at the beginning; INT64_MAX: it is not limited, or not known */
};

bool plumb_metaspace_is_limited(void);
void plumb_metaspace_begin(struct plumb_metaspace* metaspace, JNIEnv* jni);
/* Whether some more classes may be given anew: behind them there has to be room for what the program loads, and for giving all of
 * them back. */
bool plumb_metaspace_has_room(const struct plumb_metaspace* metaspace, JNIEnv* jni);

#endif
