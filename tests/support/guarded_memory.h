// Memory that ends where nothing more may be read: what reads one byte too far ends with SIGSEGV.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>

namespace plumb::test {

// Copies at the end of a page, behind which there is none.
class GuardedMemory {
public:
    GuardedMemory() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        void* const at = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) std::abort();
        start_ = static_cast<std::byte*>(at);
        std::fill_n(start_, page_, std::byte{'x'}); // nothing there ends a string
        if (mprotect(start_ + page_, page_, PROT_NONE) != 0) std::abort();
    }
    ~GuardedMemory() { munmap(start_, 2 * page_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    // `distance` bytes of the page are behind the copy.
    std::span<std::byte> at_end(std::span<const std::byte> bytes, size_t distance = 0) {
        std::byte* const to = start_ + page_ - distance - bytes.size();
        std::copy(bytes.begin(), bytes.end(), to);
        return {to, bytes.size()};
    }

private:
    size_t page_;
    std::byte* start_ = nullptr;
};

} // namespace plumb::test
