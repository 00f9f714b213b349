/*
 * The native half of plumb.Plumb (docs/java-events.md): events that Java code declares while it runs. They are never taken back, so
 * whoever has an event's address may use it for good.
 *
 * Java puts the fields together as they lie in a record. What is called here takes nothing but numbers, so it asks the JVM for nothing,
 * and a thread that waits here (in block mode) keeps no collection from going on.
 */
#include "payload.h"

#include <plumb/control.h>
#include <plumb/runtime.h>

#include <jni.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct java_event {
    struct plumb_event event;
    struct plumb_event* in_object; /* the object's list of one */
    uint32_t fixed_bytes;
    struct plumb_event_info info;
    struct plumb_object object;
    struct plumb_event_field fields[PLUMB_EVENT_MAX_FIELDS];
};

static struct plumb_watch event_watch;
static uint32_t watcher_is_told; /* by an event that was switched off without an update */

static bool is_on(const struct java_event* event) {
    return __builtin_expect(__atomic_load_n(&event->event.enabled, __ATOMIC_RELAXED) != 0, 1);
}

/* What Declaration.describe() wrote. */
struct description {
    char* at;
};

static uint64_t take_number(struct description* from, size_t bytes) {
    uint64_t number = 0; /* little-endian, as all that Plumb runs on */
    memcpy(&number, from->at, bytes);
    from->at += bytes;
    return number;
}

static const char* take_text(struct description* from) {
    const char* const text = from->at;
    from->at += strlen(text) + 1;
    return text;
}

/* The first label says what null is: -1. */
static const struct plumb_event_label* take_labels(struct description* from, uint16_t count) {
    if (count == 0) return NULL;
    struct plumb_event_label* const labels = calloc(count, sizeof(*labels));
    for (uint16_t i = 0; i < count; i++) {
        const char* const name = take_text(from);
        if (labels == NULL) continue;
        labels[i].value = (int64_t)i - 1;
        labels[i].name = name;
    }
    return labels;
}

static bool take_fields(struct java_event* event, struct description* from) {
    for (uint16_t i = 0; i < event->info.field_count; i++) {
        struct plumb_event_field* const field = &event->fields[i];
        field->type = (uint8_t)take_number(from, 1);
        field->size = (uint8_t)take_number(from, 1);
        field->flags = (uint8_t)take_number(from, 1);
        field->label_count = (uint16_t)take_number(from, 2);
        field->name = take_text(from);
        field->labels = take_labels(from, field->label_count);
        if (field->label_count != 0 && field->labels == NULL) return false;
    }
    return true;
}

static bool fill(struct java_event* event, struct description from) {
    event->info.version = PLUMB_RUNTIME_VERSION;
    event->info.source_line = (uint32_t)take_number(&from, 4);
    event->info.log_level = (uint8_t)take_number(&from, 4);
    event->info.field_count = (uint16_t)take_number(&from, 4);
    event->fixed_bytes = (uint32_t)take_number(&from, 4);
    event->info.provider = take_text(&from);
    event->info.name = take_text(&from);
    event->info.source_file = take_text(&from);
    if (*event->info.source_file == '\0') event->info.source_file = NULL;
    event->info.fields = event->fields;
    if (!take_fields(event, &from)) return false;
    event->event.info = &event->info;
    event->in_object = &event->event;
    event->object.version = PLUMB_RUNTIME_VERSION;
    event->object.flags = PLUMB_OBJECT_ASYNC | PLUMB_OBJECT_STAYS;
    event->object.events_begin = &event->in_object;
    event->object.events_end = &event->in_object + 1;
    event->object.setup = &plumb_setup;
    return true;
}

/* Declarations come one at a time: Events.register() holds its lock. */
static void watch_once(void) {
    static bool is_watched = false;
    if (!is_watched) plumb_watch_changes(&event_watch);
    is_watched = true;
}

