/*
 * The classes that are loaded, one after the other, so that each may go until it is looked at, and behind that: loaders that come and go all
 * the time need the room.
 *
 *   struct plumb_loaded_classes loaded = plumb_loaded_classes(jni);
 *   for (jclass class; (class = plumb_next_loaded_class(jni, &loaded));)
 *           ... (*jni)->DeleteLocalRef(jni, class) ...    // to the end: then all is given back
 */
#ifndef PLUMB_PROBES_JVM_LOADED_CLASSES_H
#define PLUMB_PROBES_JVM_LOADED_CLASSES_H

#include <jvmti.h>

struct plumb_loaded_classes {
    jweak* all; /* NULL: there is no memory */
    jint count, next;
};

struct plumb_loaded_classes plumb_loaded_classes(JNIEnv* jni);
/* As a local reference; NULL: there is no further one. */
jclass plumb_next_loaded_class(JNIEnv* jni, struct plumb_loaded_classes* loaded);

#endif
