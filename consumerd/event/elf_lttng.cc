#include "consumerd/event/elf_lttng.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace plumb {

namespace {

/* Of struct lttng_ust_tracepoint, in <lttng/tracepoint-types.h>. */
constexpr std::uint64_t provider_at = 8, name_at = 16, signature_at = 48;
constexpr std::uint64_t lttng_tracepoints_max = 65536;
constexpr std::size_t lttng_name_bytes_max = 256;
constexpr std::size_t lttng_signature_bytes_max = 4096;

std::optional<std::string> text_behind(const ElfFile& elf, std::uint64_t address, std::size_t bytes_max) {
    const auto pointer = elf.pointer_at(address);
    return pointer && *pointer != 0 ? elf.string_at(*pointer, bytes_max) : std::nullopt;
}

} // namespace

std::vector<LttngTracepoint> lttng_tracepoints_of(const ElfFile& elf) {
    std::vector<LttngTracepoint> found;
    const Elf64_Shdr* const section = elf.section("lttng_ust_tracepoints_ptrs");
    if (section == nullptr) return found;
    const std::uint64_t count = std::min(section->sh_size / sizeof(std::uint64_t), lttng_tracepoints_max);
    for (std::uint64_t i = 0; i < count; i++) {
        const auto tracepoint = elf.pointer_at(section->sh_addr + i * sizeof(std::uint64_t));
        if (!tracepoint || *tracepoint == 0) continue;
        auto provider = text_behind(elf, *tracepoint + provider_at, lttng_name_bytes_max);
        auto name = text_behind(elf, *tracepoint + name_at, lttng_name_bytes_max);
        if (!provider || !name || provider->empty() || name->empty()) continue;
        found.push_back(
            {std::move(*provider), std::move(*name),
             text_behind(elf, *tracepoint + signature_at, lttng_signature_bytes_max).value_or("")});
    }
    const auto key = [](const LttngTracepoint& of) { return std::tie(of.provider, of.name, of.arguments); };
    std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    found.erase(std::unique(found.begin(), found.end(),
                            [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                found.end());
    return found;
}

} // namespace plumb
