/*
 * By what stands in the objects themselves: who needs whom, by name. The loader has found those that the executable needs before any
 * constructor ran, so of several with one name it is the first.
 */
#include "loaded.h"

#include "arena.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OBJECTS_MAX 2048u

struct object {
    const ElfW(Dyn) * dynamic;
    const char* strings;
    const char* name;        /* of its file, without folders; "": it has none */
    const char* shared_name; /* as it calls itself; NULL: it does not */
    uint32_t name_hash;
    uint32_t shared_hash;
    uintptr_t begin, end; /* of what is mapped of it */
    bool stays;
    bool is_done; /* whom it needs is known */
};

struct objects {
    struct object* at;
    uint32_t count;
};

static uint32_t hash_of(const char* text) {
    uint32_t hash = 0x811c9dc5u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x01000193u;
    return hash;
}

static const char* without_folders(const char* path) {
    const char* const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static ElfW(Xword) value_of(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag) {
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == tag) return dynamic->d_un.d_val;
    return 0;
}

/* Some loaders put the address there where the file has an offset, and that not in all objects. */
static const char* strings_of(const ElfW(Dyn) * dynamic, uintptr_t base) {
    const uintptr_t value = value_of(dynamic, DT_STRTAB);
    return (const char*)(value < base ? value + base : value);
}

static void add_object(struct objects* objects, const struct dl_phdr_info* info) {
    struct object* const object = &objects->at[objects->count++];
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            if (object->end == 0 || begin < object->begin) object->begin = begin;
            if (begin + segment->p_memsz > object->end) object->end = begin + segment->p_memsz;
        }
        if (segment->p_type == PT_DYNAMIC) object->dynamic = (const ElfW(Dyn)*)begin;
    }
    object->name = info->dlpi_name != NULL ? without_folders(info->dlpi_name) : "";
    object->name_hash = hash_of(object->name);
    if (object->dynamic == NULL) return;
    const ElfW(Xword) shared_name = value_of(object->dynamic, DT_SONAME);
    object->strings = strings_of(object->dynamic, info->dlpi_addr);
    object->shared_name = shared_name != 0 ? object->strings + shared_name : NULL;
    object->shared_hash = shared_name != 0 ? hash_of(object->shared_name) : 0;
    object->stays = (value_of(object->dynamic, DT_FLAGS_1) & DF_1_NODELETE) != 0;
}

static int add_each(struct dl_phdr_info* info, size_t bytes, void* data) {
    struct objects* const objects = data;
    (void)bytes;
    if (objects->count == OBJECTS_MAX) return 1;
    add_object(objects, info);
    return 0;
}

static bool is_called(const struct object* object, const char* name, uint32_t hash) {
    if (object->shared_name != NULL && object->shared_hash == hash && strcmp(object->shared_name, name) == 0)
        return true;
    return object->name_hash == hash && strcmp(object->name, name) == 0;
}

static void keep(const struct objects* objects, const char* name) {
    const uint32_t hash = hash_of(name);
    for (uint32_t i = 0; i < objects->count; i++)
        if (is_called(&objects->at[i], name, hash)) {
            objects->at[i].stays = true;
            return;
        }
}

static void keep_those_needed_by(const struct objects* objects, const struct object* object) {
    for (const ElfW(Dyn)* entry = object->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED) keep(objects, without_folders(object->strings + entry->d_un.d_val));
}

/* What somebody needs who stays, stays. */
static void keep_all(const struct objects* objects) {
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (uint32_t i = 0; i < objects->count; i++) {
            struct object* const object = &objects->at[i];
            if (!object->stays || object->is_done) continue;
            object->is_done = is_more = true;
            keep_those_needed_by(objects, object);
        }
    }
}

static bool has(const struct object* object, const void* address) {
    return (uintptr_t)address >= object->begin && (uintptr_t)address < object->end;
}

/* Whether the object of the address stays when those stay that are marked. */
static bool stays(const struct objects* objects, const void* address) {
    keep_all(objects);
    for (uint32_t i = 0; i < objects->count; i++)
        if (has(&objects->at[i], address)) return objects->at[i].stays;
    return false;
}

struct wanted_in_first {
    uintptr_t address;
    bool is_there;
};

static int look_at_first(struct dl_phdr_info* info, size_t bytes, void* data) {
    struct wanted_in_first* const wanted = data;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            wanted->address - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) < info->dlpi_phdr[i].p_memsz)
            wanted->is_there = true;
    return 1;
}

