#include "vm_structs.h"

#include "vm_table.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    PENDING_MONITOR,
    OWNER,
    OS_THREAD,
    THREAD_ID,
    STACK_BASE,
    STACK_SIZE,
    ARCHIVE_BASE,
    ARCHIVE_TOP,
    FIELD_COUNT
};

static struct plumb_vm_field vm_fields[FIELD_COUNT] = {
    [PENDING_MONITOR] = {"JavaThread", "_current_pending_monitor", NULL, false, false, 0},
    [OWNER] = {"ObjectMonitor", "_owner", NULL, false, false, 0},
    [OS_THREAD] = {"JavaThread", "_osthread", NULL, false, false, 0},
    [THREAD_ID] = {"OSThread", "_thread_id", NULL, false, false, 0},
    [STACK_BASE] = {"JavaThread", "_stack_base", NULL, false, false, 0},
    [STACK_SIZE] = {"JavaThread", "_stack_size", NULL, false, false, 0},
    [ARCHIVE_BASE] = {"MetaspaceObj", "_shared_metaspace_base", NULL, true, false, 0},
    [ARCHIVE_TOP] = {"MetaspaceObj", "_shared_metaspace_top", NULL, true, false, 0},
};
static bool vm_owner_is_java_thread_id;
static int own_memory = -1;

void plumb_vm_structs_prepare(jvmtiEnv* jvmti) {
    own_memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    plumb_vm_table_read(jvmti, vm_fields, FIELD_COUNT, NULL, 0);
    const char* const kind = vm_fields[OWNER].kind;
    vm_owner_is_java_thread_id = vm_fields[OWNER].found && kind && strcmp(kind, "int64_t") == 0;
}

static bool are_known(int first, int last) {
    for (int i = first; i <= last; i++) {
        if (!vm_fields[i].found) return false;
    }
    return true;
}

static bool read_word(uintptr_t base, int field, void* to, size_t bytes) {
    return pread(own_memory, to, bytes, (off_t)(base + vm_fields[field].at)) == (ssize_t)bytes;
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
    return __atomic_load_n((const uintptr_t*)(base + vm_fields[field].at), __ATOMIC_ACQUIRE);
}

uintptr_t plumb_vm_pending_owner(uintptr_t own_vm_thread) {
    if (own_vm_thread == 0 || !are_known(PENDING_MONITOR, OWNER)) return 0;
    const uintptr_t monitor = load_word(own_vm_thread, PENDING_MONITOR);
    return monitor != 0 ? load_word(monitor, OWNER) : 0;
}

/* Up to JDK 23 a jmethodID is where the address of the JVM's own structure stands. */
bool plumb_vm_is_in_archive(jmethodID method) {
    uintptr_t its_own = 0;
    if (own_memory < 0 || !are_known(ARCHIVE_BASE, ARCHIVE_TOP) ||
        pread(own_memory, &its_own, sizeof(its_own), (off_t)(uintptr_t)method) != (ssize_t)sizeof(its_own))
        return false;
    return its_own >= load_word(0, ARCHIVE_BASE) && its_own < load_word(0, ARCHIVE_TOP);
}

bool plumb_vm_owner_is_java_thread_id(void) {
    return vm_owner_is_java_thread_id;
}
