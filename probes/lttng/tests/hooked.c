/* Built with -finstrument-functions: each function that is entered is traced by a hook of the program's own. Prints how many that were. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "hooked.h"

#include <stdio.h>

#define NOT_INSTRUMENTED __attribute__((no_instrument_function))

static long entered;

NOT_INSTRUMENTED void __cyg_profile_func_enter(void* function, void* site);
NOT_INSTRUMENTED void __cyg_profile_func_exit(void* function, void* site);

void __cyg_profile_func_enter(void* function, void* site) {
    (void)site;
    if (!lttng_ust_tracepoint_enabled(hooked, enter)) return;
    entered++;
    lttng_ust_tracepoint(hooked, enter, function);
}

void __cyg_profile_func_exit(void* function, void* site) {
    (void)function, (void)site;
}

__attribute__((noinline)) static int work(int i) {
    return i + 1;
}

NOT_INSTRUMENTED int main(void) {
    int sum = 0;
    for (int i = 0; i < 100; i++)
        sum += work(i);
    printf("%ld\n", sum == 5050 ? entered : -1);
    return 0;
}
