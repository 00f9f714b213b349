#include "loaded_classes.h"

#include "agent.h"

#include <stdlib.h>

struct plumb_loaded_classes plumb_loaded_classes(JNIEnv* jni) {
    enum { more = 16 };
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    struct plumb_loaded_classes loaded = {NULL, 0, 0};
    jint count = 0;
    jclass* classes = NULL;
    if ((*jvmti)->GetLoadedClasses(jvmti, &count, &classes) != JVMTI_ERROR_NONE) return loaded;
    loaded.all = malloc(((size_t)count + 1) * sizeof(*loaded.all));
    if ((*jni)->EnsureLocalCapacity(jni, count + more) != JNI_OK) plumb_threw(jni); /* -Xcheck:jni counts */
    for (jint i = 0; i < count; i++) {
        const jweak weak = loaded.all ? (*jni)->NewWeakGlobalRef(jni, classes[i]) : NULL;
        if (weak)
            loaded.all[loaded.count++] = weak;
        else if (loaded.all)
            plumb_threw(jni);
        (*jni)->DeleteLocalRef(jni, classes[i]);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)classes);
    return loaded;
}

jclass plumb_next_loaded_class(JNIEnv* jni, struct plumb_loaded_classes* loaded) {
    while (loaded->next < loaded->count) {
        const jweak weak = loaded->all[loaded->next++];
        const jclass class = (*jni)->NewLocalRef(jni, weak);
        (*jni)->DeleteWeakGlobalRef(jni, weak);
        if (class) return class;
    }
    free(loaded->all);
    loaded->all = NULL;
    return NULL;
}
