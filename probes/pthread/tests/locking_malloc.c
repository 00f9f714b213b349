/*
 * For LD_PRELOAD: an allocator that locks a mutex in every call, and functions with which others look symbols up that do too,
 * and tell nothing. The probe asks nobody.
 */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static union {
    unsigned char bytes[64 << 20];
    max_align_t align;
} arena;
static size_t used;

/* A block is preceded by its size; nothing is ever given back. */
static void* allocate(size_t alignment, size_t bytes) {
    pthread_mutex_lock(&lock);
    const size_t start = (used + 16 + alignment - 1) / alignment * alignment;
    void* block = NULL;
    if (bytes < sizeof arena && start + bytes <= sizeof arena) {
        used = (start + bytes + 15) / 16 * 16;
        block = arena.bytes + start;
        memcpy(arena.bytes + start - 16, &bytes, sizeof bytes);
    }
    pthread_mutex_unlock(&lock);
    return block;
}

void* malloc(size_t bytes) {
    return allocate(16, bytes);
}

void free(void* block) {
    (void)block;
    if (pthread_mutex_trylock(&lock) == 0) pthread_mutex_unlock(&lock);
}

void* calloc(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) return NULL;
    return allocate(16, total); /* the arena starts as zeros and is used once */
}

void* realloc(void* block, size_t bytes) {
    void* other = allocate(16, bytes);
    if (!block || !other) return other;
    size_t had;
    memcpy(&had, (unsigned char*)block - 16, sizeof had);
    return memcpy(other, block, had < bytes ? had : bytes);
}

void* memalign(size_t alignment, size_t bytes) {
    return allocate(alignment < 16 ? 16 : alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
    *block = memalign(alignment, bytes);
    return *block ? 0 : 12;
}

static void lock_all(void) {
    pthread_mutex_lock(&lock);
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&lock);
    free(malloc(100));
}

int dl_iterate_phdr(int (*look)(struct dl_phdr_info*, size_t, void*), void* with) {
    (void)look;
    (void)with;
    lock_all();
    return 0;
}

void* dlsym(void* restrict handle, const char* restrict name) {
    (void)handle;
    (void)name;
    lock_all();
    return NULL;
}
