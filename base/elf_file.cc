#include "base/elf_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

namespace {

constexpr std::size_t names_bytes_max = std::size_t{16} << 20, name_bytes_max = 1024;
constexpr std::size_t relocations_max = std::size_t{1} << 22;
constexpr std::size_t dynamic_entries_max = 4096;
constexpr std::size_t sections_max = std::size_t{1} << 20;
/* Of a file with more, the kernel loads none; each is looked at for each address. */
constexpr std::size_t segments_of_file_max = 65536 / sizeof(Elf64_Phdr);

/* The relocation types that fill a whole word. */
struct WordRelocations {
    std::uint16_t machine;
    std::uint32_t relative;
    std::uint32_t absolute;
    std::uint32_t global_data;
};
constexpr WordRelocations word_relocations[] = {
    {EM_X86_64, R_X86_64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT},
    {EM_AARCH64, R_AARCH64_RELATIVE, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT},
};

} // namespace

bool ElfFile::read_file(std::uint64_t offset, void* to, std::size_t bytes) const {
    if (offset > total_bytes_ || bytes > total_bytes_ - offset) return false;
    if (!file_.is_open()) {
        if (bytes != 0) std::memcpy(to, bytes_.data() + offset, bytes);
        return true;
    }
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t got = ::pread(file_.get(), static_cast<char*>(to) + done, bytes - done,
                                    static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += static_cast<std::size_t>(got);
    }
    return true;
}

Result<ElfFile> ElfFile::open(const std::string& path) {
    Result<FileDescriptor> file = open_regular_file(path);
    if (!file) return file.error();
    return of_file(std::move(*file), path);
}

