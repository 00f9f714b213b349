/*
 * The table of its own data structures that HotSpot's library exports for tools that look at it from outside (its serviceability
 * agent): where fields are, how large structures.
 */
#ifndef PLUMB_PROBES_JVM_VM_TABLE_H
#define PLUMB_PROBES_JVM_VM_TABLE_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

struct plumb_vm_field {
    const char* type;
    const char* field;
    const char*
        kind; /* the field's type as the table has it; NULL in what is asked: any. Afterwards that of the table */
    bool is_static;
    bool found;
    uint64_t at; /* offset in its structure; of a static one, its address */
};

struct plumb_vm_type {
    const char* type;
    uint64_t bytes;
    bool found;
};

/* What the table misses, or has as another type of field, is not found. A field of JavaThread may be one of Thread, from which that is
 * derived. */
void plumb_vm_table_read(jvmtiEnv* jvmti, struct plumb_vm_field* fields, int field_count,
                         struct plumb_vm_type* types, int type_count);

#endif
