#include "arena.h"

#include <stdint.h>
#include <sys/mman.h>

#define ALIGNMENT 64u
#define BLOCK_BYTES 65536u

struct arena_block {
    struct arena_block* older;
    size_t bytes;
    size_t used;
};

static struct arena_block* new_block(size_t bytes, struct arena_block* older) {
    void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct arena_block* const block = memory;
    if (memory == MAP_FAILED) return NULL;
    block->older = older;
    block->bytes = bytes;
    block->used = ALIGNMENT;
    return block;
}

void* arena_take(struct arena* arena, size_t bytes) {
    struct arena_block* block = arena->newest;
    const size_t taken = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (taken < bytes || taken > SIZE_MAX / 2) return NULL;
    if (block == NULL || block->bytes - block->used < taken) {
        block = new_block(taken + ALIGNMENT > BLOCK_BYTES ? taken + ALIGNMENT : BLOCK_BYTES, block);
        if (block == NULL) return NULL;
        arena->newest = block;
    }
    block->used += taken;
    return (unsigned char*)block + block->used - taken;
}

void arena_give_back(struct arena* arena) {
    struct arena_block* block = arena->newest;
    while (block != NULL) {
        struct arena_block* const older = block->older;
        munmap(block, block->bytes);
        block = older;
    }
}
