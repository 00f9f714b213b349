#include "relocations.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wanted {
    uintptr_t pointer; /* or any address of the object, if it may be */
    bool is_any;       /* of its relocations */
    const char* name;
    bool is_it;
};

struct tables {
    const ElfW(Sym) * symbols;
    const char* strings;
};

/* Some loaders put the address there where the file has an offset, and that not in all objects. */
static uintptr_t address_of(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag, uintptr_t base) {
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == tag)
            return dynamic->d_un.d_val < base ? dynamic->d_un.d_val + base : dynamic->d_un.d_val;
    return 0;
}

static size_t bytes_of(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag) {
    return address_of(dynamic, tag, 0);
}

/* Whether it is known by these. */
static bool know(struct wanted* wanted, const ElfW(Rela) * relocations, size_t bytes, uintptr_t base,
                 const struct tables* tables) {
    if (relocations == NULL) return false;
    for (size_t i = 0; i < bytes / sizeof(*relocations); i++) {
        if (!wanted->is_any && base + relocations[i].r_offset != wanted->pointer) continue;
        const ElfW(Sym)* const symbol = &tables->symbols[ELF64_R_SYM(relocations[i].r_info)];
        wanted->is_it = strcmp(tables->strings + symbol->st_name, wanted->name) == 0;
        if (wanted->is_it || !wanted->is_any) return true;
    }
    return false;
}

static int look_for_name(struct dl_phdr_info* info, size_t info_bytes, void* data) {
    struct wanted* const wanted = data;
    const uintptr_t base = info->dlpi_addr;
    const ElfW(Dyn)* dynamic = NULL;
    bool is_here = false;
    (void)info_bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* const segment = &info->dlpi_phdr[i];
        const uintptr_t begin = base + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)begin;
        if (segment->p_type == PT_LOAD) is_here |= wanted->pointer - begin < segment->p_memsz;
    }
    if (!is_here) return 0;
    if (dynamic == NULL) return 1;
    const struct tables tables = {(const ElfW(Sym)*)address_of(dynamic, DT_SYMTAB, base),
                                  (const char*)address_of(dynamic, DT_STRTAB, base)};
    if (tables.symbols == NULL || tables.strings == NULL) return 1;
    if (!know(wanted, (const ElfW(Rela)*)address_of(dynamic, DT_JMPREL, base), bytes_of(dynamic, DT_PLTRELSZ),
              base, &tables))
        know(wanted, (const ElfW(Rela)*)address_of(dynamic, DT_RELA, base), bytes_of(dynamic, DT_RELASZ),
             base, &tables);
    return 1;
}

bool is_pointer_to_function(const void* pointer, const char* name) {
    struct wanted wanted = {(uintptr_t)pointer, false, name, false};
    dl_iterate_phdr(look_for_name, &wanted);
    return wanted.is_it;
}

bool refers_to_function(const void* address, const char* name) {
    struct wanted wanted = {(uintptr_t)address, true, name, false};
    dl_iterate_phdr(look_for_name, &wanted);
    return wanted.is_it;
}
