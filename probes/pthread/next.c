/* Reads the tables by which the dynamic linker itself looks names up (System V gABI, chapter 5; the symbol versions of the
 * LSB), in memory. */
#include "next.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct object {
    uintptr_t shift; /* of its addresses, against those in the file */
    uintptr_t begin, end;
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
    bool is_behind_us;
    void* found;
};

/* Some loaders have put addresses in place of offsets here, and others leave what is in the file. */
static const void* place(const struct object* object, uintptr_t value) {
    const bool is_address = value >= object->begin && value < object->end;
    return (const void*)(is_address ? value : object->shift + value);
}

static bool read_tables(const struct dl_phdr_info* info, struct object* object) {
    const ElfW(Dyn)* dynamic = NULL;
    *object = (struct object){.shift = info->dlpi_addr, .begin = UINTPTR_MAX};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        const uintptr_t at = object->shift + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)at;
        if (segment->p_type != PT_LOAD) continue;
        if (at < object->begin) object->begin = at;
        if (at + segment->p_memsz > object->end) object->end = at + segment->p_memsz;
    }
    if (!dynamic) return false;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
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

/* 0: the object does not define it. */
static unsigned number_of_version(const struct object* object, const char* version) {
    const ElfW(Verdef)* each = object->versions;
    for (size_t i = 0; each && i < object->version_count; i++) {
        const ElfW(Verdaux)* const name = (const ElfW(Verdaux)*)((const char*)each + each->vd_aux);
        if (!(each->vd_flags & VER_FLG_BASE) && strcmp(object->names + name->vda_name, version) == 0)
            return each->vd_ndx & 0x7fff;
        each = (const ElfW(Verdef)*)((const char*)each + each->vd_next);
    }
    return 0;
}

static bool is_wanted(const struct object* object, uint32_t number, const struct search* search) {
    const ElfW(Sym)* const symbol = &object->symbols[number];
    const unsigned type = symbol->st_info & 15, binding = symbol->st_info >> 4;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || (type != STT_FUNC && type != STT_NOTYPE) ||
        binding == STB_LOCAL || strcmp(object->names + symbol->st_name, search->name) != 0)
        return false;
    if (!object->symbol_versions) return true;
    enum { is_hidden = 0x8000 };
    const unsigned version = object->symbol_versions[number];
    if (!search->version) return !(version & is_hidden);
    const unsigned wanted = number_of_version(object, search->version);
    return wanted != 0 && (version & 0x7fff) == wanted;
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
            return (void*)(object->shift + object->symbols[number].st_value);
        if (of_this & 1) return NULL;
    }
}

static void* find_in(const struct object* object, const struct search* search) {
    if (object->gnu_hash) return find_by_gnu_hash(object, search);
    for (uint32_t number = 1; number < object->hash[1]; number++)
        if (is_wanted(object, number, search))
            return (void*)(object->shift + object->symbols[number].st_value);
    return NULL;
}

static int look_at(struct dl_phdr_info* info, size_t bytes, void* wanted) {
    (void)bytes;
    struct search* const search = wanted;
    struct object object;
    if (!read_tables(info, &object)) return 0;
    if (!search->is_behind_us) {
        const uintptr_t here = (uintptr_t)plumb_find_next;
        search->is_behind_us = here >= object.begin && here < object.end;
        return 0;
    }
    search->found = find_in(&object, search);
    return search->found != NULL;
}

void* plumb_find_next(const char* name, const char* version) {
    struct search search = {name, version, false, NULL};
    dl_iterate_phdr(look_at, &search);
    return search.found;
}
