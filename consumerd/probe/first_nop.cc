#include "consumerd/probe/first_nop.h"

#include "consumerd/probe/instruction_parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace plumb {
namespace {

using Bytes = std::span<const std::uint8_t>;

/* Which of some places a file goes to. */
class JumpSearch {
public:
    JumpSearch(const ElfFile& elf, std::vector<std::uint64_t> places)
        : elf_(elf), places_(std::move(places)) {
        std::sort(places_.begin(), places_.end());
        places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
    }

    std::vector<std::uint64_t> find() {
        if (places_.empty()) return {};
        for (const Elf64_Phdr& segment : elf_.segments())
            if ((segment.p_flags & PF_X) != 0)
                look(segment.p_vaddr, segment.p_filesz, &JumpSearch::look_for_jumps);
        for (const Elf64_Shdr& section : elf_.sections())
            if (may_have_addresses(section))
                look(section.sh_addr, section.sh_size, &JumpSearch::look_for_addresses);
        std::sort(found_.begin(), found_.end());
        return std::move(found_);
    }

private:
    using Look = void (JumpSearch::*)(std::uint64_t address, Bytes bytes);

    /* Symbols are addresses, too, which say nothing of jumps. */
    static bool may_have_addresses(const Elf64_Shdr& section) {
        return (section.sh_flags & SHF_ALLOC) != 0 && (section.sh_flags & SHF_EXECINSTR) == 0 &&
               (section.sh_type == SHT_PROGBITS || section.sh_type == SHT_RELA);
    }

    /* In parts that overlap, so that nothing is cut. As far as the file has it: a damaged one may say that there is more, or
     * have many parts of the same bytes. What is not read is in doubt. */
    void look(std::uint64_t address, std::uint64_t size, Look at_part) {
        constexpr std::uint64_t part_bytes = 1 << 20, overlap_bytes = 8, bytes_max = std::uint64_t{4} << 30;
        for (std::uint64_t begin = 0; begin < size; begin += part_bytes) {
            part_.resize(std::min(size - begin, part_bytes + overlap_bytes));
            bytes_read_ += part_.size();
            if (bytes_read_ > bytes_max || !elf_.read_memory(address + begin, part_.data(), part_.size())) {
                found_ = places_;
                return;
            }
            (this->*at_part)(address + begin, part_);
        }
    }

    /* Where instructions begin is not known: each byte may be a jump. So there may seem to be one where none is. */
    void look_for_jumps(std::uint64_t address, Bytes code) {
        for (std::size_t at = 0; at < code.size(); at++)
            for (const auto target : {jump_target(code.subspan(at)), call_target(code.subspan(at))})
                if (target) note(address + at + static_cast<std::uint64_t>(*target));
    }

    void look_for_addresses(std::uint64_t address, Bytes bytes) {
        std::uint64_t word = 0;
        for (std::size_t at = -address % sizeof(word); at + sizeof(word) <= bytes.size();
             at += sizeof(word)) {
            std::memcpy(&word, bytes.data() + at, sizeof(word));
            note(word);
        }
    }

    void note(std::uint64_t place) {
        if (place >= places_.front() && place <= places_.back() &&
            std::binary_search(places_.begin(), places_.end(), place))
            found_.push_back(place);
    }

    const ElfFile& elf_;
    std::vector<std::uint64_t> places_; /* sorted, some */
    std::vector<std::uint64_t> found_;
    std::vector<std::uint8_t> part_;
    std::uint64_t bytes_read_ = 0;
};

} // namespace

FirstNops::FirstNops(const ElfFile& elf, const std::vector<std::uint64_t>& functions, bool nops_are_replaced)
    : elf_(elf), are_passed_(nops_are_replaced && elf.machine() == EM_X86_64) {
    std::vector<std::uint64_t> places;
    for (const std::uint64_t function : functions)
        for (std::uint64_t place = find_behind(function); place > function; place -= replaced_nop_bytes)
            places.push_back(place);
    jumped_to_ = JumpSearch(elf, std::move(places)).find();
}

std::uint64_t FirstNops::find_behind(std::uint64_t address) const {
    constexpr std::size_t nops_max = 64;
    std::array<std::uint8_t, instruction_bytes_max> buffer{};
    for (std::size_t i = 0; are_passed_ && i < nops_max; i++) {
        if (nop_bytes(code_at(elf_, address, buffer)) != replaced_nop_bytes) break;
        address += replaced_nop_bytes;
    }
    return address;
}

Result<std::uint64_t> FirstNops::behind(std::uint64_t address) const {
    const std::uint64_t behind = find_behind(address);
    /* Who jumps to a nop between them comes by, too. */
    const auto jumped_to = std::upper_bound(jumped_to_.begin(), jumped_to_.end(), address);
    if (behind == address || jumped_to == jumped_to_.end() || *jumped_to > behind) return behind;
    return Error("The function begins with a nop of five bytes, of which Linux 6.18 and newer make a system "
                 "call, and something seems to jump, or to make calls, to what is behind it.")
        .hint("A probe at {:#x} is hit each time.", behind);
}

} // namespace plumb
