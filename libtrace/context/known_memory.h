// Which of a process's memory is there, for a walk of a stack (callstack.cc): what it reads may be anything.
//
// The page that the stack pointer is in is there; so is what is above it in the stack that the process began with. Of any other
// page (another thread's, an alternate stack, a coroutine's, what tables say) the kernel is asked first: rt_sigprocmask() with an
// operation that does not exist reads the set that it is given and does nothing. A held process asks nothing, and its stacks end
// there, marked.
#pragma once

#include "../runtime.h"
#include "cfi.h"

namespace plumb::context {

constexpr uint64_t page_bytes = 4096;
constexpr uint64_t page_mask = ~(page_bytes - 1);

// The stack that the process began with: so much below what the kernel put at its end belongs to it whatever its limit is.
constexpr uint64_t first_stack_bytes = 512 * 1024;
// Of the process, found out when it begins (callstack.cc).
extern uint64_t first_stack_end; // 0: not known
extern bool may_ask_for_pages;   // the kernel answers as this counts on

inline bool is_page_there(uint64_t address) {
    constexpr int no_operation = 0x7fff;
    return sys::call(SYS_rt_sigprocmask, no_operation, address & page_mask, nullptr, 8L) == -EINVAL;
}

// What is known to be there, for the time of one walk.
class KnownMemory : public Memory {
public:
    explicit KnownMemory(uint64_t stack_pointer) : Memory{read_known} {
        stack_ = {stack_pointer & page_mask, (stack_pointer & page_mask) + page_bytes};
        if (stack_pointer < first_stack_end && first_stack_end - stack_pointer < first_stack_bytes)
            stack_.end = first_stack_end;
    }
    bool load_word(uint64_t address, uint64_t& value) {
        if (address < stack_.begin || address > stack_.end - sizeof(value)) {
            if (!has(address, sizeof(value))) return false;
        }
        value = *reinterpret_cast<const volatile uint64_t*>(address);
        return true;
    }

private:
    struct Range {
        uint64_t begin, end;
        bool has(uint64_t address, uint64_t bytes) const {
            return address >= begin && address < end && bytes <= end - address;
        }
    };

    static bool read_known(Memory& memory, uint64_t address, void* to, uint32_t bytes) {
        auto& self = static_cast<KnownMemory&>(memory);
        if (!self.has(address, bytes)) return false;
        __builtin_memcpy(to, reinterpret_cast<const void*>(address), bytes);
        return true;
    }
    bool has(uint64_t address, uint32_t bytes) {
        if (stack_.has(address, bytes)) return true;
        if (address < page_bytes || address + bytes < address) return false; // 0 is no page that is known
        for (uint64_t page = address & page_mask; page < address + bytes; page += page_bytes)
            if (!stack_.has(page, page_bytes) && pages_[place_of(page)] != page && !learn(page)) return false;
        return true;
    }
    bool learn(uint64_t page) {
        const Permit permit;
        if (!permit.given() || !may_ask_for_pages || !is_page_there(page)) return false;
        if (page == stack_.end)
            stack_.end += page_bytes;
        else
            pages_[place_of(page)] = page;
        return true;
    }

    // Those of tables, and of other stacks.
    static constexpr uint32_t page_count = 16;
    static uint32_t place_of(uint64_t page) { return static_cast<uint32_t>(page / page_bytes) % page_count; }
    uint64_t pages_[page_count] = {};
    Range stack_;
};

} // namespace plumb::context
