/* What the parts of module_calls have in common. */
#ifndef PLUMB_TESTS_MODULE_CALLS_H
#define PLUMB_TESTS_MODULE_CALLS_H

#include <plumb/abi/module.h>

#include <stddef.h>
#include <stdint.h>

/* Says what is not so, and counts it. Of one thread at a time. */
void expect(int is_so, const char* way, const char* what);

/* A request that is wrong in one word, and what is said of it. */
struct wrong {
    const char* what;
    size_t offset; /* of a word of so many bytes */
    size_t bytes;
    uint64_t value;
    int error;
};
#define WRONG_WORD(request, field, number, error) \
    { #field " " #number, offsetof(request, field), sizeof(((request*)0)->field), number, error }

long by_syscall(unsigned long operation, void* argument, size_t bytes);
long by_device(unsigned long operation, void* argument, size_t bytes);
void close_device(void);

/* module_updates.c */
void check_updates(void);
void wait_for_update(const char* file);

/* module_channel.c */
void check_kernel_events(void);
void thrash_channels(long seconds, unsigned seed);

/* module_directories.c */
void check_directories(void);
void make_files(int count);
void remove_files(int count);

/* module_stuck.c */
void be_stuck(const char* file);

/* module_hostile.c: how much went wrong. */
int be_hostile(long seconds, unsigned seed);

#endif
