/*
 * Which of the classes that are loaded were given to the JVM with hooks, and which have to wait for it: those that the program has not linked
 * yet. To change them would link them, and run the program's own loaders in our thread, at another time than it has them run. So they
 * are changed when they are linked; soon behind that, and not by the thread that links them: what other agents have to say to the change
 * would run there, with the class locked.
 */
#ifndef PLUMB_PROBES_JVM_CLASS_MARKS_H
#define PLUMB_PROBES_JVM_CLASS_MARKS_H

#include <jvmti.h>

#include <stdbool.h>
#include <stdint.h>

/* LATE: it had to wait, is linked and being changed, and what was called meanwhile is yet to be told. */
enum plumb_class_mark { PLUMB_CLASS_UNSEEN, PLUMB_CLASS_CHANGED, PLUMB_CLASS_WAITS, PLUMB_CLASS_LATE };

/* For who follows. False: there are no marks. */
bool plumb_class_marks_begin(void);
void plumb_class_marks_end(void);

/* For a wish, by its generation; what was noted for another one is not there. */
void plumb_mark_class(jclass class, uint32_t generation, enum plumb_class_mark mark);
/* Beside its mark: it was loaded before what is loaded was given this wish's hooks, so it has none of them, whatever its loader tries to
 * define by its name. */
void plumb_mark_class_as_there(jclass class, uint32_t generation);
bool plumb_class_was_there(jclass class, uint32_t generation);
enum plumb_class_mark plumb_mark_of_class(jclass class, uint32_t generation);

/* As changed, and it was not: it has no hooks to be given back. */
void plumb_mark_class_left_off(jclass class, uint32_t generation);
bool plumb_class_is_left_off(jclass class, uint32_t generation);

/* The same for whatever wish. */
enum plumb_class_mark plumb_last_mark_of_class(jclass class);

bool plumb_class_is_linked(jclass class);

/* When classes that waited were linked since this was taken, the first of them (monotonic clock); 0: none. Who follows is woken then. */
uint64_t plumb_first_class_linked_ns(void);
uint64_t plumb_take_first_class_linked_ns(void);

#endif
