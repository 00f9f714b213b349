/*
 * A 64-bit little-endian ELF file as the dynamic linker would see it, without running it: what a word of
 * memory holds once relocations are done. A pointer in a PIE or a shared object is zero in the file and
 * stands in a relocation; packed relative relocations (RELR) leave it in place.
 *
 * The file is not trusted: every offset is checked against the bytes that are there, each table is read once,
 * and the numbers of relocations and of dynamic entries that are looked at, of all sections together, are bounded. It is read with pread(), never mapped: a file
 * that is cut off meanwhile gives an error, no SIGBUS.
 */
#ifndef PLUMB_BASE_ELF_FILE_H
#define PLUMB_BASE_ELF_FILE_H

#include "base/file.h"
#include "base/result.h"

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class ElfFile {
public:
    static Result<ElfFile> open(const std::string& path);
    static Result<ElfFile> of_file(FileDescriptor file, const std::string& name);
    /* `bytes` must outlive this. */
    static Result<ElfFile> of_bytes(std::span<const std::byte> bytes, const std::string& name);

    /* The first section of this name that is part of the program's memory. */
    const Elf64_Shdr* section(const std::string& name) const;
    const std::vector<Elf64_Shdr>& sections() const { return sections_; }
    /* Those that are loaded. */
    const std::vector<Elf64_Phdr>& segments() const { return segments_; }
    /* Empty if it can not be known; its first bytes if it is very long. */
    std::string section_name(const Elf64_Shdr& section) const;
    /* What the file holds of a section; nothing if that is not all there, or more than `limit`. */
    std::optional<std::vector<std::byte>> section_bytes(const Elf64_Shdr& section, std::uint64_t limit) const;
    /* Whether the file asks for a shared object whose name begins so ("libplumb.so"). */
    bool needs_library(const std::string& beginning) const;

    /* Bytes at an address, as the file has them. False if the file has none there. */
    bool read_memory(std::uint64_t address, void* to, std::size_t bytes) const;
    /* So that pointer_at() is right; what has events or tracepoints in sections of its own need not ask. */
    void know_relocations();
    /* The address that the pointer at `address` holds when the program runs; nothing if that can not be
     * known: outside, or it belongs to another object. */
    std::optional<std::uint64_t> pointer_at(std::uint64_t address) const;
    /* Where in the file the byte is that is loaded to an address. */
    std::optional<std::uint64_t> file_offset_of(std::uint64_t address) const;
    /* The address that a place in the file is loaded to; where it may be run, if it is loaded more than once. */
    std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;
    /* Whether what is loaded to an address may be run, and is not constants beside the code, as far as the file says. */
    bool is_code(std::uint64_t address) const;
    std::uint16_t machine() const { return machine_; }
    /* A NUL-terminated string of at most `limit` bytes. */
    std::optional<std::string> string_at(std::uint64_t address, std::size_t limit) const;

    /* What is odd about the file, for people. */
    const std::vector<std::string>& notes() const { return notes_; }

private:
    struct Relocation {
        std::uint64_t address;
        std::uint64_t value;
        bool known; /* false: defined in another object */
    };
    ElfFile() = default;
    Status load(const std::string& name);
    Status load_sections(const Elf64_Ehdr& header, const std::string& name);
    Status load_segments(const Elf64_Ehdr& header, const std::string& name);
    bool add_relocations(const Elf64_Shdr& section, std::size_t& budget);
    std::optional<std::uint64_t> symbol_value(const Elf64_Shdr& table, std::uint32_t index) const;
    bool read_file(std::uint64_t offset, void* to, std::size_t bytes) const;
    /* Where in the file an address is, and how many bytes of memory it has from there. */
    std::optional<std::pair<std::uint64_t, std::uint64_t>> offset_of(std::uint64_t address) const;

    FileDescriptor file_;
    std::span<const std::byte> bytes_;
    std::uint64_t total_bytes_ = 0;
    std::uint16_t machine_ = 0;
    std::uint16_t type_ = 0;
    std::vector<Elf64_Shdr> sections_;
    std::vector<Elf64_Phdr> segments_;
    std::string section_names_;
    std::vector<Relocation> relocations_; /* by address */
    bool knows_relocations_ = false;
    std::vector<std::string> notes_;
};

} // namespace plumb

#endif
