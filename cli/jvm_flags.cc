#include "cli/jvm_flags.h"

#include "base/elf_file.h"
#include "base/mapped_file.h"
#include "base/processes.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace plumb {
namespace {

/* Far above what HotSpot has: some 2,000 of the ones, 1,500 of the others. */
constexpr std::size_t fields_max = 20'000, types_max = 20'000, flags_max = 10'000;
constexpr std::size_t text_bytes = 64; /* of what is looked for all is shorter */
constexpr std::uint64_t symbols_bytes_max = 64u << 20;

class Memory {
public:
    explicit Memory(std::uint32_t process_id) : process_id_(static_cast<pid_t>(process_id)) {}

    /* As many bytes as there are. */
    std::size_t read(std::uint64_t address, void* to, std::size_t bytes) const {
        const iovec here = {to, bytes};
        const iovec there = {reinterpret_cast<void*>(address), bytes};
        const ssize_t read = ::process_vm_readv(process_id_, &here, 1, &there, 1, 0);
        return read > 0 ? static_cast<std::size_t>(read) : 0;
    }
    template <typename T>
    std::optional<T> at(std::uint64_t address) const {
        T value{};
        if (read(address, &value, sizeof(value)) != sizeof(value)) return {};
        return value;
    }
    /* Its beginning, of one that is longer; those in a table are often the same one. */
    const std::string& text(std::uint64_t address) {
        const auto [found, is_new] = texts_.try_emplace(address);
        if (is_new && address != 0) {
            char bytes[text_bytes];
            constexpr std::size_t page = 4096;
            const std::size_t first = std::min(text_bytes, page - address % page);
            std::size_t there = read(address, bytes, first);
            if (there == first && std::memchr(bytes, 0, there) == nullptr && first < text_bytes)
                there += read(address + first, bytes + first, text_bytes - first);
            found->second.assign(bytes, ::strnlen(bytes, there));
        }
        return found->second;
    }

private:
    pid_t process_id_;
    std::map<std::uint64_t, std::string> texts_;
};

/* Of a shared object's table for the dynamic linker: addresses as in the file. */
std::map<std::string, std::uint64_t> symbols_that_begin(const ElfFile& file, const std::string& beginning) {
    std::map<std::string, std::uint64_t> symbols;
    const Elf64_Shdr* const table = file.section(".dynsym");
    const Elf64_Shdr* const names = file.section(".dynstr");
    const auto entries = table != nullptr ? file.section_bytes(*table, symbols_bytes_max) : std::nullopt;
    const auto texts = names != nullptr ? file.section_bytes(*names, symbols_bytes_max) : std::nullopt;
    if (!entries || !texts || texts->empty() || texts->back() != std::byte{0}) return symbols;
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= entries->size(); at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, entries->data() + at, sizeof(symbol));
        if (symbol.st_name >= texts->size() || symbol.st_value == 0) continue;
        const std::string name = reinterpret_cast<const char*>(texts->data()) + symbol.st_name;
        if (name.starts_with(beginning)) symbols[name] = symbol.st_value;
    }
    return symbols;
}

/* The table of its own data structures that HotSpot exports for tools that look at it from outside. */
class VmTable {
public:
    static std::optional<VmTable> of(std::uint32_t process_id);

    /* What is at the field: its offset, or of a static one, its address. */
    std::optional<std::uint64_t> field(const std::string& type, const std::string& name, bool is_static);
    std::optional<std::uint64_t> size_of(const std::string& type);
    Memory& memory() { return memory_; }

private:
    VmTable(std::uint32_t process_id, std::uint64_t base) : memory_(process_id), base_(base) {}
    std::uint64_t value(const std::string& name) const {
        const auto found = symbols_.find("gHotSpotVM" + name);
        return found != symbols_.end() ? memory_.at<std::uint64_t>(base_ + found->second).value_or(0) : 0;
    }

    Memory memory_;
    std::uint64_t base_;
    std::map<std::string, std::uint64_t> symbols_;
};