/* What has no memory in the middle keeps what it has. */
static struct java_event* new_event(const char* description, size_t bytes) {
    struct java_event* const event = aligned_alloc(_Alignof(struct java_event), sizeof(*event));
    char* const copy = malloc(bytes);
    if (event == NULL || copy == NULL) return NULL;
    memset(event, 0, sizeof(*event));
    memcpy(copy, description, bytes);
    return fill(event, (struct description){copy}) ? event : NULL;
}

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_plumb_internal_Native_##name

NATIVE(jlong, declare)(JNIEnv*, jclass, jobject, jint);
NATIVE(jboolean, isOn)(JNIEnv*, jclass, jlong);
NATIVE(jlong, addressOf)(JNIEnv*, jclass, jobject);
NATIVE(void, emit3)(JNIEnv*, jclass, jlong, jlong, jlong, jlong);
NATIVE(void, emit8)(JNIEnv*, jclass, jlong, jlong, jlong, jlong, jlong, jlong, jlong, jlong, jlong);
NATIVE(void, emit)(JNIEnv*, jclass, jlong, jlong, jint, jboolean);
NATIVE(jobject, allocate)(JNIEnv*, jclass, jint);
NATIVE(void, free)(JNIEnv*, jclass, jlong);
NATIVE(void, rest)(JNIEnv*, jclass);
NATIVE(void, lose)(JNIEnv*, jclass, jlong);
NATIVE(jint, changes)(JNIEnv*, jclass);
NATIVE(void, awaitChange)(JNIEnv*, jclass, jint);

NATIVE(jlong, declare)(JNIEnv* jni, jclass class, jobject description, jint bytes) {
    (void)class;
    const char* const from = (*jni)->GetDirectBufferAddress(jni, description);
    struct java_event* const event = from == NULL ? NULL : new_event(from, (size_t)bytes);
    if (event == NULL) return 0;
    watch_once();
    plumb_register_object(&event->object);
    return (jlong)(uintptr_t)event;
}

