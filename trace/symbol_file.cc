#include "trace/symbol_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace plumb {

static constexpr uint64_t page_mask = 4095;

SymbolFile::SymbolFile(const std::string& path) {
    if (elf_version(EV_CURRENT) == EV_NONE) return;
    /* The path comes from the trace: it may be anything, such as a FIFO. */
    auto opened = open_regular_file(path);
    if (!opened) return;
    file_ = std::move(*opened);
    elf_ = elf_begin(file_.get(), ELF_C_READ_MMAP, nullptr);
    if (elf_ != nullptr && elf_kind(elf_) != ELF_K_ELF) {
        elf_end(elf_);
        elf_ = nullptr;
    }
}

SymbolFile::~SymbolFile() {
    if (elf_ != nullptr) elf_end(elf_);
}

std::string SymbolFile::build_id_in(Elf_Data* notes) {
    GElf_Nhdr note;
    std::size_t name_at = 0, content_at = 0;
    for (std::size_t at = 0; (at = gelf_getnote(notes, at, &note, &name_at, &content_at)) > 0;) {
        const auto* const bytes = static_cast<const char*>(notes->d_buf);
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            std::memcmp(bytes + name_at, "GNU", 4) != 0)
            continue;
        std::string text;
        for (std::size_t i = 0; i < note.n_descsz; i++)
            text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[content_at + i]));
        return text;
    }
    return {};
}

std::string SymbolFile::build_id() const {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
        Elf_Data* const notes = elf_getdata(section, nullptr);
        if (notes == nullptr) continue;
        if (std::string id = build_id_in(notes); !id.empty()) return id;
    }
    return {};
}

std::vector<GElf_Phdr> SymbolFile::loaded_segments() const {
    std::vector<GElf_Phdr> segments;
    std::size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) return segments;
    for (std::size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf_, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD)
            segments.push_back(header);
    }
    return segments;
}

uint64_t SymbolFile::first_address() const {
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (const GElf_Phdr& segment : loaded_segments())
        first = std::min(first, segment.p_vaddr & ~page_mask);
    return first == std::numeric_limits<uint64_t>::max() ? 0 : first;
}

uint64_t SymbolFile::memory_bytes() const {
    uint64_t end = 0;
    for (const GElf_Phdr& segment : loaded_segments())
        end = std::max(end, segment.p_vaddr + segment.p_memsz);
    return end - std::min(end, first_address());
}

uint64_t SymbolFile::mapped_bytes() const {
    uint64_t end = 0;
    for (const GElf_Phdr& segment : loaded_segments())
        end = std::max(end, (segment.p_vaddr + segment.p_filesz + page_mask) & ~page_mask);
    return end - std::min(end, first_address());
}

int64_t SymbolFile::changed_ns() const {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) return 0;
    const auto ns = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
    return std::max(ns(status.st_mtim), ns(status.st_ctim));
}

std::vector<AddressRange> SymbolFile::code() const {
    std::vector<AddressRange> ranges;
    for (const GElf_Phdr& segment : loaded_segments())
        if ((segment.p_flags & PF_X) != 0 && segment.p_vaddr + segment.p_memsz > segment.p_vaddr)
            ranges.push_back({segment.p_vaddr, segment.p_vaddr + segment.p_memsz});
    return ranges;
}

void SymbolFile::take_section(std::vector<FileSymbol>& symbols, Elf_Scn* section,
                              const GElf_Shdr& header) const {
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) return;
    const std::size_t count = header.sh_size / header.sh_entsize;
    for (std::size_t i = 0; i < count && i < static_cast<std::size_t>(std::numeric_limits<int>::max()); i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
        const int type = GELF_ST_TYPE(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) continue;
        const char* const name = elf_strptr(elf_, header.sh_link, symbol.st_name);
        if (name != nullptr && *name != '\0') symbols.push_back({symbol.st_value, symbol.st_size, name});
    }
}

void SymbolFile::take_symbols(std::vector<FileSymbol>& symbols) const {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) != nullptr &&
            (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
            take_section(symbols, section, header);
    }
}

/* A table of (first instruction, description), each 32 bits from the start of the section, sorted by the first: as gcc, clang
 * and every linker write it. Another encoding, or a table that goes beyond its section, is left alone. */
std::vector<uint64_t> SymbolFile::function_starts() const {
    constexpr uint8_t version = 1, udata4 = 0x03, datarel_sdata4 = 0x3b, pcrel_sdata4 = 0x1b;
    struct Header {
        uint8_t version, frame_encoding, count_encoding, table_encoding;
        int32_t frame;
        uint32_t count;
    } header{};
    struct Row {
        int32_t start, description;
    };
    std::vector<uint64_t> starts;
    std::size_t segments = 0;
    if (elf_getphdrnum(elf_, &segments) != 0) return starts;
    for (std::size_t i = 0; i < segments; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf_, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_GNU_EH_FRAME)
            continue;
        const Elf_Data* const data =
            elf_getdata_rawchunk(elf_, static_cast<int64_t>(segment.p_offset), segment.p_filesz, ELF_T_BYTE);
        if (data == nullptr || data->d_size < sizeof header) return starts;
        const auto* const bytes = static_cast<const char*>(data->d_buf);
        std::memcpy(&header, bytes, sizeof header);
        if (header.version != version || header.frame_encoding != pcrel_sdata4 ||
            header.count_encoding != udata4 || header.table_encoding != datarel_sdata4 ||
            header.count > (data->d_size - sizeof header) / sizeof(Row))
            return starts;
        for (std::size_t row = 0; row < header.count; row++) {
            Row one;
            std::memcpy(&one, bytes + sizeof header + row * sizeof one, sizeof one);
            starts.push_back(segment.p_vaddr + static_cast<uint64_t>(int64_t{one.start}));
        }
        std::sort(starts.begin(), starts.end());
        return starts;
    }
    return starts;
}

} // namespace plumb
