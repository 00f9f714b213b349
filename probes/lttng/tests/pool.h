#ifndef PLUMB_TESTS_POOL_H
#define PLUMB_TESTS_POOL_H

#define POOL_THREADS 16u

/* What each of them does in a child that is forked from now on. */
void pool_work(void (*what)(void));
/* In the child. */
void pool_join(void);

#endif
