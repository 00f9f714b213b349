/*
 * Work that the JVM takes for the JDK's own. HotSpot prints a warning, on the program's standard output, where a native method of the
 * JDK is given another function, unless the code that does it was called by a class of the JDK. And what is looked for from there comes
 * from the boot loader, without a line of the program's (which its own system class loader would be).
 *
 * So Class.forName() is asked for int[], which is always there, with a copy of JNI's functions in this thread: its native half asks
 * for the length of the name, and comes here. Another class of our own would do as well, but the JVM gives each class that it links an
 * identity hash code, of a row that the thread has; and what the program's first hash code is, it may see.
 */
#include "agent.h"

struct jdk_work {
    void (*run)(JNIEnv* jni, void* argument);
    void* argument;
    const struct JNINativeInterface_* functions; /* the JVM's */
};
static __thread struct jdk_work* open_work; /* NULL: none, or it was done */

/* ExceptionCheck() makes what Thread.stop() has for this thread its pending exception. */
bool plumb_threw(JNIEnv* jni) {
    if (!(*jni)->ExceptionCheck(jni)) return false;
    (*jni)->ExceptionClear(jni);
    return true;
}

static void do_work(JNIEnv* jni) {
    struct jdk_work* const work = open_work;
    if (!work) return;
    open_work = NULL;
    *jni = work->functions;
    work->run(jni, work->argument);
}

static jsize JNICALL name_utf_length(JNIEnv* jni, jstring text) {
    do_work(jni);
    return (*jni)->GetStringUTFLength(jni, text);
}

static jsize JNICALL name_length(JNIEnv* jni, jstring text) {
    do_work(jni);
    return (*jni)->GetStringLength(jni, text);
}

static void call_with(JNIEnv* jni, jniNativeInterface* functions, jclass class, jmethodID method,
                      jstring name, struct jdk_work* work) {
    functions->GetStringUTFLength = name_utf_length;
    functions->GetStringLength = name_length;
    work->functions = *jni;
    open_work = work;
    *jni = functions;
    const jobject found =
        (*work->functions).CallStaticObjectMethod(jni, class, method, name, JNI_FALSE, NULL);
    *jni = work->functions;
    if (!plumb_threw(jni) && found) (*jni)->DeleteLocalRef(jni, found);
}

bool plumb_do_as_jdk(JNIEnv* jni, jclass any_class, void (*run)(JNIEnv*, void*), void* argument) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    struct jdk_work work = {run, argument, NULL};
    jniNativeInterface* functions = NULL;
    const jclass class = (*jni)->GetObjectClass(jni, any_class); /* java.lang.Class */
    const jmethodID method = (*jni)->GetStaticMethodID(
        jni, class, "forName", "(Ljava/lang/String;ZLjava/lang/ClassLoader;)Ljava/lang/Class;");
    const jstring name = plumb_threw(jni) ? NULL : (*jni)->NewStringUTF(jni, "[I");
    if (!plumb_threw(jni) && name && (*jvmti)->GetJNIFunctionTable(jvmti, &functions) == JVMTI_ERROR_NONE) {
        call_with(jni, functions, class, method, name, &work);
        (*jvmti)->Deallocate(jvmti, (unsigned char*)functions);
    }
    const bool is_done = functions && !open_work;
    open_work = NULL;
    if (name) (*jni)->DeleteLocalRef(jni, name);
    (*jni)->DeleteLocalRef(jni, class);
    return is_done;
}
