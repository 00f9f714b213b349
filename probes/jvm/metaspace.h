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
/* What it takes at most to give a class anew. */
int64_t plumb_metaspace_for(jclass class);
/* Whether so much more may be taken: behind it there has to be room for what the program loads, and for giving all that was changed
 * back. */
bool plumb_metaspace_has_room(const struct plumb_metaspace* metaspace, JNIEnv* jni, int64_t bytes);

#endif
