/*
 * One ELF file, as far as names for addresses need it. Read through libelf, which checks what it reads; the path comes from
 * a trace and may be anything.
 */
#ifndef PLUMB_TRACE_SYMBOL_FILE_H
#define PLUMB_TRACE_SYMBOL_FILE_H

#include "base/file.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gelf.h>

namespace plumb {

/* Addresses from `begin` to before `end`. */
struct AddressRange {
    uint64_t begin;
    uint64_t end;
};

struct FileSymbol {
    uint64_t address;
    uint64_t size;
    std::string name;
};

class SymbolFile {
public:
    explicit SymbolFile(const std::string& path);
    ~SymbolFile();
    SymbolFile(const SymbolFile&) = delete;
    SymbolFile& operator=(const SymbolFile&) = delete;

    bool is_open() const { return elf_ != nullptr; }
    /* In hexadecimal; empty if it has none. */
    std::string build_id() const;
    /* Of the first page that is loaded. */
    uint64_t first_address() const;
    /* Where what is loaded ends, from there on: with what is no part of the file (.bss), or the file's pages alone. */
    uint64_t memory_bytes() const;
    uint64_t mapped_bytes() const;
    /* When its content or what is known of it (a rename) was changed last, since 1970. */
    int64_t changed_ns() const;
    /* What may be executed. */
    std::vector<AddressRange> code() const;
    /* .symtab holds static names too; .dynsym is what a stripped file still has. */
    void take_symbols(std::vector<FileSymbol>& symbols) const;
    /* Where functions begin, in order: a stripped file still tells that to who unwinds its stack (.eh_frame_hdr). */
    std::vector<uint64_t> function_starts() const;

private:
    static std::string build_id_in(Elf_Data* notes);
    std::vector<GElf_Phdr> loaded_segments() const;
    void take_section(std::vector<FileSymbol>& symbols, Elf_Scn* section, const GElf_Shdr& header) const;

    FileDescriptor file_;
    Elf* elf_ = nullptr;
};

} // namespace plumb

#endif
