#include "consumerd/probe/function_table.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

namespace plumb {
namespace {

constexpr std::uint64_t table_bytes_max = std::uint64_t{512} << 20;
constexpr std::size_t versions_max = 32768;

/* Reads fixed structures out of bytes that nobody vouches for. */
template <typename T>
bool take(std::span<const std::byte> bytes, std::uint64_t at, T& to) {
    if (at > bytes.size() || sizeof(T) > bytes.size() - at) return false;
    std::memcpy(&to, bytes.data() + at, sizeof(T));
    return true;
}

std::string_view text_at(std::span<const std::byte> strings, std::uint64_t at) {
    if (at >= strings.size()) return {};
    const char* const begin = reinterpret_cast<const char*>(strings.data()) + at;
    return {begin, ::strnlen(begin, strings.size() - at)};
}

std::vector<std::byte> linked_strings(const ElfFile& elf, const Elf64_Shdr& section) {
    if (section.sh_link >= elf.sections().size()) return {};
    return elf.section_bytes(elf.sections()[section.sh_link], table_bytes_max)
        .value_or(std::vector<std::byte>{});
}

/* Version numbers that the file defines, by .gnu.version_d. */
std::map<std::uint16_t, std::string> defined_versions(const ElfFile& elf) {
    std::map<std::uint16_t, std::string> versions;
    for (const Elf64_Shdr& section : elf.sections()) {
        if (section.sh_type != SHT_GNU_verdef) continue;
        const auto bytes = elf.section_bytes(section, table_bytes_max);
        if (!bytes) continue;
        const std::vector<std::byte> strings = linked_strings(elf, section);
        std::uint64_t at = 0;
        Elf64_Verdef definition;
        for (std::size_t i = 0; i < versions_max && take(*bytes, at, definition); i++) {
            Elf64_Verdaux name;
            if (take(*bytes, at + definition.vd_aux, name))
                versions.emplace(definition.vd_ndx, text_at(strings, name.vda_name));
            if (definition.vd_next == 0) break;
            at += definition.vd_next;
        }
        break;
    }
    return versions;
}

struct SymbolEntry {
    std::string_view name;
    Elf64_Sym symbol;
    std::uint16_t version;
};

bool is_of_another_object(const SymbolEntry& entry) {
    return entry.symbol.st_shndx == SHN_UNDEF;
}

/* Calls `each` for the symbols of one table, until it says that it has what it wanted. */
void walk_symbols(const ElfFile& elf, std::uint32_t table_type,
                  const std::function<bool(const SymbolEntry&)>& each) {
    for (const Elf64_Shdr& section : elf.sections()) {
        if (section.sh_type != table_type) continue;
        const auto bytes = elf.section_bytes(section, table_bytes_max);
        if (!bytes) continue;
        const std::vector<std::byte> strings = linked_strings(elf, section);
        std::vector<std::byte> versions;
        for (const Elf64_Shdr& other : elf.sections())
            if (other.sh_type == SHT_GNU_versym && table_type == SHT_DYNSYM && versions.empty())
                versions = elf.section_bytes(other, table_bytes_max).value_or(versions);
        for (std::uint64_t i = 0; i < bytes->size() / sizeof(Elf64_Sym); i++) {
            SymbolEntry entry{{}, {}, VER_NDX_GLOBAL};
            if (!take(*bytes, i * sizeof(Elf64_Sym), entry.symbol)) break;
            (void)take(versions, i * sizeof(entry.version), entry.version);
            entry.name = text_at(strings, entry.symbol.st_name);
            if (!entry.name.empty() && !each(entry)) return;
        }
        return; /* a file has one table of each kind, whatever its section headers say */
    }
}

/* The full table has versions in its names: "f@@V2" the default one, "f@V1" another. */
void take_version_of_name(ProbedFunction& function) {
    const std::size_t at = function.symbol.find('@');
    if (at == std::string::npos || at == 0) return;
    function.is_default = function.symbol.compare(at, 2, "@@") == 0;
    function.version = function.symbol.substr(at + (function.is_default ? 2 : 1));
    function.symbol.resize(at);
}

bool is_function(const Elf64_Sym& symbol) {
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    return type == STT_FUNC || type == STT_GNU_IFUNC;
}

} // namespace

std::vector<ProbedFunction> functions_of(const ElfFile& elf) {
    std::vector<ProbedFunction> found;
    const std::map<std::uint16_t, std::string> versions = defined_versions(elf);
    for (const std::uint32_t table : {SHT_DYNSYM, SHT_SYMTAB})
        walk_symbols(elf, table, [&](const SymbolEntry& entry) {
            if (is_of_another_object(entry) || !is_function(entry.symbol)) return true;
            ProbedFunction function;
            function.symbol = entry.name;
            function.address = entry.symbol.st_value;
            function.bytes = entry.symbol.st_size;
            function.is_chosen = ELF64_ST_TYPE(entry.symbol.st_info) == STT_GNU_IFUNC;
            function.is_exported = table == SHT_DYNSYM;
            constexpr std::uint16_t hidden = 0x8000, number = 0x7fff;
            if (const auto version = versions.find(entry.version & number);
                function.is_exported && version != versions.end() && (entry.version & number) > 1) {
                function.version = version->second;
                function.is_default = (entry.version & hidden) == 0;
            }
            if (!function.is_exported) take_version_of_name(function);
            found.push_back(std::move(function));
            return true;
        });
    /* What both tables have is taken from the dynamic one. */
    const auto key = [](const ProbedFunction& function) {
        return std::tie(function.symbol, function.version, function.address);
    };
    std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
        return a.symbol != b.symbol           ? a.symbol < b.symbol
               : a.is_default != b.is_default ? a.is_default
                                              : key(a) < key(b);
    });
    found.erase(std::unique(found.begin(), found.end(),
                            [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                found.end());
    return found;
}

std::set<std::uint64_t> symbol_addresses(const ElfFile& elf, const std::string& symbol) {
    std::set<std::uint64_t> found;
    for (const std::uint32_t table : {SHT_SYMTAB, SHT_DYNSYM})
        if (found.empty())
            walk_symbols(elf, table, [&](const SymbolEntry& entry) {
                if (entry.name == symbol && !is_of_another_object(entry)) found.insert(entry.symbol.st_value);
                return true;
            });
    return found;
}

std::optional<std::uint64_t> symbol_address(const ElfFile& elf, const std::string& symbol) {
    const std::set<std::uint64_t> found = symbol_addresses(elf, symbol);
    return found.empty() ? std::nullopt : std::optional(*found.begin());
}

bool has_for_itself(const ElfFile& elf, const std::string& symbol) {
    bool is_needed = false, is_exported = false, is_there = false;
    walk_symbols(elf, SHT_DYNSYM, [&](const SymbolEntry& entry) {
        if (entry.name == symbol) (is_of_another_object(entry) ? is_needed : is_exported) = true;
        return !is_needed && !is_exported;
    });
    walk_symbols(elf, SHT_SYMTAB, [&](const SymbolEntry& entry) {
        is_there = entry.name == symbol;
        return !is_there;
    });
    return is_needed || (is_there && !is_exported);
}

} // namespace plumb
