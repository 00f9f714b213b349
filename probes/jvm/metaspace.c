#include "metaspace.h"

#include "agent.h"
#include "vm_table.h"

#include <string.h>

/* What the program may load meanwhile, of the limit and at least; and what hooks of classes that it loads may take, of the limit. */
enum { reserve_min_bytes = 1 << 20, reserve_part = 4, hooks_part = 16 };
/*
 * Class metadata, by the size of a class's constants and code as the JVM tells it: of a class that is there, and of one that is given anew.
 * Measured on OpenJDK 17, over the JDK's own classes: 1.1 times, and 1.3; HotSpot has the new class beside the old one, and merges
 * their constants.
 */
enum { percent_loaded = 150, percent_anew = 200, bytes_of_method = 256 };

static int64_t hooks_left;

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

bool plumb_metaspace_is_limited(void) {
    return limit_of_metaspace() != INT64_MAX;
}

static int64_t code_bytes_of(jclass class) {
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

static int64_t size_of(jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0, bytes = 0;
    unsigned char* constants = NULL;
    if ((*jvmti)->GetConstantPool(jvmti, class, &count, &bytes, &constants) == JVMTI_ERROR_NONE)
        (*jvmti)->Deallocate(jvmti, constants);
    return bytes + code_bytes_of(class);
}

/* What is known to the JVM alone, and told by code in Java, which would need some itself. */
static int64_t estimate_of_loaded(JNIEnv* jni) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jclass* classes = NULL;
    int64_t bytes = 0;
    if ((*jvmti)->GetLoadedClasses(jvmti, &count, &classes) != JVMTI_ERROR_NONE) return 0;
    (*jni)->EnsureLocalCapacity(jni, count);
    plumb_threw(jni);
    for (jint i = 0; i < count; i++) {
        bytes += size_of(classes[i]) * percent_loaded / 100;
        (*jni)->DeleteLocalRef(jni, classes[i]);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)classes);
    return bytes;
}

void plumb_metaspace_begin(struct plumb_metaspace* metaspace, JNIEnv* jni) {
    const int64_t limit = limit_of_metaspace(), part = limit / reserve_part;
    metaspace->left = INT64_MAX;
    if (limit == INT64_MAX) return;
    metaspace->left = limit - estimate_of_loaded(jni) - (part > reserve_min_bytes ? part : reserve_min_bytes);
    __atomic_store_n(&hooks_left, limit / hooks_part, __ATOMIC_RELAXED);
}

bool plumb_metaspace_take(struct plumb_metaspace* metaspace, jclass class) {
    if (metaspace->left == INT64_MAX) return true;
    const int64_t bytes = 2 * size_of(class) * percent_anew / 100; /* and as much to give it back */
    if (metaspace->left < bytes) return false;
    metaspace->left -= bytes;
    return true;
}

bool plumb_metaspace_take_for_hooks(int64_t file_bytes) {
    return !plumb_metaspace_is_limited() ||
           __atomic_sub_fetch(&hooks_left, file_bytes * percent_anew / 100, __ATOMIC_RELAXED) >= 0;
}
