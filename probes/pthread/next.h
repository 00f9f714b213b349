/*
 * The next definition of a function in the order in which objects were loaded, behind the one that this is linked into: what
 * dlsym(RTLD_NEXT) finds, and dlvsym(RTLD_NEXT) where a version is given, found without them. They forget an error
 * that the program has not asked dlerror() for yet, allocate where there is nothing to find, and may be the program's own.
 *
 * NULL: there is none. From the first constructor on, while nobody unloads an object: no lock, no system call, no
 * allocation.
 */
#ifndef PLUMB_PROBES_PTHREAD_NEXT_H
#define PLUMB_PROBES_PTHREAD_NEXT_H

__attribute__((visibility("hidden"))) void* plumb_find_next(const char* name, const char* version);

#endif