Result<ElfFile> ElfFile::of_file(FileDescriptor file, const std::string& name) {
    ElfFile elf;
    elf.file_ = std::move(file);
    struct stat info {};
    if (::fstat(elf.file_.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", name);
    elf.total_bytes_ = static_cast<std::uint64_t>(info.st_size);
    const Status loaded = elf.load(name);
    if (!loaded) return loaded.error();
    return elf;
}

Result<ElfFile> ElfFile::of_bytes(std::span<const std::byte> bytes, const std::string& name) {
    ElfFile elf;
    elf.bytes_ = bytes;
    elf.total_bytes_ = bytes.size();
    const Status loaded = elf.load(name);
    if (!loaded) return loaded.error();
    return elf;
}

Status ElfFile::load(const std::string& name) {
    Elf64_Ehdr header;
    if (!read_file(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return Error("{} is not an executable or shared object (no ELF file).", name);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return Error("{} is not a 64-bit little-endian ELF file; only those are read.", name);
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return Error("{} is not linked.", name).hint("Name the executable or shared object made from it.");
    machine_ = header.e_machine;
    type_ = header.e_type;
    const Status segments = load_segments(header, name);
    if (!segments) return segments.error();
    const Status sections = load_sections(header, name);
    if (!sections) return sections.error();
    if (section("plumb_events") != nullptr || section("lttng_ust_tracepoints_ptrs") != nullptr)
        know_relocations();
    return ok();
}

Status ElfFile::load_segments(const Elf64_Ehdr& header, const std::string& name) {
    if (header.e_phnum == 0) return ok();
    if (header.e_phentsize != sizeof(Elf64_Phdr))
        return Error("{} is damaged: its program headers have {} bytes.", name, header.e_phentsize);
    if (header.e_phnum > segments_of_file_max)
        return Error("{} is damaged: it has {} program headers, more than {}.", name, header.e_phnum,
                     segments_of_file_max);
    segments_.resize(header.e_phnum);
    if (!read_file(header.e_phoff, segments_.data(), segments_.size() * sizeof(Elf64_Phdr)))
        return Error("{} is damaged: its program headers lie outside of it.", name);
    std::erase_if(segments_, [](const Elf64_Phdr& segment) { return segment.p_type != PT_LOAD; });
    return ok();
}

Status ElfFile::load_sections(const Elf64_Ehdr& header, const std::string& name) {
    std::uint64_t count = header.e_shnum, names_at = header.e_shstrndx;
    /* Of 65,280 sections or more, their number stands in the first one. */
    Elf64_Shdr first{};
    if (count == 0 && header.e_shoff != 0 && header.e_shentsize == sizeof(first) &&
        read_file(header.e_shoff, &first, sizeof(first)))
        count = first.sh_size;
    if (count == 0) {
        notes_.push_back("It has no section headers, so its events can not be found.");
        return ok();
    }
    if (header.e_shentsize != sizeof(Elf64_Shdr))
        return Error("{} is damaged: its section headers have {} bytes.", name, header.e_shentsize);
    if (count > sections_max) return Error("{} is damaged: it has {} sections.", name, count);
    sections_.resize(count);
    if (!read_file(header.e_shoff, sections_.data(), sections_.size() * sizeof(Elf64_Shdr)))
        return Error("{} is damaged: its section headers lie outside of it.", name);
    if (names_at == SHN_XINDEX) names_at = sections_[0].sh_link;
    if (names_at >= sections_.size())
        return Error("{} is damaged: its section names are in section {} of {}.", name, names_at,
                     sections_.size());
    const Elf64_Shdr& names = sections_[names_at];
    if (names.sh_size > names_bytes_max || names.sh_size > total_bytes_)
        return Error("{} is damaged: {} bytes of section names.", name, names.sh_size);
    section_names_.resize(names.sh_size);
    if (!read_file(names.sh_offset, section_names_.data(), section_names_.size()))
        return Error("{} is damaged: its section names lie outside of it.", name);
    return ok();
}

const Elf64_Shdr* ElfFile::section(const std::string& name) const {
    for (const Elf64_Shdr& section : sections_) {
        if (section.sh_name >= section_names_.size() || (section.sh_flags & SHF_ALLOC) == 0) continue;
        /* The string's own NUL ends the last name. What is longer is not looked at: each of a million may be 16 MiB long. */
        if (std::strncmp(section_names_.c_str() + section.sh_name, name.c_str(), name.size() + 1) == 0)
            return &section;
    }
    return nullptr;
}

std::string ElfFile::section_name(const Elf64_Shdr& section) const {
    if (section.sh_name >= section_names_.size()) return "";
    const char* const name = section_names_.c_str() + section.sh_name;
    return {name, ::strnlen(name, name_bytes_max)};
}

std::optional<std::vector<std::byte>> ElfFile::section_bytes(const Elf64_Shdr& section,
                                                             std::uint64_t limit) const {
    if (section.sh_type == SHT_NOBITS || section.sh_size > limit || section.sh_size > total_bytes_ ||
        section.sh_offset > total_bytes_ - section.sh_size)
        return {};
    std::vector<std::byte> bytes(section.sh_size);
    if (!read_file(section.sh_offset, bytes.data(), bytes.size())) return {};
    return bytes;
}

bool ElfFile::needs_library(const std::string& beginning) const {
    std::uint64_t left = dynamic_entries_max; /* of all sections */
    for (const Elf64_Shdr& section : sections_) {
        if (section.sh_type != SHT_DYNAMIC || section.sh_link >= sections_.size()) continue;
        const Elf64_Shdr& strings = sections_[section.sh_link];
        const std::uint64_t count = section.sh_size / sizeof(Elf64_Dyn);
        for (std::uint64_t i = 0; i < count && left > 0; i++, left--) {
            Elf64_Dyn entry;
            if (!read_file(section.sh_offset + i * sizeof(entry), &entry, sizeof(entry))) return false;
            if (entry.d_tag == DT_NULL) break;
            std::string found(beginning.size(), '\0');
            if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < strings.sh_size &&
                read_file(strings.sh_offset + entry.d_un.d_val, found.data(), found.size()) &&
                found == beginning)
                return true;
        }
    }
    return false;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> ElfFile::offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
        if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
        const std::uint64_t inside = address - segment.p_vaddr;
        if (segment.p_offset > total_bytes_ || inside > total_bytes_ - segment.p_offset) return {};
        return std::pair{segment.p_offset + inside, segment.p_filesz - inside};
    }
    return {};
}

std::optional<std::uint64_t> ElfFile::file_offset_of(std::uint64_t address) const {
    const auto place = offset_of(address);
    if (!place) return {};
    return place->first;
}

std::optional<std::uint64_t> ElfFile::address_of(std::uint64_t file_offset) const {
    std::optional<std::uint64_t> found;
    for (const Elf64_Phdr& segment : segments_) {
        if (file_offset < segment.p_offset || file_offset - segment.p_offset >= segment.p_filesz) continue;
        if (!found || (segment.p_flags & PF_X) != 0) found = file_offset - segment.p_offset + segment.p_vaddr;
    }
    return found;
}

bool ElfFile::is_code(std::uint64_t address) const {
    const auto is_in_code = [=](const Elf64_Phdr& segment) {
        return address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_memsz &&
               (segment.p_flags & PF_X) != 0;
    };
    /* A segment may have code and constants (-z noseparate-code). */
    const auto is_in_data = [=](const Elf64_Shdr& section) {
        return (section.sh_flags & SHF_ALLOC) != 0 && (section.sh_flags & SHF_EXECINSTR) == 0 &&
               (section.sh_flags & SHF_TLS) == 0 && address >= section.sh_addr &&
               address - section.sh_addr < section.sh_size;
    };
    return std::any_of(segments_.begin(), segments_.end(), is_in_code) &&
           std::none_of(sections_.begin(), sections_.end(), is_in_data);
}

bool ElfFile::read_memory(std::uint64_t address, void* to, std::size_t bytes) const {
    const auto place = offset_of(address);
    return place && bytes <= place->second && read_file(place->first, to, bytes);
}

std::optional<std::string> ElfFile::string_at(std::uint64_t address, std::size_t limit) const {
    const auto place = offset_of(address);
    if (!place) return {};
    std::string text;
    std::uint64_t left = std::min<std::uint64_t>(place->second, total_bytes_ - place->first);
    std::uint64_t offset = place->first;
    while (left > 0 && text.size() <= limit) {
        char piece[128];
        const std::size_t bytes = std::min<std::uint64_t>(left, sizeof(piece));
        if (!read_file(offset, piece, bytes)) return {};
        const std::size_t length = ::strnlen(piece, bytes);
        text.append(piece, length);
        if (length < bytes) {
            if (text.size() > limit) return {};
            return text;
        }
        offset += bytes;
        left -= bytes;
    }
    return {};
}

void ElfFile::know_relocations() {
    if (knows_relocations_) return;
    knows_relocations_ = true;
    if (type_ == ET_EXEC && std::none_of(sections_.begin(), sections_.end(), [](const Elf64_Shdr& section) {
            return section.sh_type == SHT_DYNAMIC;
        }))
        return;                         /* static and not position-independent: everything is in place */
    std::size_t left = relocations_max; /* of all sections */
    for (const Elf64_Shdr& section : sections_)
        if (section.sh_type == SHT_RELA && (section.sh_flags & SHF_ALLOC) != 0 &&
            !add_relocations(section, left))
            break;
    /* The last one for an address is what counts. */
    std::stable_sort(relocations_.begin(), relocations_.end(),
                     [](const Relocation& a, const Relocation& b) { return a.address < b.address; });
}

/* At most `budget` are looked at, and taken off it. False: no further ones may be. */
bool ElfFile::add_relocations(const Elf64_Shdr& section, std::size_t& budget) {
    const auto* const types =
        std::find_if(std::begin(word_relocations), std::end(word_relocations),
                     [&](const WordRelocations& one) { return one.machine == machine_; });
    if (types == std::end(word_relocations)) {
        notes_.push_back(fmt::format("Its machine ({}) is not one that Plumb knows.", machine_));
        return false;
    }
    if (section.sh_size > total_bytes_ || section.sh_entsize != sizeof(Elf64_Rela)) return true;
    constexpr std::size_t piece_count = 1024;
    std::vector<Elf64_Rela> piece(piece_count);
    std::uint64_t left = section.sh_size / sizeof(Elf64_Rela);
    for (std::uint64_t offset = section.sh_offset; left > 0;) {
        const std::size_t count = std::min<std::uint64_t>({left, piece_count, budget});
        if (count == 0) {
            notes_.push_back(
                fmt::format("It has more than {} relocations; the others are ignored.", relocations_max));
            return false;
        }
        if (!read_file(offset, piece.data(), count * sizeof(Elf64_Rela))) return true;
        for (std::size_t i = 0; i < count; i++) {
            const Elf64_Rela& entry = piece[i];
            const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info));
            Relocation relocation{entry.r_offset, static_cast<std::uint64_t>(entry.r_addend), true};
            if (type == types->absolute || type == types->global_data) {
                const auto symbol =
                    symbol_value(section, static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info)));
                relocation.known = symbol.has_value();
                relocation.value += symbol.value_or(0);
            } else if (type != types->relative) {
                continue;
            }
            relocations_.push_back(relocation);
        }
        offset += count * sizeof(Elf64_Rela);
        left -= count;
        budget -= count;
    }
    return true;
}

std::optional<std::uint64_t> ElfFile::symbol_value(const Elf64_Shdr& table, std::uint32_t index) const {
    if (index == 0) return 0;
    if (table.sh_link >= sections_.size()) return {};
    const Elf64_Shdr& symbols = sections_[table.sh_link];
    Elf64_Sym symbol;
    if (index >= symbols.sh_size / sizeof(symbol) || symbols.sh_offset > total_bytes_ ||
        !read_file(symbols.sh_offset + std::uint64_t{index} * sizeof(symbol), &symbol, sizeof(symbol)) ||
        symbol.st_shndx == SHN_UNDEF)
        return {};
    return symbol.st_value;
}

std::optional<std::uint64_t> ElfFile::pointer_at(std::uint64_t address) const {
    const auto found = std::upper_bound(
        relocations_.begin(), relocations_.end(), address,
        [](std::uint64_t wanted, const Relocation& relocation) { return wanted < relocation.address; });
    if (found != relocations_.begin() && std::prev(found)->address == address) {
        const Relocation& relocation = *std::prev(found);
        if (!relocation.known) return {};
        return relocation.value;
    }
    std::uint64_t value;
    if (!read_memory(address, &value, sizeof(value))) return {};
    return value;
}

} // namespace plumb