std::optional<VmTable> VmTable::of(std::uint32_t process_id) {
    const auto files = mapped_files(process_id);
    if (!files) return {};
    const auto library = std::find_if(files->begin(), files->end(), [](const MappedFile& file) {
        return file.executable && file.path.ends_with("/libjvm.so");
    });
    if (library == files->end()) return {};
    auto file = ElfFile::open(fmt::format("{}/root{}", proc_folder(process_id), library->path));
    if (!file) return {};
    VmTable table(process_id, library->base);
    table.symbols_ = symbols_that_begin(*file, "gHotSpotVM");
    return table;
}

std::optional<std::uint64_t> VmTable::field(const std::string& type, const std::string& name,
                                            bool is_static) {
    const std::uint64_t stride = value("StructEntryArrayStride");
    std::uint64_t entry = value("Structs");
    const std::uint64_t of_type = value("StructEntryTypeNameOffset"),
                        of_name = value("StructEntryFieldNameOffset"),
                        of_static = value("StructEntryIsStaticOffset"),
                        of_place = value(is_static ? "StructEntryAddressOffset" : "StructEntryOffsetOffset");
    for (std::size_t i = 0; stride != 0 && entry != 0 && i < fields_max; i++, entry += stride) {
        const auto type_name = memory_.at<std::uint64_t>(entry + of_type);
        if (!type_name || *type_name == 0) break;
        if (memory_.text(*type_name) != type) continue;
        const auto field_name = memory_.at<std::uint64_t>(entry + of_name);
        const auto kind = memory_.at<std::int32_t>(entry + of_static);
        if (field_name && kind && (*kind != 0) == is_static && memory_.text(*field_name) == name)
            return memory_.at<std::uint64_t>(entry + of_place);
    }
    return {};
}

std::optional<std::uint64_t> VmTable::size_of(const std::string& type) {
    const std::uint64_t stride = value("TypeEntryArrayStride");
    std::uint64_t entry = value("Types");
    const std::uint64_t of_name = value("TypeEntryTypeNameOffset"), of_size = value("TypeEntrySizeOffset");
    for (std::size_t i = 0; stride != 0 && entry != 0 && i < types_max; i++, entry += stride) {
        const auto name = memory_.at<std::uint64_t>(entry + of_name);
        if (!name || *name == 0) break;
        if (memory_.text(*name) == type) return memory_.at<std::uint64_t>(entry + of_size);
    }
    return {};
}

} // namespace

std::optional<bool> has_begun_jvm(std::uint32_t process_id) {
    auto table = VmTable::of(process_id);
    if (!table) return {};
    const auto list = table->field("ThreadsSMRSupport", "_java_thread_list", true);
    const auto length = table->field("ThreadsList", "_length", false);
    if (!list || !length) return {};
    const auto threads = table->memory().at<std::uint64_t>(*list);
    if (!threads) return {};
    if (*threads == 0) return false;
    const auto count = table->memory().at<std::uint32_t>(*threads + *length);
    if (!count) return {};
    return *count != 0;
}

std::optional<bool> jvm_flag(std::uint32_t process_id, const std::string& name) {
    auto table = VmTable::of(process_id);
    if (!table) return {};
    const auto of_name = table->field("JVMFlag", "_name", false);
    const auto of_value = table->field("JVMFlag", "_addr", false);
    const auto flags = table->field("JVMFlag", "flags", true);
    const auto stride = table->size_of("JVMFlag");
    if (!of_name || !of_value || !flags || !stride || *stride == 0) return {};
    Memory& memory = table->memory();
    std::uint64_t flag = memory.at<std::uint64_t>(*flags).value_or(0);
    for (std::size_t i = 0; flag != 0 && i < flags_max; i++, flag += *stride) {
        const auto text = memory.at<std::uint64_t>(flag + *of_name);
        if (!text || *text == 0) break; /* behind the last */
        if (memory.text(*text) != name) continue;
        const auto value = memory.at<std::uint64_t>(flag + *of_value);
        const auto is_on = value ? memory.at<std::uint8_t>(*value) : std::nullopt;
        if (!is_on) return {};
        return *is_on != 0;
    }
    return {};
}

} // namespace plumb
