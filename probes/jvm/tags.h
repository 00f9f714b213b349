/*
 * Tags of objects (JVMTI), in an environment of its own. The JVM's collector goes through all tags, for as long as their objects live; with
 * the environment they go. A thread may be inside, and even stand still there, when nobody needs them any more.
 */
#ifndef PLUMB_PROBES_JVM_TAGS_H
#define PLUMB_PROBES_JVM_TAGS_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

/* All zero to begin with. */
struct plumb_tags {
    jvmtiEnv* open;   /* NULL: none may be asked */
    jvmtiEnv* kept;   /* the same, or one that could not be given back yet; of who begins and ends */
    uint32_t threads; /* that may have seen `open` */
};

/* By one thread at a time. False: there are none. */
bool plumb_tags_begin(struct plumb_tags* tags);
/* With a thread inside that does not come out, it is kept until the next time. */
void plumb_tags_end(struct plumb_tags* tags);

/* By any thread. NULL: there are none. Either way to be left. */
jvmtiEnv* plumb_tags_enter(struct plumb_tags* tags);
void plumb_tags_leave(struct plumb_tags* tags);

#endif
