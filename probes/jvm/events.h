/*
 * The events of the JVM agent: what a Java virtual machine does with threads, monitors, memory, classes and code.
 *
 * What always holds, so that a reader can rely on it:
 *  - What begins and ends has the same `id` in both events, in the same thread. It is never 0, and no other such pair
 *    of the process has it (of methods: no other of the thread, and hardly ever one of another thread). An end whose begin was before the event was switched on has id 0 and waited_ns 0.
 *  - A garbage collection is a pause: all Java threads stand still between gc_start and gc_finish.
 *  - `monitor` and `blocker` are numbers that an object has for as long as it lives, and no other object after it. One is made when the
 *    object is first seen in an event of monitors or parks, and another one where nobody had such events on in between.
 *  - Names are UTF-8. Classes are named as Class.getName() does: java.lang.String, [I, [Ljava.lang.String;.
 *    NUL in a name is "?", half of a surrogate pair U+FFFD.
 *
 * Fields that recur:
 *   java_thread_id   what Thread.getId() says by itself (not by a method that overrides it)
 *   os_thread_id     what the kernel calls the thread, as the process itself sees it; 0: not known
 *   owner_*          whose it was at that moment; owner_os_thread_id 0: that could not be found out, or it has just been given up
 *   waited_ns        nanoseconds from the begin to the end
 *   code, code_bytes machine code: where it is, and how much
 */
#ifndef PLUMB_PROBES_JVM_EVENTS_H
#define PLUMB_PROBES_JVM_EVENTS_H

#include <plumb/runtime.h>

/* To those whom plumb_trace_to() is for (recordings.h). */
void plumb_emit_chosen(struct plumb_event* event, const void* payload, uint32_t payload_bytes);
void plumb_emit_large_chosen(struct plumb_event* event, const void* payload, uint32_t payload_bytes, int cut);
#define PLUMB_EMIT_ plumb_emit_chosen
#define PLUMB_EMIT_LARGE_ plumb_emit_large_chosen

#include <plumb/tracepoint.h>

/* In the thread itself, before it runs any of its own code, and behind all of it. */
PLUMB_EVENT(jvm, thread_start, (u64, java_thread_id), (text, name), (text, group), (bool, daemon));
PLUMB_EVENT(jvm, thread_end, (u64, java_thread_id), (text, name));
/* One for each thread that was there already when the event was switched on; in a thread of the agent's. */
PLUMB_EVENT(jvm, thread_running, (u64, java_thread_id), (i32, os_thread_id), (text, name), (text, group),
            (bool, daemon));

/* All Java threads are stopped for a collection; they go on. */
PLUMB_EVENT(jvm, gc_start, (u64, id));
PLUMB_EVENT(jvm, gc_finish, (u64, id));

/* The monitor is another thread's: this one is about to wait for it. */
PLUMB_EVENT(jvm, monitor_contended_enter, (u64, id), (u64, monitor), (text, class_name),
            (i32, owner_os_thread_id), (u64, owner_java_thread_id), (text, owner_name));
/* It has it now. */
PLUMB_EVENT(jvm, monitor_contended_entered, (u64, id), (u64, monitor), (text, class_name), (u64, waited_ns));
/* Object.wait() begins; timeout_ms 0: without a limit ... */
PLUMB_EVENT(jvm, monitor_wait, (u64, id), (u64, monitor), (text, class_name), (i64, timeout_ms));
/* ... and ends, before the monitor is taken again. */
PLUMB_EVENT(jvm, monitor_waited, (u64, id), (u64, monitor), (text, class_name), (u64, waited_ns),
            (bool, timed_out));

/* The thread is about to wait in LockSupport.park(), parkNanos() or parkUntil(), which is where java.util.concurrent waits.
 *   blocker, class_name   the object that it waits for, as LockSupport.getBlocker() tells it; 0 and empty: none
 *   synchronizer          that is an AbstractOwnableSynchronizer: a lock, a semaphore, a latch. Only these have owners, where they are
 *                         held by one thread alone.
 *   timeout_ns            the longest that it will wait; 0: without a limit
 *   until                 it waits until a point of the wall clock, up to which timeout_ns are left: less than 0, it had passed */
