#include "trace/symbols.h"

#include "base/demangle.h"
#include "trace/ctf/frame_name.h"
#include "trace/debug_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plumb {

SymbolTable SymbolTable::load(const std::string& path, const std::string& build_id) {
    SymbolTable table;
    const SymbolFile file(path);
    if (!file.is_open()) return table;
    if (!build_id.empty() && file.build_id() != build_id) return table;
    table.first_address_ = file.first_address();
    table.memory_bytes_ = file.memory_bytes();
    table.mapped_bytes_ = file.mapped_bytes();
    table.changed_ns_ = file.changed_ns();
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

/* Who tells of an object says how much memory it takes, or, if its headers could not be read, which pages of the file are there. A
 * clock that counts from the start of the machine can not be compared with the file's. */
std::string SymbolTable::why_not(const ObjectRecord& object) const {
    constexpr int64_t first_date_ns = 946'684'800'000'000'000; /* the year 2000 */
    if (!object.build_id.empty() || empty()) return {};
    if (memory_bytes_ != 0 && object.size_bytes != memory_bytes_ && object.size_bytes != mapped_bytes_)
        return "has another size in memory than what was traced";
    if (object.time_ns >= first_date_ns && changed_ns_ > object.time_ns)
        return "was changed since it was traced";
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

namespace {

/* At one address, of what one process has told in one image of it. */
struct ObjectsTold {
    const ObjectRecord* then = nullptr;  /* the last one, up to a time */
    const ObjectRecord* later = nullptr; /* the first one behind it */
};

ObjectsTold objects_told(const TraceNames& names, uint32_t process_id, uint64_t address, int64_t time_ns,
                         const ProcessImage& image) {
    ObjectsTold told;
    for (const ObjectRecord& object : names.objects_of(process_id)) {
        if (address < object.base || address - object.base >= object.size_bytes ||
            object.time_ns < image.from_ns || object.time_ns >= image.until_ns)
            continue;
        if (object.time_ns > time_ns) {
            told.later = &object;
            break;
        }
        told.then = &object;
    }
    return told;
}

} // namespace

/* A process that forked and never loaded anything has the objects that its parent had then; but one that called exec() has not, nor
 * those that it had before. What is told later may have been there already, where nothing else was: who looks at maps, as the
 * recorder does for what has no tracepoints, tells of it behind the load. Of a parent that says nothing of the child. */
const ObjectRecord* Symbols::find_object(const TraceNames& names, uint32_t process_id, uint64_t address,
                                         int64_t time_ns, NameSpan& span) {
    constexpr int max_generations = 8;
    const ProcessRecord* child = nullptr;
    const ObjectRecord* later = nullptr;
    for (int generation = 0; generation < max_generations && process_id != 0; generation++) {
        const ProcessImage image = names.find_image(process_id, time_ns);
        if (child != nullptr && image.process != nullptr && image.process->executable != child->executable)
            break;
        const ObjectsTold told = objects_told(names, process_id, address, time_ns, image);
        if (child == nullptr) {
            later = told.later;
            span.from_ns = image.same_from_ns;
            span.until_ns = image.same_until_ns;
            if (told.then != nullptr) span.from_ns = std::max(span.from_ns, told.then->time_ns);
            if (later != nullptr) span.until_ns = std::min(span.until_ns, later->time_ns);
        }
        if (told.then != nullptr) return told.then;
        if (image.process == nullptr) break;
        child = image.process;
        time_ns = image.begun_ns;
        process_id = child->parent_process_id;
    }
    return later;
}

NameSpan Symbols::name_behind(const TraceNames& names, uint32_t process_id, uint64_t return_address,
                              int64_t time_ns) {
    if (!is_frame_name(return_address)) return find_name(names, process_id, return_address - 1, 1, time_ns);
    const std::string& function = names.function_named(return_address);
    const uint32_t line = line_of_frame_name(return_address);
    NameSpan always;
    if (function.empty())
        always.name = fmt::format("0x{:x}", return_address);
    else
        always.name = line == 0 ? function : fmt::format("{}:{}", function, line);
    return always;
}

std::string Symbols::name_in(const ObjectRecord& object, uint64_t offset, uint64_t behind) {
    const auto [at, is_new] = tables_.try_emplace({object.path, object.build_id});
    if (is_new) at->second = SymbolTable::load(object.path, object.build_id);
    const SymbolTable& table = at->second;
    const std::string file = object.path.substr(object.path.rfind('/') + 1);
    const std::string why_not = table.why_not(object);
    if (!why_not.empty()) refused_.try_emplace(object.path, why_not);
    if (!table.empty() && why_not.empty()) {
        const uint64_t file_address = table.first_address() + offset;
        if (std::string name = table.name_at(file_address, behind); !name.empty()) return name;
        if (const std::string function = table.function_at(file_address, behind); !function.empty())
            return fmt::format("{}:{}", file, function);
    }
    return fmt::format("{}+0x{:x}", file, offset + behind);
}

std::vector<std::string> Symbols::problems() const {
    std::vector<std::string> all;
    for (const auto& [path, why] : refused_)
        all.push_back(fmt::format("{} gives no names: it has no build id, and {}.", path, why));
    return all;
}

NameSpan Symbols::find_name(const TraceNames& names, uint32_t process_id, uint64_t address, uint64_t behind,
                            int64_t time_ns) {
    NameSpan span;
    const ObjectRecord* const object = find_object(names, process_id, address, time_ns, span);
    span.name = object == nullptr ? fmt::format("0x{:x}", address + behind)
                                  : name_in(*object, address - object->base, behind);
    return span;
}

} // namespace plumb
