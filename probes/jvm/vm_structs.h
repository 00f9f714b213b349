/*
 * What JVMTI does not tell without stopping all threads: which thread a monitor belongs to, and what the kernel calls a thread.
 * It is read where HotSpot's own tools look (vm_table.h). Where the table misses a field, nothing is known.
 *
 * Nothing is read in a way that could fault. A structure of another thread's is read through /proc/self/mem, and what was read is
 * believed only if that thread was there before and after.
 */
#ifndef PLUMB_PROBES_JVM_VM_STRUCTS_H
#define PLUMB_PROBES_JVM_VM_STRUCTS_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

/* Before the others; once. */
void plumb_vm_structs_prepare(jvmtiEnv* jvmti);

struct plumb_vm_thread {
    int32_t os_thread_id;
    uintptr_t stack_low, stack_high;
};
/* `vm_thread`: the JVM's own structure, of which Thread.eetop is the address. */
bool plumb_vm_thread_read(uintptr_t vm_thread, struct plumb_vm_thread* thread);

/* The word that says who owns the monitor for which this thread is about to wait; 0: nobody, or it is not known. Within
 * MonitorContendedEnter only, where the JVM keeps thread and monitor. It is the JVM's structure of a thread, or an
 * address in its stack. */
uintptr_t plumb_vm_pending_owner(uintptr_t own_vm_thread);

/* That word is the owner's Thread.getId() instead (JDK 24 and newer). */
bool plumb_vm_owner_is_java_thread_id(void);
/* Whether a method is of a class that the JVM has from its class data archive. False: or it is not known. */
bool plumb_vm_is_in_archive(jmethodID method);

#endif
