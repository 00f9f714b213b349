/* Of module_updates.c, for those who ask a child. */
#ifndef PLUMB_TESTS_MODULE_UPDATES_H
#define PLUMB_TESTS_MODULE_UPDATES_H

#include <plumb/abi/module.h>

#include <sys/types.h>

/* Shared with the child. */
extern struct seen {
    int ready, handled, handled_in, handled_second, other_value, interrupted, returned, thread;
    int sender_process, sender_user, child;
    volatile int stop;
} * seen;
extern int wake[2]; /* a pipe */

/* A child that runs it, with a handler for SIGURG. */
pid_t start(void (*body)(void));
void end(pid_t child);
int are_all_asleep(pid_t process);
void wait_until(const int* value, int least);

void open_updates(void); /* another one */
void close_updates(void);
int update(unsigned operation, struct plumb_update* request);
struct plumb_update request_for(pid_t child);

/* module_runtimes.c */
void check_runtimes(void);

/* module_waits.c */
void check_waits(void);

#endif
