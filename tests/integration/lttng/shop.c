/* A shop with LTTng-UST tracepoints: shop ORDERS [LIBRARY [PAUSE_US]]: after the library is loaded, if one is named. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "shop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void take_order(int number) {
    lttng_ust_tracepoint(shop, order, number);
    __asm__ volatile("" : : : "memory"); /* so that the call is no jump */
}

int main(int count, char** words) {
    const int orders = count > 1 ? atoi(words[1]) : 1, pause_us = count > 3 ? atoi(words[3]) : 0;
    if (count > 2 && words[2][0] != '\0' && dlopen(words[2], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < orders; i++) {
        take_order(i);
        if (pause_us != 0) usleep((useconds_t)pause_us);
    }
    return 3;
}
