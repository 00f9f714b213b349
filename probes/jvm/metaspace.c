#include "metaspace.h"

#include "agent.h"
#include "vm_table.h"

#include <string.h>

/* What the program may load meanwhile. */
enum { reserve_min_bytes = 1 << 20, reserve_part = 4 };

/* Of HotSpot's table of flags; 0: it is not found. */
static uint64_t read_flag(const char* name) {
    enum { flags, flag_count, name_offset, address_offset, field_count };
    struct plumb_vm_field fields[field_count] = {
        [flags] = {"JVMFlag", "flags", "JVMFlag*", true, false, 0},
        [flag_count] = {"JVMFlag", "numFlags", "size_t", true, false, 0},
        [name_offset] = {"JVMFlag", "_name", "const char*", false, false, 0},
        [address_offset] = {"JVMFlag", "_addr", NULL, false, false, 0}};
    struct plumb_vm_type type = {"JVMFlag", 0, false};
    plumb_vm_table_read(plumb_jvm.jvmti, fields, field_count, &type, 1);
    for (int i = 0; i < field_count; i++)
        if (!fields[i].found) return 0;
    if (!type.found || type.bytes == 0) return 0;
    const char* flag;
    size_t count;
    memcpy(&flag, (const void*)(uintptr_t)fields[flags].at, sizeof(flag));
    memcpy(&count, (const void*)(uintptr_t)fields[flag_count].at, sizeof(count));
    for (size_t i = 0; flag && i < count; i++, flag += type.bytes) {
        const char* its_name;
        const uint64_t* value;
        memcpy(&its_name, flag + fields[name_offset].at, sizeof(its_name));
        memcpy(&value, flag + fields[address_offset].at, sizeof(value));
        if (its_name && value && strcmp(its_name, name) == 0) return *value;
    }
    return 0;
}

static int64_t limit_of_metaspace(void) {
    static int64_t limit; /* 0: it was not looked for yet */
    if (limit == 0) {
        const uint64_t flag = read_flag("MaxMetaspaceSize");
        limit = flag == 0 || flag >= UINT64_C(1) << 46 ? INT64_MAX : (int64_t)flag;
    }
    return limit;
}

/* A method without arguments, of an object or, where `class` is one, of a class; NULL, and nothing pending, if it could not be called. */
static jobject call(JNIEnv* jni, jobject object, const char* class_name, const char* name,
                    const char* signature) {
    const jclass class = (*jni)->FindClass(jni, class_name);
    if (plumb_threw(jni) || !class) return NULL;
    const jmethodID method = object ? (*jni)->GetMethodID(jni, class, name, signature)
                                    : (*jni)->GetStaticMethodID(jni, class, name, signature);
    if (plumb_threw(jni) || !method) return NULL;
    const jobject result = object ? (*jni)->CallObjectMethod(jni, object, method)
                                  : (*jni)->CallStaticObjectMethod(jni, class, method);
    return plumb_threw(jni) ? NULL : result;
}

static int64_t number_of(JNIEnv* jni, jobject usage, const char* name) {
    const jclass class = (*jni)->GetObjectClass(jni, usage);
    const jmethodID method = (*jni)->GetMethodID(jni, class, name, "()J");
    if (plumb_threw(jni) || !method) return -1;
    const int64_t number = (*jni)->CallLongMethod(jni, usage, method);
    return plumb_threw(jni) ? -1 : number;
}

static bool is_called_metaspace(JNIEnv* jni, jstring name) {
    const char* const text = (*jni)->GetStringUTFChars(jni, name, NULL);
    const bool is = text && strcmp(text, "Metaspace") == 0;
    if (text) (*jni)->ReleaseStringUTFChars(jni, name, text);
    return is;
}

/* -1: this JVM does not tell. */
static int64_t committed_of(JNIEnv* jni, jobject pool) {
    static const char pool_class[] = "java/lang/management/MemoryPoolMXBean";
    const jstring name = call(jni, pool, pool_class, "getName", "()Ljava/lang/String;");
    if (!name || !is_called_metaspace(jni, name)) return -1;
    const jobject usage = call(jni, pool, pool_class, "getUsage", "()Ljava/lang/management/MemoryUsage;");
    return usage ? number_of(jni, usage, "getCommitted") : -1;
}

static int64_t committed_metaspace(JNIEnv* jni) {
    const jobject pools = call(jni, NULL, "java/lang/management/ManagementFactory", "getMemoryPoolMXBeans",
                               "()Ljava/util/List;");
    const jobjectArray all =
        pools ? call(jni, pools, "java/util/List", "toArray", "()[Ljava/lang/Object;") : NULL;
    const jsize count = all ? (*jni)->GetArrayLength(jni, all) : 0;
    int64_t committed = -1;
    for (jsize i = 0; i < count && committed < 0; i++) {
        const jobject pool = (*jni)->GetObjectArrayElement(jni, all, i);
        if (pool) committed = committed_of(jni, pool);
    }
    return committed;
}

bool plumb_metaspace_is_limited(void) {
    return limit_of_metaspace() != INT64_MAX;
}

static int64_t left(JNIEnv* jni) {
    enum { references = 64 };
    const int64_t limit = limit_of_metaspace();
    if (limit == INT64_MAX || (*jni)->PushLocalFrame(jni, references) != 0) {
        plumb_threw(jni);
        return INT64_MAX;
    }
    const int64_t committed = committed_metaspace(jni);
    (*jni)->PopLocalFrame(jni, NULL);
    return committed < 0 ? INT64_MAX : limit - committed;
}

void plumb_metaspace_begin(struct plumb_metaspace* metaspace, JNIEnv* jni) {
    metaspace->left = left(jni);
}

static int64_t code_bytes_of(jclass class) {
    enum { bytes_of_method = 256 };
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jmethodID* methods = NULL;
    int64_t bytes = 0;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) != JVMTI_ERROR_NONE) return 0;
    for (jint i = 0; i < count; i++) {
        jlocation first = 0, last = -1;
        (*jvmti)->GetMethodLocation(jvmti, methods[i], &first, &last);
        bytes += bytes_of_method + last + 1;
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)methods);
    return bytes;
}

/* HotSpot has the new class beside the old one meanwhile, and merges their constants. */
int64_t plumb_metaspace_for(jclass class) {
    enum { times = 6 };
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0, bytes = 0;
    unsigned char* constants = NULL;
    if ((*jvmti)->GetConstantPool(jvmti, class, &count, &bytes, &constants) == JVMTI_ERROR_NONE)
        (*jvmti)->Deallocate(jvmti, constants);
    return times * (bytes + code_bytes_of(class));
}

bool plumb_metaspace_has_room(const struct plumb_metaspace* metaspace, JNIEnv* jni, int64_t bytes) {
    const int64_t now = left(jni), part = limit_of_metaspace() / reserve_part;
    const int64_t reserve = part > reserve_min_bytes ? part : reserve_min_bytes;
    const int64_t taken = metaspace->left > now ? metaspace->left - now : 0;
    return now == INT64_MAX || now >= reserve + taken + 2 * bytes;
}
