#include "known_methods.h"

#include "lock.h"

#include <stdlib.h>
#include <string.h>

enum { bucket_count = 4096, chunk_count = 1024, chunk_methods = 1024 };

static uint32_t methods_lock;
static struct plumb_known_method* buckets[bucket_count];
static struct plumb_known_method** chunks[chunk_count]; /* read without the lock */
static int32_t method_count;

static uint32_t hash_of(uint32_t hash, struct plumb_text text) {
    for (size_t i = 0; i < text.bytes; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return hash;
}

static struct plumb_known_method** bucket_of(struct plumb_text class_name, struct plumb_text method,
                                             struct plumb_text signature) {
    return &buckets[hash_of(hash_of(hash_of(2166136261u, class_name), method), signature) % bucket_count];
}

static bool is_same(struct plumb_text one, struct plumb_text other) {
    return one.bytes == other.bytes && (one.bytes == 0 || memcmp(one.at, other.at, one.bytes) == 0);
}

static struct plumb_known_method* find_in(struct plumb_known_method* bucket, struct plumb_text class_name,
                                          struct plumb_text method, struct plumb_text signature) {
    while (bucket && !(is_same(bucket->method, method) && is_same(bucket->signature, signature) &&
                       is_same(bucket->class_name, class_name)))
        bucket = bucket->next;
    return bucket;
}

static char* put_text(char* to, struct plumb_text from, struct plumb_text* copy) {
    if (from.bytes != 0) memcpy(to, from.at, from.bytes);
    to[from.bytes] = '\0';
    *copy = (struct plumb_text){to, from.bytes};
    return to + from.bytes + 1;
}

static struct plumb_known_method* make_method(struct plumb_text class_name, struct plumb_text method,
                                              struct plumb_text signature) {
    struct plumb_known_method* const made =
        calloc(1, sizeof(*made) + class_name.bytes + method.bytes + signature.bytes + 3);
    if (!made) return NULL;
    char* to = put_text((char*)(made + 1), class_name, &made->class_name);
    to = put_text(to, method, &made->method);
    put_text(to, signature, &made->signature);
    return made;
}

/* With the lock. */
static bool give_number(struct plumb_known_method* method) {
    const int32_t number = method_count, chunk = number / chunk_methods;
    if (chunk == chunk_count) return false;
    if (!chunks[chunk]) {
        struct plumb_known_method** const made = calloc(chunk_methods, sizeof(*made));
        if (!made) return false;
        __atomic_store_n(&chunks[chunk], made, __ATOMIC_RELEASE);
    }
    method->number = number;
    __atomic_store_n(&chunks[chunk][number % chunk_methods], method, __ATOMIC_RELEASE);
    method_count++;
    return true;
}

struct plumb_known_method* plumb_find_known_method(struct plumb_text class_name, struct plumb_text method,
                                                   struct plumb_text signature) {
    plumb_lock(&methods_lock);
    struct plumb_known_method* const found =
        find_in(*bucket_of(class_name, method, signature), class_name, method, signature);
    plumb_unlock(&methods_lock);
    return found;
}

struct plumb_known_method* plumb_know_method(struct plumb_text class_name, struct plumb_text method,
                                             struct plumb_text signature) {
    struct plumb_known_method** const bucket = bucket_of(class_name, method, signature);
    plumb_lock(&methods_lock);
    struct plumb_known_method* known = find_in(*bucket, class_name, method, signature);
    if (!known) {
        known = make_method(class_name, method, signature);
        if (known && give_number(known)) {
            known->next = *bucket;
            *bucket = known;
        } else {
            free(known);
            known = NULL;
        }
    }
    plumb_unlock(&methods_lock);
    return known;
}

struct plumb_known_method* plumb_known_method(int32_t number) {
    return __atomic_load_n(
        &__atomic_load_n(&chunks[number / chunk_methods], __ATOMIC_ACQUIRE)[number % chunk_methods],
        __ATOMIC_ACQUIRE);
}

static int32_t known_count(void) {
    plumb_lock(&methods_lock);
    const int32_t count = method_count;
    plumb_unlock(&methods_lock);
    return count;
}

void plumb_known_methods_forget_unwanted(void) {
    for (int32_t i = known_count(); i-- > 0;)
        __atomic_store_n(&plumb_known_method(i)->came_unwanted, false, __ATOMIC_RELAXED);
}

void plumb_known_methods_forget_looked_at(void) {
    for (int32_t i = known_count(); i-- > 0;)
        __atomic_store_n(&plumb_known_method(i)->generation, 0, __ATOMIC_RELAXED);
}
