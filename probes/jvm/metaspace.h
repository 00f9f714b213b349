/*
 * Room for classes that are given to the JVM anew, where that is limited (-XX:MaxMetaspaceSize): it reports what it does not get there
 * as an OutOfMemoryError, by which a program may end (-XX:+ExitOnOutOfMemoryError).
 */
#ifndef PLUMB_PROBES_JVM_METASPACE_H
#define PLUMB_PROBES_JVM_METASPACE_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

#define PLUMB_METASPACE_IS_SHORT \
    "the JVM's room for classes is limited, and what is left of it is the program's"

/* -XX:MaxMetaspaceSize; and -XX:CompressedClassSpaceSize, which is a part of it. */
enum { PLUMB_ALL_METADATA, PLUMB_CLASS_SPACE, PLUMB_METASPACES };

struct plumb_metaspace {
    int64_t left
        [PLUMB_METASPACES]; /* bytes, as far as they may be taken; INT64_MAX: it is not limited, or not known */
};

bool plumb_metaspace_is_limited(void);
/* Behind what is taken there has to be room for what the program loads, and for giving all that was changed back. */
void plumb_metaspace_begin(struct plumb_metaspace* metaspace, JNIEnv* jni);
/* False: there is not enough to give this class anew. */
bool plumb_metaspace_take(struct plumb_metaspace* metaspace, JNIEnv* jni, jclass class);
/* False: there is not enough by now to give it back. What the program has loaded with hooks was taken of nobody, and the program may have
 * loaded more than what was left to it. */
bool plumb_metaspace_take_to_end(struct plumb_metaspace* metaspace, JNIEnv* jni, jclass class);
/* For a class that the program loads, so much longer than its file; since the last plumb_metaspace_begin(). */
bool plumb_metaspace_take_for_hooks(int64_t file_bytes);

#endif
