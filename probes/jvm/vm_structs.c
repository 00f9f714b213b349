#include "vm_structs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct entry_layout {
    uint64_t type_name, field_name, type_string, is_static, offset, stride;
};

struct wanted_field {
    const char* type;
    const char* field;
    uint64_t offset;
    bool found;
};

enum { PENDING_MONITOR, OWNER, OS_THREAD, THREAD_ID, STACK_BASE, STACK_SIZE, FIELD_COUNT };

/* OSThread is a field of JavaThread or of Thread, which it derives from. */
static struct wanted_field vm_fields[FIELD_COUNT] = {
    [PENDING_MONITOR] = {"JavaThread", "_current_pending_monitor", 0, false},
    [OWNER] = {"ObjectMonitor", "_owner", 0, false},
    [OS_THREAD] = {"JavaThread", "_osthread", 0, false},
    [THREAD_ID] = {"OSThread", "_thread_id", 0, false},
    [STACK_BASE] = {"JavaThread", "_stack_base", 0, false},
    [STACK_SIZE] = {"JavaThread", "_stack_size", 0, false},
};
static bool vm_owner_is_java_thread_id;
static int own_memory = -1;

static bool read_symbol(void* library, const char* name, uint64_t* value) {
    const void* const symbol = dlsym(library, name);
    if (symbol) memcpy(value, symbol, sizeof(*value));
    return symbol != NULL;
}

static bool read_layout(void* library, struct entry_layout* layout) {
    return read_symbol(library, "gHotSpotVMStructEntryTypeNameOffset", &layout->type_name) &&
           read_symbol(library, "gHotSpotVMStructEntryFieldNameOffset", &layout->field_name) &&
           read_symbol(library, "gHotSpotVMStructEntryTypeStringOffset", &layout->type_string) &&
           read_symbol(library, "gHotSpotVMStructEntryIsStaticOffset", &layout->is_static) &&
           read_symbol(library, "gHotSpotVMStructEntryOffsetOffset", &layout->offset) &&
           read_symbol(library, "gHotSpotVMStructEntryArrayStride", &layout->stride);
}

static const char* text_at(const char* entry, uint64_t offset) {
    const char* text;
    memcpy(&text, entry + offset, sizeof(text));
    return text;
}

static bool is_type(const char* type, const char* wanted) {
    return strcmp(type, wanted) == 0 || (strcmp(wanted, "JavaThread") == 0 && strcmp(type, "Thread") == 0);
}

static void read_entry(const char* entry, const struct entry_layout* layout) {
    const char* const type = text_at(entry, layout->type_name);
    const char* const field = text_at(entry, layout->field_name);
    int32_t is_static;
    memcpy(&is_static, entry + layout->is_static, sizeof(is_static));
    if (!field || is_static) return;
    for (int i = 0; i < FIELD_COUNT; i++) {
        struct wanted_field* const wanted = &vm_fields[i];
        if (wanted->found || strcmp(field, wanted->field) != 0 || !is_type(type, wanted->type)) continue;
        memcpy(&wanted->offset, entry + layout->offset, sizeof(wanted->offset));
        wanted->found = true;
        const char* const kind = text_at(entry, layout->type_string);
        if (i == OWNER && kind && strcmp(kind, "int64_t") == 0) vm_owner_is_java_thread_id = true;
    }
}

/* The library that JVMTI's functions are in. */
static void* open_vm_library(jvmtiEnv* jvmti) {
    void* function;
    memcpy(&function, &(*jvmti)->GetVersionNumber, sizeof(function));
    Dl_info info;
    if (dladdr(function, &info) == 0 || !info.dli_fname) return NULL;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void plumb_vm_structs_prepare(jvmtiEnv* jvmti) {
    void* const library = open_vm_library(jvmti);
    struct entry_layout layout;
    uint64_t table = 0;
    own_memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (!library) return;
    if (read_layout(library, &layout) && layout.stride != 0 &&
        read_symbol(library, "gHotSpotVMStructs", &table) && table != 0) {
        for (const char* entry = (const char*)table; text_at(entry, layout.type_name); entry += layout.stride)
            read_entry(entry, &layout);
    }
    dlclose(library);
}

static bool are_known(int first, int last) {
    for (int i = first; i <= last; i++) {
        if (!vm_fields[i].found) return false;
    }
    return true;
}

static bool read_word(uintptr_t base, int field, void* to, size_t bytes) {
    return pread(own_memory, to, bytes, (off_t)(base + vm_fields[field].offset)) == (ssize_t)bytes;
}

bool plumb_vm_thread_read(uintptr_t vm_thread, struct plumb_vm_thread* thread) {
    uintptr_t os_thread, stack_base, stack_size;
    *thread = (struct plumb_vm_thread){0, 0, 0};
    if (vm_thread == 0 || own_memory < 0 || !are_known(OS_THREAD, STACK_SIZE)) return false;
    if (!read_word(vm_thread, OS_THREAD, &os_thread, sizeof(os_thread)) || os_thread == 0 ||
        !read_word(os_thread, THREAD_ID, &thread->os_thread_id, sizeof(thread->os_thread_id)) ||
        !read_word(vm_thread, STACK_BASE, &stack_base, sizeof(stack_base)) ||
        !read_word(vm_thread, STACK_SIZE, &stack_size, sizeof(stack_size)) || stack_size > stack_base)
        return false;
    thread->stack_low = stack_base - stack_size;
    thread->stack_high = stack_base;
    return true;
}

static uintptr_t load_word(uintptr_t base, int field) {
    return __atomic_load_n((const uintptr_t*)(base + vm_fields[field].offset), __ATOMIC_ACQUIRE);
}

uintptr_t plumb_vm_pending_owner(uintptr_t own_vm_thread) {
    if (own_vm_thread == 0 || !are_known(PENDING_MONITOR, OWNER)) return 0;
    const uintptr_t monitor = load_word(own_vm_thread, PENDING_MONITOR);
    return monitor != 0 ? load_word(monitor, OWNER) : 0;
}

bool plumb_vm_owner_is_java_thread_id(void) {
    return vm_owner_is_java_thread_id;
}
