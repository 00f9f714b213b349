#include "hooked_at_load.h"

#include "agent.h"
#include "lock.h"
#include "method_hooks.h"

#include <stdlib.h>
#include <string.h>

static uint32_t set_lock;
static uint64_t* places; /* numbers of classes, by which they are looked for; 0: free */
static size_t place_count, taken_count;
static uint32_t of_generation;

/* By 64 bits of the name, and whether the class has the hooks in it. Not by its loader: to ask for an object's hash code, or give it a tag,
 * draws one of the numbers of the program's thread, and all objects behind it have others than they have without. */
static uint64_t number_of(const char* name, size_t bytes) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    hash ^= hash >> 32;
    return hash != 0 ? hash : 1;
}

/* ---- with the lock ---- */

static uint64_t* place_of(uint64_t number) {
    size_t i = (size_t)number & (place_count - 1);
    while (places[i] != 0 && places[i] != number)
        i = (i + 1) & (place_count - 1);
    return &places[i];
}

static bool grow(void) {
    enum { first_count = 1024 };
    uint64_t* const before = places;
    const size_t before_count = place_count, count = before ? 2 * before_count : first_count;
    uint64_t* const made = calloc(count, sizeof(*made));
    if (!made) return false;
    places = made;
    place_count = count;
    for (size_t i = 0; i < before_count; i++)
        if (before[i] != 0) *place_of(before[i]) = before[i];
    free(before);
    return true;
}

static void forget(void) {
    free(places);
    places = NULL;
    place_count = taken_count = 0;
}

/* ---- */

/* What there is no memory for is given to the JVM anew, as before. */
void plumb_note_hooked_at_load(uint32_t generation, const char* name, size_t name_bytes) {
    if (!name) return;
    const uint64_t number = number_of(name, name_bytes);
    plumb_lock(&set_lock);
    if (of_generation != generation) forget();
    of_generation = generation;
    if (2 * taken_count < place_count || grow()) {
        uint64_t* const place = place_of(number);
        taken_count += *place == 0;
        *place = number;
    }
    plumb_unlock(&set_lock);
}

/* Of a file that was read with hooks no class may have come: where the loader has one of that name already. */
static bool names_hooks(jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0, bytes = 0;
    unsigned char* constants = NULL;
    if ((*jvmti)->GetConstantPool(jvmti, class, &count, &bytes, &constants) != JVMTI_ERROR_NONE) return false;
    const bool found = memmem(constants, (size_t)bytes, PLUMB_HOOK_CLASS, strlen(PLUMB_HOOK_CLASS)) != NULL;
    (*jvmti)->Deallocate(jvmti, constants);
    return found;
}

bool plumb_was_hooked_at_load(uint32_t generation, jclass class) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    char* signature = NULL; /* Lname; */
    bool was = false;
    if ((*jvmti)->GetClassSignature(jvmti, class, &signature, NULL) != JVMTI_ERROR_NONE) return false;
    const size_t bytes = strlen(signature);
    if (signature[0] == 'L' && bytes > 2) {
        const uint64_t number = number_of(signature + 1, bytes - 2);
        plumb_lock(&set_lock);
        was = of_generation == generation && place_count != 0 && *place_of(number) == number;
        plumb_unlock(&set_lock);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)signature);
    return was && names_hooks(class);
}

void plumb_forget_hooked_at_load(void) {
    plumb_lock(&set_lock);
    forget();
    of_generation = 0;
    plumb_unlock(&set_lock);
}
