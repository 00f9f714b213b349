/* The service's shared library. */
#ifndef DEPOT_H
#define DEPOT_H

#include <stdint.h>

void depot_work(uint64_t round, int print);

#endif
