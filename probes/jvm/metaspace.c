#include "metaspace.h"

#include "agent.h"
#include "loaded_classes.h"
#include "vm_structs.h"
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

/* `unlimited`: what the flag is, at least, where nobody has set it. */
static int64_t limit_by(const char* flag, uint64_t unlimited) {
    const uint64_t value = read_flag(flag);
    return value == 0 || value >= unlimited ? INT64_MAX : (int64_t)value;
}

static int64_t limits[PLUMB_METASPACES]; /* 0: they were not looked for yet */

static const int64_t* limits_of_metaspace(void) {
    if (limits[PLUMB_ALL_METADATA] == 0) {
        limits[PLUMB_CLASS_SPACE] = limit_by("CompressedClassSpaceSize", UINT64_C(1) << 30);
        limits[PLUMB_ALL_METADATA] = limit_by("MaxMetaspaceSize", UINT64_C(1) << 46);
    }
    return limits;
}

bool plumb_metaspace_is_limited(void) {
    const int64_t* const limit = limits_of_metaspace();
    return limit[PLUMB_ALL_METADATA] != INT64_MAX || limit[PLUMB_CLASS_SPACE] != INT64_MAX;
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

static jint method_count_of(jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jmethodID* methods = NULL;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) != JVMTI_ERROR_NONE) return 0;
    (*jvmti)->Deallocate(jvmti, (unsigned char*)methods);
    return count;
}

/* With its table of virtual methods, in which those of the classes above it are. */
static int64_t class_space_of(JNIEnv* jni, jclass class) {
    enum { without_methods = 1024, depth_max = 100 };
    int64_t bytes = without_methods + (int64_t)sizeof(void*) * method_count_of(class);
    jclass above = (*jni)->GetSuperclass(jni, class);
    for (int depth = 0; above && depth < depth_max; depth++) {
        bytes += (int64_t)sizeof(void*) * method_count_of(above);
        const jclass next = (*jni)->GetSuperclass(jni, above);
        (*jni)->DeleteLocalRef(jni, above);
        above = next;
    }
    if (above) (*jni)->DeleteLocalRef(jni, above);
    return bytes;
}

static void add_sizes(const struct plumb_metaspace* limited, JNIEnv* jni, jclass class, int percent,
                      int64_t* sizes) {
    if (limited->left[PLUMB_ALL_METADATA] != INT64_MAX)
        sizes[PLUMB_ALL_METADATA] += size_of(class) * percent / 100;
    if (limited->left[PLUMB_CLASS_SPACE] != INT64_MAX) sizes[PLUMB_CLASS_SPACE] += class_space_of(jni, class);
}

/* In what the JVM has mapped of its class data archive, and not in the metaspace. */
static bool is_in_archive(jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jmethodID* methods = NULL;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) != JVMTI_ERROR_NONE) return false;
    const bool is_in = count != 0 && plumb_vm_is_in_archive(methods[0]);
    (*jvmti)->Deallocate(jvmti, (unsigned char*)methods);
    return is_in;
}

/* What is known to the JVM alone, and told by code in Java, which would need some itself. */
static void estimate_loaded(const struct plumb_metaspace* limited, JNIEnv* jni, int64_t* sizes) {
    struct plumb_loaded_classes loaded = plumb_loaded_classes(jni);
    for (jclass class; (class = plumb_next_loaded_class(jni, &loaded));) {
        if (!is_in_archive(class)) add_sizes(limited, jni, class, percent_loaded, sizes);
        (*jni)->DeleteLocalRef(jni, class);
    }
}

void plumb_metaspace_begin(struct plumb_metaspace* metaspace, JNIEnv* jni) {
    const int64_t* const limit = limits_of_metaspace();
    int64_t loaded[PLUMB_METASPACES] = {0, 0};
    memcpy(metaspace->left, limit, sizeof(metaspace->left));
    if (!plumb_metaspace_is_limited()) return;
    estimate_loaded(metaspace, jni, loaded);
    for (int i = 0; i < PLUMB_METASPACES; i++) {
        const int64_t part = limit[i] / reserve_part;
        if (limit[i] != INT64_MAX)
            metaspace->left[i] -= loaded[i] + (part > reserve_min_bytes ? part : reserve_min_bytes);
    }
    __atomic_store_n(&hooks_left, limit[PLUMB_ALL_METADATA] / hooks_part, __ATOMIC_RELAXED);
}

static bool take_times(struct plumb_metaspace* metaspace, JNIEnv* jni, jclass class, int times) {
    int64_t sizes[PLUMB_METASPACES] = {0, 0};
    if (!plumb_metaspace_is_limited()) return true;
    add_sizes(metaspace, jni, class, percent_anew, sizes);
    for (int i = 0; i < PLUMB_METASPACES; i++)
        if (metaspace->left[i] < times * sizes[i]) return false;
    for (int i = 0; i < PLUMB_METASPACES; i++)
        if (metaspace->left[i] != INT64_MAX) metaspace->left[i] -= times * sizes[i];
    return true;
}

bool plumb_metaspace_take(struct plumb_metaspace* metaspace, JNIEnv* jni, jclass class) {
    return take_times(metaspace, jni, class, 2); /* and as much to give it back */
}

bool plumb_metaspace_take_to_end(struct plumb_metaspace* metaspace, JNIEnv* jni, jclass class) {
    return take_times(metaspace, jni, class, 1);
}

bool plumb_metaspace_take_for_hooks(int64_t file_bytes) {
    return limits_of_metaspace()[PLUMB_ALL_METADATA] == INT64_MAX ||
           __atomic_sub_fetch(&hooks_left, file_bytes * percent_anew / 100, __ATOMIC_RELAXED) >= 0;
}
