#include "trace/symbols.h"

#include "base/file.h"

#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace plumb {

/* Reads one file through libelf, which checks what it reads. */
class SymbolFile {
public:
    explicit SymbolFile(const std::string& path) {
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
    ~SymbolFile() {
        if (elf_ != nullptr) elf_end(elf_);
    }
    SymbolFile(const SymbolFile&) = delete;
    SymbolFile& operator=(const SymbolFile&) = delete;

    bool is_open() const { return elf_ != nullptr; }
    std::string build_id() const;
    uint64_t first_address() const;
    void take_symbols(SymbolTable& table) const;

private:
    static std::string build_id_in(Elf_Data* notes);
    void take_section(SymbolTable& table, Elf_Scn* section, const GElf_Shdr& header) const;

    FileDescriptor file_;
    Elf* elf_ = nullptr;
};

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

uint64_t SymbolFile::first_address() const {
    constexpr uint64_t page_mask = 4095;
    std::size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) return 0;
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (std::size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf_, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD)
            first = std::min(first, header.p_vaddr & ~page_mask);
    }
    return first == std::numeric_limits<uint64_t>::max() ? 0 : first;
}

void SymbolFile::take_section(SymbolTable& table, Elf_Scn* section, const GElf_Shdr& header) const {
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) return;
    const std::size_t count = header.sh_size / header.sh_entsize;
    for (std::size_t i = 0; i < count && i < static_cast<std::size_t>(std::numeric_limits<int>::max()); i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
        const int type = GELF_ST_TYPE(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) continue;
        const char* const name = elf_strptr(elf_, header.sh_link, symbol.st_name);
        if (name != nullptr && *name != '\0')
            table.symbols_.push_back({symbol.st_value, symbol.st_size, name});
    }
}

/* .symtab holds static names too; .dynsym is what a stripped file still has. */
void SymbolFile::take_symbols(SymbolTable& table) const {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) != nullptr &&
            (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
            take_section(table, section, header);
    }
}

SymbolTable SymbolTable::load(const std::string& path, const std::string& build_id) {
    SymbolTable table;
    const SymbolFile file(path);
    if (!file.is_open()) return table;
    if (!build_id.empty() && file.build_id() != build_id) return table;
    table.first_address_ = file.first_address();
    file.take_symbols(table);
    if (build_id.size() > 2) {
        const SymbolFile debug(
            fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2), build_id.substr(2)));
        if (debug.is_open() && debug.build_id() == build_id) debug.take_symbols(table);
    }
    std::stable_sort(table.symbols_.begin(), table.symbols_.end(),
                     [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
    return table;
}

std::string SymbolTable::name_at(uint64_t file_address) const {
    auto after = std::upper_bound(symbols_.begin(), symbols_.end(), file_address,
                                  [](uint64_t address, const Symbol& s) { return address < s.address; });
    /* The nearest ones may end before the address, inside one that began earlier. */
    constexpr int max_steps_back = 64;
    for (int i = 0; i < max_steps_back && after != symbols_.begin(); i++) {
        const Symbol& symbol = *--after;
        const uint64_t offset = file_address - symbol.address;
        if (offset == 0) return symbol.name;
        if (offset < symbol.size) return fmt::format("{}+0x{:x}", symbol.name, offset);
    }
    return {};
}

/* A process that forked and never loaded anything has the objects of its parent. */
const ObjectRecord* Symbols::find_object(const TraceNames& names, uint32_t process_id, uint64_t address) {
    constexpr int max_generations = 8;
    for (int generation = 0; generation < max_generations && process_id != 0; generation++) {
        const ObjectRecord* found = nullptr;
        for (const ObjectRecord& object : names.objects())
            if (object.process_id == process_id && address >= object.base &&
                address - object.base < object.size_bytes &&
                (found == nullptr || object.time_ns >= found->time_ns))
                found = &object;
        if (found != nullptr) return found;
        const ProcessRecord* const process =
            names.find_process(process_id, std::numeric_limits<int64_t>::max());
        process_id = process == nullptr ? 0 : process->parent_process_id;
    }
    return nullptr;
}

std::string Symbols::name_at(const TraceNames& names, uint32_t process_id, uint64_t address) {
    const ObjectRecord* const object = find_object(names, process_id, address);
    if (object == nullptr) return fmt::format("0x{:x}", address);
    const auto [at, is_new] = tables_.try_emplace({object->path, object->build_id});
    if (is_new) at->second = SymbolTable::load(object->path, object->build_id);
    const uint64_t offset = address - object->base;
    if (!at->second.empty())
        if (std::string name = at->second.name_at(at->second.first_address() + offset); !name.empty())
            return name;
    const std::size_t slash = object->path.rfind('/');
    return fmt::format("{}+0x{:x}",
                       slash == std::string::npos ? object->path : object->path.substr(slash + 1), offset);
}

} // namespace plumb
