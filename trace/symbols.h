/*
 * Names for addresses of traced programs, which may be gone: from the objects that the trace says were
 * loaded at the time, and the symbol tables of their files here. A file that is not the one that was traced (another
 * build id; or, where it has none, another size or a change since) gives no names.
 *
 *   in a symbol             cache_lock, cache_lock+0x8, shop::Cart::lock
 *   in a nameless function  memcached:fn_12f0+0x72, which begins at 0x12f0 in the file
 *   in an object            memcached+0x1234
 *   in made code            shop.Cart.lock:214: the line, where it is known
 *   elsewhere               0x7f0012345678 (heap, stack)
 */
#ifndef PLUMB_TRACE_SYMBOLS_H
#define PLUMB_TRACE_SYMBOLS_H

#include "trace/symbol_file.h"
#include "trace/trace_names.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace plumb {

/* The names of one ELF file, by the address that its headers give. */
class SymbolTable {
public:
    /* `build_id` in hexadecimal; empty: not checked. Empty if there is nothing to read, for whatever reason.
     */
    static SymbolTable load(const std::string& path, const std::string& build_id);

    /* "name" or "name+0x8", as C++ has it; empty if the address is in no symbol. Shown is what is so many bytes behind it. */
    std::string name_at(uint64_t file_address, uint64_t behind = 0) const;
    /* Address of the first byte that is loaded. */
    uint64_t first_address() const { return first_address_; }
    /* "fn_12f0" or "fn_12f0+0x8", by where the functions of a stripped file begin; empty if the address is in no code, or the
     * file does not tell. */
    std::string function_at(uint64_t file_address, uint64_t behind = 0) const;
    /* Of an object that was told of without a build id: why the file can not be the one that was loaded; empty if it can. */
    std::string why_not(const ObjectRecord& object) const;
    /* Nothing was read. */
    bool empty() const { return symbols_.empty() && starts_.empty(); }

private:
    std::vector<FileSymbol> symbols_; /* by address */
    std::vector<uint64_t> starts_;    /* of functions, in order */
    std::vector<AddressRange> code_;
    uint64_t first_address_ = 0, memory_bytes_ = 0, mapped_bytes_ = 0;
    int64_t changed_ns_ = 0;
};

/* The name of a place in a process, and the times for which it is that. */
struct NameSpan {
    std::string name;
    int64_t from_ns = std::numeric_limits<int64_t>::min();
    int64_t until_ns = std::numeric_limits<int64_t>::max();

    bool holds_at(int64_t time_ns) const { return time_ns >= from_ns && time_ns < until_ns; }
};

class Symbols {
public:
    /* What was there at that time. `names`: of the trace that tells of the process. */
    std::string name_at(const TraceNames& names, uint32_t process_id, uint64_t address, int64_t time_ns) {
        return find_name(names, process_id, address, 0, time_ns).name;
    }
    /* Of an address that something returns to: in the function that has called it, also where that is its last instruction. And of
     * what stands in its place in made code. */
    NameSpan name_behind(const TraceNames& names, uint32_t process_id, uint64_t return_address,
                         int64_t time_ns);

    /* Why files gave no names, for a person. */
    std::vector<std::string> problems() const;

private:
    NameSpan find_name(const TraceNames& names, uint32_t process_id, uint64_t address, uint64_t behind,
                       int64_t time_ns);
    std::string name_in(const ObjectRecord& object, uint64_t offset, uint64_t behind);
    static const ObjectRecord* find_object(const TraceNames& names, uint32_t process_id, uint64_t address,
                                           int64_t time_ns, NameSpan& span);

    std::map<std::pair<std::string, std::string>, SymbolTable> tables_; /* by path and build id */
    std::map<std::string, std::string> refused_;                        /* why, by path */
};

} // namespace plumb

#endif
