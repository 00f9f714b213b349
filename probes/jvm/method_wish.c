#include "method_wish.h"

#include "lock.h"

#include <stdlib.h>
#include <string.h>

static uint32_t wish_lock;
static struct plumb_method_wish* last_wish;  /* NULL: nothing is asked for */
static struct plumb_method_wish* heard_wish; /* of the options that are being read; one thread reads them */

static uint32_t times_repeated;

enum { default_limit = 4096 };

static void free_wish(struct plumb_method_wish* wish) {
    for (uint32_t i = 0; i < wish->count; i++) {
        free(wish->patterns[i].text);
        free(wish->patterns[i].class_name);
        free(wish->patterns[i].signature);
    }
    free(wish);
}

static struct plumb_method_wish* heard(void) {
    if (!heard_wish) heard_wish = calloc(1, sizeof(*heard_wish));
    if (heard_wish && heard_wish->limit == 0) heard_wish->limit = default_limit;
    return heard_wish;
}

static bool add_pattern(struct plumb_method_wish* wish, const char* text, size_t bytes) {
    struct plumb_method_pattern* const pattern = &wish->patterns[wish->count];
    if (wish->count == plumb_method_patterns_max) return false;
    memset(pattern, 0, sizeof(*pattern));
    pattern->text = strndup(text, bytes);
    pattern->class_name = strndup(text, bytes);
    char* const colons = pattern->class_name ? strstr(pattern->class_name, "::") : NULL;
    if (!pattern->text || !colons || colons == pattern->class_name || colons[2] == '\0' || colons[2] == '(') {
        free(pattern->text);
        free(pattern->class_name);
        return false;
    }
    *colons = '\0';
    pattern->method = colons + 2;
    char* const types = strchr(pattern->method, '(');
    if (types) {
        pattern->signature = strdup(types);
        *types = '\0';
    }
    wish->count++;
    return true;
}

static bool hear_limit(struct plumb_method_wish* wish, const char* text, size_t bytes) {
    enum { digits_max = 7 };
    uint32_t limit = 0;
    if (bytes == 0 || bytes > digits_max) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        limit = limit * 10 + (uint32_t)(text[i] - '0');
    }
    if (limit == 0) return false;
    wish->limit = limit;
    return true;
}

bool plumb_method_wish_hear(const char* word, size_t bytes) {
    static const char pattern[] = "methods=", limit[] = "methods_limit=";
    enum { pattern_bytes = sizeof(pattern) - 1, limit_bytes = sizeof(limit) - 1 };
    if (bytes > pattern_bytes && strncmp(word, pattern, pattern_bytes) == 0)
        return heard() && add_pattern(heard_wish, word + pattern_bytes, bytes - pattern_bytes);
    if (bytes > limit_bytes && strncmp(word, limit, limit_bytes) == 0)
        return heard() && hear_limit(heard_wish, word + limit_bytes, bytes - limit_bytes);
    return false;
}

static bool is_same(const struct plumb_method_wish* one, const struct plumb_method_wish* other) {
    if (one->count != other->count || one->limit != other->limit) return false;
    for (uint32_t i = 0; i < one->count; i++)
        if (strcmp(one->patterns[i].text, other->patterns[i].text) != 0) return false;
    return true;
}

/* A limit alone asks for nothing. Who asks for the same as another one before is told what that has found: nothing is changed, or missed
 * meanwhile. */
void plumb_method_wish_heard(void) {
    static uint32_t last_generation;
    struct plumb_method_wish* const wish = heard_wish;
    heard_wish = NULL;
    if (!wish) return;
    struct plumb_method_wish* const last = plumb_method_wish_take();
    const bool is_repeated = last && is_same(wish, last);
    plumb_method_wish_release(last);
    if (is_repeated) __atomic_add_fetch(&times_repeated, 1, __ATOMIC_RELEASE);
    if (is_repeated || wish->count == 0) {
        free_wish(wish);
        return;
    }
    wish->users = 1;
    wish->generation = ++last_generation;
    plumb_lock(&wish_lock);
    struct plumb_method_wish* const before = last_wish;
    last_wish = wish;
    plumb_unlock(&wish_lock);
    if (before) plumb_method_wish_release(before);
}

struct plumb_method_wish* plumb_method_wish_share(struct plumb_method_wish* wish) {
    if (wish) __atomic_add_fetch(&wish->users, 1, __ATOMIC_RELAXED);
    return wish;
}

struct plumb_method_wish* plumb_method_wish_take(void) {
    plumb_lock(&wish_lock);
    struct plumb_method_wish* const wish = plumb_method_wish_share(last_wish);
    plumb_unlock(&wish_lock);
    return wish;
}

void plumb_method_wish_release(struct plumb_method_wish* wish) {
    if (wish && __atomic_sub_fetch(&wish->users, 1, __ATOMIC_ACQ_REL) == 0) free_wish(wish);
}

uint32_t plumb_method_wish_generation(void) {
    plumb_lock(&wish_lock);
    const uint32_t generation = last_wish ? last_wish->generation : 0;
    plumb_unlock(&wish_lock);
    return generation;
}

uint32_t plumb_method_wish_repeated(void) {
    return __atomic_load_n(&times_repeated, __ATOMIC_ACQUIRE);
}

/* In UTF-8. */
static const char* next_character(const char* text) {
    do
        text++;
    while ((*text & 0xc0) == 0x80);
    return text;
}

/* The last star may stand for more than it did: what is before it is right already. */
static bool matches(const char* glob, const char* text) {
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            retry = text;
        } else if (*glob == '?') {
            glob++;
            text = next_character(text);
        } else if (*glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = retry = next_character(retry);
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

void plumb_method_wish_begin_anew(struct plumb_method_wish* wish) {
    __atomic_store_n(&wish->hooked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&wish->limit_was_met, false, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < wish->count; i++) {
        __atomic_store_n(&wish->patterns[i].methods, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&wish->patterns[i].left_alone, 0, __ATOMIC_RELAXED);
    }
}

uint64_t plumb_wish_matches_class(const struct plumb_method_wish* wish, const char* class_name) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < wish->count; i++)
        found |= (uint64_t)matches(wish->patterns[i].class_name, class_name) << i;
    return found;
}

uint64_t plumb_wish_matches_method(const struct plumb_method_wish* wish, uint64_t of_class,
                                   const char* method, const char* signature) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < wish->count; i++) {
        const struct plumb_method_pattern* const pattern = &wish->patterns[i];
        if ((of_class >> i & 1) != 0 && matches(pattern->method, method) &&
            (!pattern->signature || matches(pattern->signature, signature)))
            found |= UINT64_C(1) << i;
    }
    return found;
}

uint32_t plumb_wish_unmatched(const struct plumb_method_wish* wish, uint32_t from) {
    while (from < wish->count && (__atomic_load_n(&wish->patterns[from].methods, __ATOMIC_RELAXED) != 0 ||
                                  __atomic_load_n(&wish->patterns[from].left_alone, __ATOMIC_RELAXED) != 0))
        from++;
    return from < wish->count ? from : wish->count;
}
