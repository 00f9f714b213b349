/*
 * channel_vandal FILE SEED SECONDS: writes anything anywhere into a channel, as only its owner can: into its header, the
 * positions of its rings, its records; and at last cuts it to nothing, where that may be.
 */
#define _GNU_SOURCE
#include "random_numbers.h"

#include <plumb/abi/channel.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int main(int count, char** arguments) {
    struct stat info;
    uint64_t magic = 0;
    if (count != 4) return 2;
    const int readable = open(arguments[1], O_RDONLY);
    if (readable < 0 || pread(readable, &magic, sizeof(magic), 0) < 0) return 6;
    if (magic != PLUMB_CHANNEL_MAGIC) return 6; /* it is none */
    const int file = open(arguments[1], O_RDWR);
    if (file < 0 || fstat(file, &info) != 0) return 3;
    state = strtoull(arguments[2], NULL, 0) | 1;
    volatile uint64_t* words = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) return 4;
    const struct plumb_channel_header header = *(const volatile struct plumb_channel_header*)words;
    const uint64_t rings = (uint64_t)header.ring_count + header.extra_ring_count;
    const time_t end = time(NULL) + atoi(arguments[3]);
    unsigned long writes = 0;
    while (time(NULL) < end)
        for (int i = 0; i < 1000; i++, writes++) {
            uint64_t at = any() % (uint64_t)info.st_size;
            if (any() % 2 == 0) at = header.control_offset + any() % (rings * PLUMB_RING_CONTROL_BYTES);
            if (any() % 8 == 0) at = any() % PLUMB_CHANNEL_HEADER_BYTES;
            words[at / 8] = any() % 2 == 0 ? any() : any() % 4096 * 8;
        }
    printf("%lu words were written over\n", writes);
    return ftruncate(file, 0) == 0 || errno == EPERM ? 0 : 5;
}
