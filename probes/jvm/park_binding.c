/*
 * Whoever waits in java.util.concurrent comes to one native method, Unsafe.park(). It is bound to the agent's function while parks are
 * recorded, and else to the JVM's own: what is compiled already finds the new one, since the JVM makes the stubs anew through which it calls.
 *
 * The JVM tells the address of its own function only when it binds it, which it does once, before a late agent is there. So its
 * registerNatives() is called again, with the one function of JNI by which it binds replaced for that call in this thread: nothing is
 * bound, and the address seen.
 */
#include "agent.h"

#include <string.h>

plumb_park_function plumb_jvm_park;

static jclass any_class, unsafe_class; /* NULL: not known */

static jint JNICALL look_at_natives(JNIEnv* jni, jclass class, const JNINativeMethod* methods, jint count) {
    (void)jni, (void)class;
    for (jint i = 0; i < count; i++) {
        if (strcmp(methods[i].name, "park") == 0 && strcmp(methods[i].signature, "(ZJ)V") == 0)
            plumb_jvm_park = (plumb_park_function)(uintptr_t)methods[i].fnPtr;
    }
    return JNI_OK;
}

/* Through a copy of the functions, of the length that they have in this JVM. */
static void find_jvm_park(JNIEnv* jni, jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    const jmethodID method = (*jni)->GetStaticMethodID(jni, class, "registerNatives", "()V");
    if (plumb_threw(jni) || !method) return;
    jniNativeInterface* functions = NULL;
    if ((*jvmti)->GetJNIFunctionTable(jvmti, &functions) != JVMTI_ERROR_NONE) return;
    const struct JNINativeInterface_* const before = *jni;
    functions->RegisterNatives = look_at_natives;
    *jni = functions;
    (*before).CallStaticVoidMethod(jni, class, method);
    *jni = before;
    plumb_threw(jni);
    (*jvmti)->Deallocate(jvmti, (unsigned char*)functions);
}

static void find_park(JNIEnv* jni, void* unused) {
    (void)unused;
    const jclass class = (*jni)->FindClass(jni, "jdk/internal/misc/Unsafe");
    if (plumb_threw(jni) || !class) return;
    find_jvm_park(jni, class);
    if (plumb_jvm_park) unsafe_class = (*jni)->NewGlobalRef(jni, class);
    (*jni)->DeleteLocalRef(jni, class);
}

struct binding {
    plumb_park_function function;
    bool is_done;
};

static void bind_as_jdk(JNIEnv* jni, void* argument) {
    static char name[] = "park", type[] = "(ZJ)V";
    struct binding* const binding = argument;
    const JNINativeMethod method = {name, type, (void*)(uintptr_t)binding->function};
    binding->is_done = (*jni)->RegisterNatives(jni, unsafe_class, &method, 1) == JNI_OK;
    if (plumb_threw(jni)) binding->is_done = false;
}

bool plumb_bind_park(JNIEnv* jni, plumb_park_function function) {
    struct binding binding = {function, false};
    if (!any_class) return false;
    if (!unsafe_class) plumb_do_as_jdk(jni, any_class, find_park, NULL);
    return unsafe_class && plumb_do_as_jdk(jni, any_class, bind_as_jdk, &binding) && binding.is_done;
}

void plumb_park_binding_prepare(JNIEnv* jni, jclass thread_class) {
    any_class = (*jni)->NewGlobalRef(jni, thread_class);
}
