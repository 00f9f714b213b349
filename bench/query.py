#!/usr/bin/env python3
"""What a program pays to find the state file, whose rules it then reads where they lie: in the directory that plumb.ko gives, by its
device and by its system call, beside that in /dev/shm. In one guest, by turns, as ratios; the guest is emulated.

    bench/query.py VERSION [--build DIR]      VERSION: of tools/kernels.txt; DIR: build/dev
"""
import statistics

from guest_bench import arguments, measured

TIMES, ROUNDS = 20_000, 7
WAYS = ("shm", "device", "call")
LOOP = r"""
#define _GNU_SOURCE
#include <plumb/abi/module.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int directory(const char *way) {
    struct plumb_descriptor_request asked = {0, -1};
    if (strcmp(way, "shm") == 0) return open("/dev/shm/plumb-0", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (strcmp(way, "call") == 0)
        return syscall(PLUMB_SYSCALL, PLUMB_OPERATION_DIRECTORY, &asked, sizeof(asked)) == 0 ? asked.descriptor : -1;
    const int device = open(PLUMB_DEVICE, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (ioctl(device, PLUMB_IOCTL(PLUMB_OPERATION_DIRECTORY, sizeof(asked)), &asked) != 0) return -1;
    close(device);
    return asked.descriptor;
}
int main(int count, char **arguments) {
    struct timespec begin, end;
    struct stat info;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < TIMES; i++) {
        const int there = directory(arguments[count - 1]);
        fstat(there, &info);
        const int state = openat(there, "state", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fstat(state, &info) != 0) return 1;
        void *mapped = mmap(NULL, info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, state, 0);
        if (*(volatile char *)mapped == 0) return 2;
        munmap(mapped, info.st_size);
        close(state);
        close(there);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / TIMES);
    return 0;
}
"""
# A recorder makes a state file in each.
SCRIPT = """
insmod /plumb.ko
plumb record -q -e 'nosuch:*' -o /tmp/trace --duration 10ms
loop shm >/dev/null
i=0
while [ $i -lt ROUNDS ]; do
    for way in shm device call; do echo "$way $(loop $way)"; done
    i=$((i + 1))
done
"""


def main():
    options = arguments(__doc__)
    found = measured(options, LOOP.replace("TIMES", str(TIMES)), SCRIPT.replace("ROUNDS", str(ROUNDS)), WAYS, ROUNDS)
    median = {name: statistics.median(values) for name, values in found.items()}
    print(f"the state file, found and mapped: {median['shm']:.0f} ns by /dev/shm, {median['device'] / median['shm']:.2f} of it by "
          f"/dev/plumb, {median['call'] / median['shm']:.2f} by the system call "
          f"(medians of {ROUNDS} rounds of {TIMES:,}, Linux {options.version}, emulated)")


if __name__ == "__main__":
    main()