static struct java_event* event_at(jlong address) {
    return (struct java_event*)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

NATIVE(jboolean, isOn)(JNIEnv* jni, jclass class, jlong event) {
    (void)jni, (void)class;
    return is_on(event_at(event)) ? JNI_TRUE : JNI_FALSE;
}

NATIVE(jlong, addressOf)(JNIEnv* jni, jclass class, jobject direct) {
    (void)class;
    return (jlong)(uintptr_t)(*jni)->GetDirectBufferAddress(jni, direct);
}

static void wake_watcher(void) {
    __atomic_add_fetch(&event_watch.changes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &event_watch.changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Java has yet to hear that the event is off: or it was switched off without an update, as its session is gone. Told once. */
__attribute__((noinline, cold)) static void came_unwanted(void) {
    if (__atomic_exchange_n(&watcher_is_told, 1, __ATOMIC_SEQ_CST) == 0) wake_watcher();
}

NATIVE(void, emit3)(JNIEnv* jni, jclass class, jlong address, jlong word0, jlong word1, jlong word2) {
    (void)jni, (void)class;
    struct java_event* const event = event_at(address);
    if (!is_on(event)) {
        came_unwanted();
        return;
    }
    const jlong words[] = {word0, word1, word2};
    plumb_emit(&event->event, words, event->fixed_bytes);
}

NATIVE(void, emit8)
(JNIEnv* jni, jclass class, jlong address, jlong word0, jlong word1, jlong word2, jlong word3, jlong word4,
 jlong word5, jlong word6, jlong word7) {
    (void)jni, (void)class;
    struct java_event* const event = event_at(address);
    if (!is_on(event)) {
        came_unwanted();
        return;
    }
    const jlong words[] = {word0, word1, word2, word3, word4, word5, word6, word7};
    plumb_emit(&event->event, words, event->fixed_bytes);
}

NATIVE(void, emit)(JNIEnv* jni, jclass class, jlong address, jlong payload, jint bytes, jboolean is_cut) {
    (void)jni, (void)class;
    struct java_event* const event = event_at(address);
    if (!is_on(event)) {
        came_unwanted();
        return;
    }
    emit_payload(&event->event, event->fixed_bytes, payload, bytes, is_cut);
}

NATIVE(void, lose)(JNIEnv* jni, jclass class, jlong event) {
    (void)jni, (void)class;
    if (event != 0) plumb_lose(&event_at(event)->event);
}

/* A payload that begins at any place may have a line end in the middle of a short record: that costs some ns. */
#define CACHE_LINE_BYTES 64u

static size_t align_up(size_t bytes) {
    return (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
}

/*
 * Of what Java has: whose classes are unloaded can not give it back any more, so JNI_OnUnload() does. Several class loaders may have this
 * library by paths that lead to one file (hard links, mounts): the JVM loads it once for each, and the loader of objects once for all. Whose blocks
 * they are is not known then, so the last one gives them back.
 */
union block {
    struct {
        union block *next, **link; /* link: what leads here */
    };
    char line[CACHE_LINE_BYTES];
};

static union block* blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t class_loaders;

static void* allocate_block(size_t bytes) {
    union block* const block = aligned_alloc(CACHE_LINE_BYTES, sizeof(*block) + align_up(bytes));
    if (block == NULL) return NULL;
    pthread_mutex_lock(&blocks_lock);
    block->next = blocks;
    block->link = &blocks;
    if (blocks != NULL) blocks->link = &block->next;
    blocks = block;
    pthread_mutex_unlock(&blocks_lock);
    return block + 1;
}

static void free_block(void* memory) {
    if (memory == NULL) return;
    union block* const block = (union block*)memory - 1;
    pthread_mutex_lock(&blocks_lock);
    *block->link = block->next;
    if (block->next != NULL) block->next->link = block->link;
    pthread_mutex_unlock(&blocks_lock);
    free(block);
}

NATIVE(jobject, allocate)(JNIEnv* jni, jclass class, jint bytes) {
    (void)class;
    void* const memory = allocate_block((size_t)bytes);
    jobject const buffer = memory == NULL ? NULL : (*jni)->NewDirectByteBuffer(jni, memory, bytes);
    if (buffer == NULL) free_block(memory); /* an OutOfMemoryError is on its way if there was some */
    return buffer;
}

NATIVE(void, free)(JNIEnv* jni, jclass class, jlong address) {
    (void)jni, (void)class;
    free_block((void*)(uintptr_t)address); /* NOLINT(performance-no-int-to-ptr) */
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* jvm, void* reserved) {
    (void)jvm, (void)reserved;
    pthread_mutex_lock(&blocks_lock);
    class_loaders++;
    pthread_mutex_unlock(&blocks_lock);
    return JNI_VERSION_10;
}

JNIEXPORT void JNICALL JNI_OnUnload(JavaVM* jvm, void* reserved) {
    (void)jvm, (void)reserved;
    pthread_mutex_lock(&blocks_lock);
    union block* nobodys = --class_loaders == 0 ? blocks : NULL;
    if (nobodys != NULL) blocks = NULL;
    pthread_mutex_unlock(&blocks_lock);
    while (nobodys != NULL) {
        union block* const next = nobodys->next;
        free(nobodys);
        nobodys = next;
    }
}

NATIVE(void, rest)(JNIEnv* jni, jclass class) {
    (void)jni, (void)class;
    const struct timespec moment = {0, 100000};
    nanosleep(&moment, NULL);
}

/* Before Java looks which events are on: whatever is told from now on is another change. */
NATIVE(jint, changes)(JNIEnv* jni, jclass class) {
    (void)jni, (void)class;
    __atomic_store_n(&watcher_is_told, 0, __ATOMIC_SEQ_CST);
    return (jint)__atomic_load_n(&event_watch.changes, __ATOMIC_SEQ_CST);
}

NATIVE(void, awaitChange)(JNIEnv* jni, jclass class, jint seen) {
    (void)jni, (void)class;
    syscall(SYS_futex, &event_watch.changes, FUTEX_WAIT, (uint32_t)seen, NULL, NULL, 0);
}
