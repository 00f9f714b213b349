/* filtered_calls FIFO: when something comes from there, system calls with all kinds of arguments, under several names. The same each time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state = 30112026;
static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int count, char** arguments) {
    static char names[][32] = {
        "/etc/shop/prices", "/etc/passwd.none", "/tmp/shop-1", "/tmp/shop-2", "relative", "", "/etc/shop"};
    enum { name_count = sizeof(names) / sizeof(names[0]), rounds = 2000 };
    char byte;
    volatile char seen = 0;
    if (count != 2) return 2;
    for (unsigned i = 0; i < name_count; i++)
        seen = names[i][0];
    (void)seen;
    const int told = open(arguments[1], O_RDONLY | O_NONBLOCK);
    while (read(told, &byte, 1) != 1) {
        usleep(10000);
        syscall(SYS_getsid, 0);
    }
    for (int i = 0; i < rounds; i++) {
        const uint64_t kind = any() % 4;
        const int64_t number = kind == 0   ? (int64_t)(any() % 8) - 4
                               : kind == 1 ? (int64_t)any()
                                           : (int64_t)(any() % 300);
        if (i % 100 == 0) {
            char name[16];
            snprintf(name, sizeof(name), "shop-%d", i / 100);
            prctl(PR_SET_NAME, name, 0, 0, 0);
        }
        const int file = any() % 6 == 0 ? told : (int)(any() % 5) - 10; /* ESPIPE, or EBADF */
        syscall(SYS_lseek, file, number, (int)(any() % 4));
        if (i % 4 == 0)
            syscall(SYS_openat, -1 - (int)(any() % 2), names[any() % name_count], (int)(any() % 512), 0600);
    }
    return 0;
}
