/* Reads the tables by which the dynamic linker itself looks names up (System V gABI, chapter 5; the symbol versions of the
 * LSB), in the list of objects that it keeps for debuggers. Nothing is called: a function that is looked up with may be the
 * program's own, and may itself call one that is looked for. */
#include "next.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* glibc has the first, which from 2.35 on leads to those of further namespaces (dlmopen()); musl has the second. */
extern struct r_debug _r_debug __attribute__((weak));
extern struct r_debug* _dl_debug_addr __attribute__((weak));
struct extended {
    struct r_debug base;
    struct extended* next;
};

/* Of the object that this is linked into. */
extern const ElfW(Dyn) own_dynamic_section[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

struct object {
    uintptr_t shift; /* of its addresses, against those in the file */
    const ElfW(Sym) * symbols;
    const char* names;
    const uint32_t* gnu_hash;
    const uint32_t* hash;
    const ElfW(Half) * symbol_versions; /* NULL: it has none */
    const ElfW(Verdef) * versions;
    size_t version_count;
};

struct search {
    const char* name;
    const char* version; /* NULL: the default one */
};

/* glibc has put addresses in place of offsets in most objects; the vDSO has what is in the file, and so have all in musl. */
static const void* place(const struct object* object, uintptr_t value) {
    return (const void*)(value < object->shift ? object->shift + value : value);
}

static bool read_tables(const struct link_map* map, struct object* object) {
    *object = (struct object){.shift = map->l_addr};
    for (const ElfW(Dyn)* dynamic = map->l_ld; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void* const at = place(object, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB) object->symbols = at;
        if (dynamic->d_tag == DT_STRTAB) object->names = at;
        if (dynamic->d_tag == DT_GNU_HASH) object->gnu_hash = at;
        if (dynamic->d_tag == DT_HASH) object->hash = at;
        if (dynamic->d_tag == DT_VERSYM) object->symbol_versions = at;
        if (dynamic->d_tag == DT_VERDEF) object->versions = at;
        if (dynamic->d_tag == DT_VERDEFNUM) object->version_count = dynamic->d_un.d_val;
    }
    return object->symbols && object->names && (object->gnu_hash || object->hash);
}

/* strcmp() may be the program's own as well. */
static bool is_same(const char* a, const char* b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* 0: the object does not define it. */
static unsigned number_of_version(const struct object* object, const char* version) {
    const ElfW(Verdef)* each = object->versions;
    for (size_t i = 0; each && i < object->version_count; i++) {
        const ElfW(Verdaux)* const name = (const ElfW(Verdaux)*)((const char*)each + each->vd_aux);
        if (!(each->vd_flags & VER_FLG_BASE) && is_same(object->names + name->vda_name, version))
            return each->vd_ndx & 0x7fff;
        each = (const ElfW(Verdef)*)((const char*)each + each->vd_next);
    }
    return 0;
}

static bool is_wanted(const struct object* object, uint32_t number, const struct search* search) {
    const ElfW(Sym)* const symbol = &object->symbols[number];
    const unsigned type = symbol->st_info & 15, binding = symbol->st_info >> 4;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
        (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC) || binding == STB_LOCAL ||
        !is_same(object->names + symbol->st_name, search->name))
        return false;
    if (!object->symbol_versions) return true;
    enum { is_hidden = 0x8000 };
    const unsigned version = object->symbol_versions[number];
    if (!search->version) return !(version & is_hidden);
    const unsigned wanted = number_of_version(object, search->version);
    return wanted != 0 && (version & 0x7fff) == wanted;
}

/* All that is loaded has been relocated before the first constructor, so what chooses can be asked. */
static void* address_of(const struct object* object, uint32_t number) {
    const ElfW(Sym)* const symbol = &object->symbols[number];
    void* const at = (void*)(object->shift + symbol->st_value);
    return (symbol->st_info & 15) == STT_GNU_IFUNC ? ((void* (*)(void))at)() : at;
}

static void* find_by_gnu_hash(const struct object* object, const struct search* search) {
    uint32_t hash = 5381;
    for (const unsigned char* at = (const unsigned char*)search->name; *at; at++)
        hash = hash * 33 + *at;
    const uint32_t bucket_count = object->gnu_hash[0], first = object->gnu_hash[1];
    const uint32_t* const buckets =
        object->gnu_hash + 4 + object->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* const chains = buckets + bucket_count;
    if (bucket_count == 0) return NULL;
    uint32_t number = buckets[hash % bucket_count];
    if (number < first) return NULL;
    for (;; number++) {
        const uint32_t of_this = chains[number - first];
        if ((of_this | 1) == (hash | 1) && is_wanted(object, number, search))
            return address_of(object, number);
        if (of_this & 1) return NULL;
    }
}

static void* find_in(const struct object* object, const struct search* search) {
    if (object->gnu_hash) return find_by_gnu_hash(object, search);
    for (uint32_t number = 1; number < object->hash[1]; number++)
        if (is_wanted(object, number, search)) return address_of(object, number);
    return NULL;
}

/* Where this object stands in the list of its namespace; NULL: in none. */
static const struct link_map* own_place(void) {
    const bool is_glibc = &_r_debug != NULL;
    const struct r_debug* list = is_glibc ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : NULL;
    while (list) {
        for (const struct link_map* map = list->r_map; map; map = map->l_next)
            if (map->l_ld == own_dynamic_section) return map;
        const bool has_next = is_glibc && list->r_version >= 2;
        list = has_next ? (const struct r_debug*)((const struct extended*)list)->next : NULL;
    }
    return NULL;
}

void* plumb_find_next(const char* name, const char* version) {
    const struct search search = {name, version};
    const struct link_map* map = own_place();
    while (map && (map = map->l_next)) {
        struct object object;
        void* const found = read_tables(map, &object) ? find_in(&object, &search) : NULL;
        if (found) return found;
    }
    return NULL;
}
