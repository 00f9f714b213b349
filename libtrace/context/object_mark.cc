#include "object_mark.h"

#include "../bytes.h"
#include "../runtime.h"

#include <elf.h>
#include <link.h>

namespace plumb::context {

namespace {

constexpr uint64_t multiplier = 0x9e3779b97f4a7c15u;
constexpr uint32_t page_bytes = 4096;
// Of which no linker makes less; the first of them count.
constexpr uint32_t build_id_bytes = 16;

// Where in an object's first page its build id is, by what was known of it before: 48 bits of that, and an offset; 0 is none. If
// another object is there by now, what it has at that offset is something else.
constexpr uint32_t place_count = 256, offset_bits = 16;
uint64_t places[place_count];
uint32_t gone;

uint32_t find_in_notes(Memory& memory, uint64_t start, uint64_t at, uint64_t end) {
    constexpr uint32_t notes_max = 16;
    for (uint32_t i = 0; i < notes_max && at + sizeof(ElfW(Nhdr)) <= end; i++) {
        ElfW(Nhdr) note;
        if (!memory.load(start + at, note)) return 0;
        const uint64_t content = at + sizeof(note) + ((uint64_t{note.n_namesz} + 3) & ~uint64_t{3});
        uint32_t name = 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz >= build_id_bytes &&
            content + build_id_bytes <= end && memory.load(start + at + sizeof(note), name) &&
            name == ('G' | 'N' << 8 | 'U' << 16))
            return static_cast<uint32_t>(content);
        at = content + ((uint64_t{note.n_descsz} + 3) & ~uint64_t{3});
    }
    return 0;
}

// 0: there is none, or not in the first page, where linkers put it.
uint32_t find_build_id(Memory& memory, const Object& object) {
    ElfW(Ehdr) header;
    if (!memory.load(object.start, header) || !are_same(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_phentsize != sizeof(ElfW(Phdr)))
        return 0;
    for (uint64_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;
        if (header.e_phoff > page_bytes || (i + 1) * sizeof(segment) > page_bytes - header.e_phoff) return 0;
        if (!memory.load(object.start + header.e_phoff + i * sizeof(segment), segment)) return 0;
        if (segment.p_type != PT_NOTE || segment.p_offset >= page_bytes) continue;
        const uint64_t room = page_bytes - segment.p_offset;
        const uint64_t end = segment.p_offset + (segment.p_filesz < room ? segment.p_filesz : room);
        if (const uint32_t offset = find_in_notes(memory, object.start, segment.p_offset, end); offset != 0)
            return offset;
    }
    return 0;
}

} // namespace

uint16_t object_mark(Memory& memory, const Object& object, uint64_t link_map) {
    uint64_t what = object.start ^ object.frame_header << 7 ^ link_map << 13;
    uint64_t& place = places[what * multiplier >> 56];
    uint64_t known = load_relaxed(place);
    if (known >> offset_bits != (what * multiplier & (UINT64_MAX >> offset_bits)) || known == 0) {
        known =
            (what * multiplier & (UINT64_MAX >> offset_bits)) << offset_bits | find_build_id(memory, object);
        store_relaxed(place, known);
    }
    uint64_t build_id[2] = {load_relaxed(gone), 0};
    // Without asking whether it is there, for each stack: a loaded object's first page is, and could be read when it was looked for.
    if (const uint64_t offset = known & ((1u << offset_bits) - 1); offset != 0)
        __builtin_memcpy(build_id, reinterpret_cast<const void*>(object.start + offset), sizeof(build_id));
    what = (what * multiplier ^ build_id[0]) * multiplier ^ build_id[1];
    return static_cast<uint16_t>(what * multiplier >> 48);
}

void forget_object_marks() {
    __atomic_fetch_add(&gone, 1, __ATOMIC_RELAXED);
}

} // namespace plumb::context