/* The first one, as most are of which it is asked: nothing else needs to be looked at. */
static bool is_of_executable(const void* address) {
    struct wanted_in_first wanted = {(uintptr_t)address, false};
    dl_iterate_phdr(look_at_first, &wanted);
    return wanted.is_there;
}

bool is_loaded_for_good(const void* address) {
    if (is_of_executable(address)) return true;
    struct arena arena = {NULL};
    struct objects objects = {arena_take(&arena, OBJECTS_MAX * sizeof(struct object)), 0};
    if (objects.at == NULL) return false;
    dl_iterate_phdr(add_each, &objects);
    if (objects.count != 0) objects.at[0].stays = true; /* the executable */
    const bool for_good = stays(&objects, address);
    arena_give_back(&arena);
    return for_good;
}

bool may_go_with(const void* address, const void* of) {
    struct arena arena = {NULL};
    struct objects objects = {arena_take(&arena, OBJECTS_MAX * sizeof(struct object)), 0};
    bool is_known = false;
    if (objects.at == NULL) return true;
    dl_iterate_phdr(add_each, &objects);
    for (uint32_t i = 0; i < objects.count; i++) {
        objects.at[i].stays = has(&objects.at[i], of);
        is_known |= objects.at[i].stays;
    }
    const bool goes = !is_known || stays(&objects, address);
    arena_give_back(&arena);
    return goes;
}

struct wanted_code {
    uintptr_t address;
    struct code code;
};

static int look_for_code(struct dl_phdr_info* info, size_t bytes, void* data) {
    struct wanted_code* const wanted = data;
    struct code code = {UINTPTR_MAX, 0};
    bool is_here = false;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD) continue;
        is_here |= wanted->address - begin < segment->p_memsz;
        if ((segment->p_flags & PF_X) == 0) continue;
        if (begin < code.begin) code.begin = begin;
        if (begin + segment->p_memsz > code.end) code.end = begin + segment->p_memsz;
    }
    if (is_here) wanted->code = code;
    return is_here;
}

struct code code_of(const void* address) {
    struct wanted_code wanted = {(uintptr_t)address, {0, UINTPTR_MAX}};
    dl_iterate_phdr(look_for_code, &wanted);
    return wanted.code;
}

static int look_for_segment(struct dl_phdr_info* info, size_t bytes, void* data) {
    struct wanted_code* const wanted = data;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        const bool can_be_read_and_run = (segment->p_flags & (PF_X | PF_R)) == (PF_X | PF_R);
        if (segment->p_type != PT_LOAD || !can_be_read_and_run ||
            wanted->address - begin >= segment->p_filesz)
            continue;
        wanted->code = (struct code){begin, begin + segment->p_filesz};
        return 1;
    }
    return 0;
}

struct code code_around(const void* address) {
    struct wanted_code wanted = {(uintptr_t)address, {0, 0}};
    dl_iterate_phdr(look_for_segment, &wanted);
    return wanted.code;
}

struct wanted_index {
    uintptr_t address;
    struct unwind_index index;
};

static const ElfW(Phdr) * segment_of(const struct dl_phdr_info* info, uintptr_t address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && address - (info->dlpi_addr + segment->p_vaddr) < segment->p_filesz)
            return segment;
    }
    return NULL;
}

static int look_for_index(struct dl_phdr_info* info, size_t bytes, void* data) {
    struct wanted_index* const wanted = data;
    (void)bytes;
    if (segment_of(info, wanted->address) == NULL) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const header = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + header->p_vaddr;
        const ElfW(Phdr)* const around = header->p_type == PT_GNU_EH_FRAME ? segment_of(info, at) : NULL;
        if (around == NULL) continue;
        const uintptr_t first = info->dlpi_addr + around->p_vaddr;
        wanted->index = (struct unwind_index){
            (const unsigned char*)at, (const unsigned char*)(at + header->p_filesz),
            (const unsigned char*)first, (const unsigned char*)(first + around->p_filesz)};
    }
    return 1;
}

struct unwind_index unwind_index_of(const void* address) {
    struct wanted_index wanted = {(uintptr_t)address, {NULL, NULL, NULL, NULL}};
    dl_iterate_phdr(look_for_index, &wanted);
    return wanted.index;
}

bool keep_loaded(const void* address) {
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return false;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}