PLUMB_EVENT(jvm, park, (u64, id), (u64, blocker), (text, class_name), (bool, synchronizer),
            (i32, owner_os_thread_id), (u64, owner_java_thread_id), (text, owner_name), (i64, timeout_ns),
            (bool, until));
/* It goes on: because it was called, interrupted, the time is over, or for no reason. `timed_out`: the time was over when it did. */
PLUMB_EVENT(jvm, parked, (u64, id), (u64, blocker), (text, class_name), (bool, synchronizer),
            (u64, waited_ns), (bool, timed_out));

/* One of the objects that were allocated, of `bytes` bytes: with a probability of 1 - exp(-bytes / interval_bytes), each if that is 0.
 * It stands for weight_bytes, which is its bytes divided by that probability. */
PLUMB_EVENT(jvm, sampled_object_alloc, (text, class_name), (u64, bytes), (u32, interval_bytes),
            (u64, weight_bytes));

/* A class or interface was loaded and linked so far that code may use it. `loader`: the class of its loader, empty for
 * the boot loader. */
PLUMB_EVENT(jvm, class_prepare, (text, class_name), (text, loader));

/* A method was compiled; this code of it is gone (and something else may be there). When the event is switched on, it comes
 * for all that is compiled already. */
PLUMB_EVENT(jvm, compiled_method_load, (ptr, code), (u32, code_bytes), (text, class_name), (text, method),
            (text, signature));
PLUMB_EVENT(jvm, compiled_method_unload, (ptr, code));
/* Code of the JVM's own that it makes as it runs: the interpreter, stubs, adapters. */
PLUMB_EVENT(jvm, dynamic_code_generated, (ptr, code), (u32, code_bytes), (text, name));

/* An exception was thrown, by Java code or by native code that returns to it. `message` is what the exception holds, not what its
 * getMessage() would say. `line` is 0 where it is not known; `catch_class` is empty where nobody is seen that catches it. */
PLUMB_EVENT(jvm, exception_throw, (text, exception), (text, message), (text, class_name), (text, method),
            (i32, line), (text, catch_class), (text, catch_method));
/* It was caught by a handler in this method (also a `finally`, or the end of `synchronized`). */
PLUMB_EVENT(jvm, exception_catch, (text, exception), (text, class_name), (text, method), (i32, line));

/* A method that was asked for by name (--jvm-methods) begins, behind the wait for its monitor if it is synchronized, a constructor
 * behind its call of this() or super() ... */
PLUMB_EVENT(jvm, method_entry, (u64, id), (text, class_name), (text, method), (text, signature));
/* ... and ends: `exception` is the class of what it threw, or let through; empty where it returned. */
PLUMB_EVENT(jvm, method_exit, (u64, id), (text, class_name), (text, method), (text, signature),
            (u64, duration_ns), (text, exception));
/* What was asked for, and how many methods that is by now, and how many are not told; when the event is switched on, and at the JVM's end. */
PLUMB_EVENT(jvm, method_pattern, (string, pattern), (u32, methods), (u32, left_alone));
/* A method that matches, and is not told; without a name, all of that class. */
PLUMB_EVENT(jvm, method_left_alone, (text, class_name), (text, method), (text, signature), (string, reason));
/* The class was loaded and not linked when its methods were asked for, and the program has linked it since: calls of its methods, for up to
 * `missed_ns` before this, were not told. */
PLUMB_EVENT(jvm, method_calls_missed, (text, class_name), (u64, missed_ns));

/* Events that were wanted and can not be had from this JVM, or not any more now that it runs. */
PLUMB_EVENT_LEVEL(jvm, not_available, PLUMB_WARNING, (string, events), (string, reason));

#endif
