#include "trace/symbols.h"

#include "base/demangle.h"
#include "trace/ctf/frame_name.h"
#include "trace/debug_file.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace plumb {

SymbolTable SymbolTable::load(const std::string& path, const std::string& build_id) {
    SymbolTable table;
    const SymbolFile file(path);
    if (!file.is_open()) return table;
    if (!build_id.empty() && file.build_id() != build_id) return table;
    table.first_address_ = file.first_address();
    table.starts_ = file.function_starts();
    table.code_ = file.code();
    file.take_symbols(table.symbols_);
    if (const std::string path_of_debug = debug_file_of(build_id); !path_of_debug.empty())
        if (const SymbolFile debug(path_of_debug); debug.is_open() && debug.build_id() == build_id)
            debug.take_symbols(table.symbols_);
    std::stable_sort(table.symbols_.begin(), table.symbols_.end(),
                     [](const FileSymbol& a, const FileSymbol& b) { return a.address < b.address; });
    return table;
}

std::string SymbolTable::name_at(uint64_t file_address, uint64_t behind) const {
    auto after = std::upper_bound(symbols_.begin(), symbols_.end(), file_address,
                                  [](uint64_t address, const FileSymbol& s) { return address < s.address; });
    /* The nearest ones may end before the address, inside one that began earlier. */
    constexpr int max_steps_back = 64;
    for (int i = 0; i < max_steps_back && after != symbols_.begin(); i++) {
        const FileSymbol& symbol = *--after;
        const uint64_t offset = file_address - symbol.address;
        if (offset + behind == 0) return demangled(symbol.name);
        if (offset == 0 || offset < symbol.size)
            return fmt::format("{}+0x{:x}", demangled(symbol.name), offset + behind);
    }
    return {};
}

std::string SymbolTable::function_at(uint64_t file_address, uint64_t behind) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), file_address);
    const bool is_code = std::any_of(code_.begin(), code_.end(), [=](const AddressRange& range) {
        return file_address >= range.begin && file_address < range.end;
    });
    if (after == starts_.begin() || !is_code) return {};
    const uint64_t start = *std::prev(after);
    if (start == file_address + behind) return fmt::format("fn_{:x}", start);
    return fmt::format("fn_{:x}+0x{:x}", start, file_address + behind - start);
}

/* A process that forked and never loaded anything has the objects of its parent; but one that called exec() has not, nor those
 * that it had before. */
const ObjectRecord* Symbols::find_object(const TraceNames& names, uint32_t process_id, uint64_t address) {
    constexpr int max_generations = 8;
    int64_t time_ns = std::numeric_limits<int64_t>::max();
    const ProcessRecord* child = nullptr;
    for (int generation = 0; generation < max_generations && process_id != 0; generation++) {
        const ProcessImage image = names.find_image(process_id, time_ns);
        if (child != nullptr && image.process != nullptr && image.process->executable != child->executable)
            break;
        const ObjectRecord* found = nullptr;
        for (const ObjectRecord& object : names.objects())
            if (object.process_id == process_id && address >= object.base &&
                address - object.base < object.size_bytes && object.time_ns >= image.from_ns &&
                object.time_ns < image.until_ns && (found == nullptr || object.time_ns >= found->time_ns))
                found = &object;
        if (found != nullptr || image.process == nullptr) return found;
        child = image.process;
        time_ns = child->time_ns;
        process_id = child->parent_process_id;
    }
    return nullptr;
}

std::string Symbols::name_behind(const TraceNames& names, uint32_t process_id, uint64_t return_address) {
    if (!is_frame_name(return_address)) return name_at(names, process_id, return_address - 1, 1);
    const std::string& function = names.function_named(return_address);
    const uint32_t line = line_of_frame_name(return_address);
    if (function.empty()) return fmt::format("0x{:x}", return_address);
    return line == 0 ? function : fmt::format("{}:{}", function, line);
}

std::string Symbols::name_at(const TraceNames& names, uint32_t process_id, uint64_t address,
                             uint64_t behind) {
    const ObjectRecord* const object = find_object(names, process_id, address);
    if (object == nullptr) return fmt::format("0x{:x}", address + behind);
    const auto [at, is_new] = tables_.try_emplace({object->path, object->build_id});
    if (is_new) at->second = SymbolTable::load(object->path, object->build_id);
    const SymbolTable& table = at->second;
    const uint64_t offset = address - object->base;
    const std::string file = object->path.substr(object->path.rfind('/') + 1);
    if (!table.empty()) {
        const uint64_t file_address = table.first_address() + offset;
        if (std::string name = table.name_at(file_address, behind); !name.empty()) return name;
        if (const std::string function = table.function_at(file_address, behind); !function.empty())
            return fmt::format("{}:{}", file, function);
    }
    return fmt::format("{}+0x{:x}", file, offset + behind);
}

} // namespace plumb
