// Finds a function of the vDSO, the code that the kernel maps into each process, so that the clock is read by it and by
// nothing else: a C library may not use it (an old one in a static program), and its function may be somebody else's
// (a preloaded library that changes the time).
#include "bytes.h"
#include "runtime.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

namespace plumb {

namespace {

struct Symbols {
    const ElfW(Sym) * table;
    const char* names;
    uint32_t count;
};

// Of a table by GNU's hash the count is behind the last chain.
uint32_t count_by_gnu_hash(const uint32_t* hash) {
    const uint32_t bucket_count = hash[0];
    const uint32_t first = hash[1];
    const uint32_t* const buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* const chains = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++)
        if (buckets[i] > last) last = buckets[i];
    if (last < first) return first;
    while ((chains[last - first] & 1) == 0)
        last++;
    return last + 1;
}

// Addresses in the vDSO are offsets from where it begins, or, as far as anybody knows, from where it was linked.
Symbols symbols_of(const ElfW(Phdr) * segments, uint32_t segment_count, uint64_t start, uint64_t& shift) {
    const ElfW(Dyn)* dynamic = nullptr;
    shift = start;
    for (uint32_t i = 0; i < segment_count; i++) {
        const ElfW(Phdr)& segment = segments[i];
        if (segment.p_type == PT_LOAD && segment.p_offset == 0) shift = start - segment.p_vaddr;
        if (segment.p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(start + segment.p_offset);
    }
    Symbols symbols = {};
    const uint32_t* hash = nullptr;
    const uint32_t* gnu_hash = nullptr;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; dynamic++) {
        const uint64_t at = shift + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB) symbols.table = reinterpret_cast<const ElfW(Sym)*>(at);
        if (dynamic->d_tag == DT_STRTAB) symbols.names = reinterpret_cast<const char*>(at);
        if (dynamic->d_tag == DT_HASH) hash = reinterpret_cast<const uint32_t*>(at);
        if (dynamic->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const uint32_t*>(at);
    }
    if (symbols.table == nullptr || symbols.names == nullptr) return {};
    symbols.count = hash != nullptr ? hash[1] : gnu_hash != nullptr ? count_by_gnu_hash(gnu_hash) : 0;
    return symbols;
}

} // namespace

void* find_in_vdso(const char* name) {
    const uint64_t start = told_at_start(AT_SYSINFO_EHDR);
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(start);
    ElfW(Ehdr) there; // unless the program has unmapped it
    if (start == 0 || !copy_own_memory(start, &there, sizeof(there)) ||
        !are_same(there.e_ident, ELFMAG, SELFMAG) || there.e_phentsize != sizeof(ElfW(Phdr)))
        return nullptr;
    uint64_t shift = 0;
    const Symbols symbols = symbols_of(reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff),
                                       header->e_phnum, start, shift);
    for (uint32_t i = 0; i < symbols.count; i++) {
        const ElfW(Sym)& symbol = symbols.table[i];
        if (symbol.st_shndx != SHN_UNDEF && is_text(symbols.names + symbol.st_name, name))
            return reinterpret_cast<void*>(shift + symbol.st_value);
    }
    return nullptr;
}

} // namespace plumb
