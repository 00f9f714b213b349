/*
 * Call stacks through Java: frames of the interpreter, of compiled code with what is inlined into it, and of the JVM's own stubs between
 * them and native code.
 */
#ifndef PLUMB_PROBES_JVM_JAVA_FRAMES_H
#define PLUMB_PROBES_JVM_JAVA_FRAMES_H

#include <jvmti.h>

/* Once, when Java runs. Where the JVM's structures are not those that are known, stacks end at its code. */
void plumb_java_frames_prepare(jvmtiEnv* jvmti);

#endif
