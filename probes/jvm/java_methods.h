/*
 * What a method of Java is called, and which of its lines an instruction belongs to, out of HotSpot's own data structures: for call stacks,
 * which are taken where nothing can be asked of the JVM.
 */
#ifndef PLUMB_PROBES_JVM_JAVA_METHODS_H
#define PLUMB_PROBES_JVM_JAVA_METHODS_H

#include <plumb/made_code.h>

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

/* False: this JVM's are not known. */
bool plumb_java_methods_prepare(jvmtiEnv* jvmti);

/* A word that is to be the JVM's structure of a method is one, as far as the kernel and what it points to say. Then that stays as
 * long as the thread is in the method. */
bool plumb_is_java_method(struct plumb_stack_walk* walk, uintptr_t word);

bool plumb_java_method_is_native(uintptr_t method);

/* Of an address in its byte code; -1: it is none. */
int32_t plumb_java_index_of(uintptr_t method, uintptr_t byte_code);

/* Puts its frame, as "package.Class.method". `index`: of the byte code; -1: where the method begins. */
void plumb_put_java_method(struct plumb_stack_walk* walk, uintptr_t method, int32_t index);
void plumb_put_native_java_method(struct plumb_stack_walk* walk, uintptr_t method);

/* HotSpot's compressed numbers (UNSIGNED5, as until JDK 19). What lies behind `end` is 0. */
struct plumb_packed_numbers {
    const uint8_t *at, *end;
};
uint32_t plumb_next_packed(struct plumb_packed_numbers* numbers);

#endif
