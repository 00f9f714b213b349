#include "consumerd/kernel/event_payload.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace plumb {
namespace {

template <typename T>
T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

/* Payloads are short, and a call of memcpy() costs more than they do: words, the last of which may overlap the one
 * before. Never reads beyond `bytes`. */
std::byte* copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    constexpr std::size_t word = sizeof(std::uint64_t), half = sizeof(std::uint32_t), short_max = 64;
    if (bytes > short_max) {
        std::memcpy(to, from, bytes);
    } else if (bytes >= word) {
        for (std::size_t at = 0; at + word < bytes; at += word)
            std::memcpy(to + at, from + at, word);
        std::memcpy(to + bytes - word, from + bytes - word, word);
    } else if (bytes >= half) {
        std::memcpy(to, from, half);
        std::memcpy(to + bytes - half, from + bytes - half, half);
    } else {
        for (std::size_t at = 0; at < bytes; at++)
            to[at] = from[at];
    }
    return to + bytes;
}

/* The lowest byte that is 0 has its highest bit set, no lower one has. */
std::uint64_t zero_bytes(std::uint64_t word) {
    constexpr std::uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    return (word - ones) & ~word & high;
}

std::byte* end_string(std::byte* at) {
    *at = std::byte{0};
    return at + 1;
}

std::byte* copy_string(std::byte* to, const std::byte* from, std::size_t bytes) {
    const void* const nul = std::memchr(from, 0, bytes);
    if (nul != nullptr) bytes = static_cast<std::size_t>(static_cast<const std::byte*>(nul) - from);
    return end_string(copy(to, from, bytes));
}

/* Names of threads, two in each sched_switch: both words are written, and what is behind the NUL overwritten. */
std::byte* copy_thread_name(std::byte* to, const std::byte* from) {
    const auto first = read<std::uint64_t>(from), second = read<std::uint64_t>(from + sizeof(first));
    std::memcpy(to, &first, sizeof(first));
    std::memcpy(to + sizeof(first), &second, sizeof(second));
    const std::uint64_t in_first = zero_bytes(first), in_second = zero_bytes(second);
    const auto place = [](std::uint64_t zeros) { return __builtin_ctzll(zeros) / 8; };
    if (in_first != 0) return end_string(to + place(in_first));
    if (in_second != 0) return end_string(to + sizeof(first) + place(in_second));
    return end_string(to + thread_name_bytes);
}

/* What a block request is, as the kernel's blk_fill_rwbs() spells it: F if the cache is flushed before, the operation,
 * and then what else holds. The bits are those of LTTng and Trace Compass. */
enum : std::uint32_t {
    io_write = 1u << 0,
    io_discard = 1u << 1,
    io_read = 1u << 2,
    io_read_ahead = 1u << 3,
    io_sync = 1u << 5,
    io_meta = 1u << 6,
    io_secure = 1u << 7,
    io_flush = 1u << 8,
    io_through = 1u << 9, /* FUA: not only into the cache */
    io_flush_before = 1u << 10
};

std::uint32_t io_flags(std::string_view text) {
    constexpr std::string_view operations = "WDRNZF";
    std::uint32_t flags = 0;
    if (text.size() > 1 && text[0] == 'F' && operations.find(text[1]) != text.npos) {
        flags |= io_flush_before;
        text.remove_prefix(1);
    }
    if (text.empty()) return flags;
    const char operation = text[0];
    text.remove_prefix(1);
    if (operation == 'W') flags |= io_write;
    if (operation == 'R') flags |= io_read;
    if (operation == 'F') flags |= io_flush;
    if (operation == 'D') flags |= io_discard;
    if (operation == 'D' && text.starts_with('E')) flags |= io_secure;
    if ((operation == 'D' && text.starts_with('E')) || (operation == 'Z' && !text.empty()))
        text.remove_prefix(1);
    for (const char each : text) {
        if (each == 'F') flags |= io_through;
        if (each == 'A') flags |= io_read_ahead;
        if (each == 'S') flags |= io_sync;
        if (each == 'M') flags |= io_meta;
    }
    return flags;
}

std::byte* put_number(std::byte* to, std::uint32_t number) {
    std::memcpy(to, &number, sizeof(number));
    return to + sizeof(number);
}

std::byte* put_io_flags(std::byte* to, const std::byte* from, std::size_t bytes) {
    const auto* const letters = reinterpret_cast<const char*>(from);
    return put_number(to, io_flags({letters, strnlen(letters, bytes)}));
}

/* What a __data_loc or __rel_loc at `from` speaks of: 16 bits of offset, 16 bits of length. */
bool find_dynamic(const RawStep& step, std::span<const std::byte> raw, std::span<const std::byte>& found) {
    const auto location = read<std::uint32_t>(raw.data() + step.from);
    std::size_t offset = location & 0xffff;
    const std::size_t bytes = location >> 16;
    if (step.is_relative) offset += step.from + sizeof(location);
    if (offset > raw.size() || bytes > raw.size() - offset) return false;
    found = raw.subspan(offset, bytes);
    return true;
}

} // namespace

std::byte* translate_payload(const KernelEvent& event, std::span<const std::byte> raw, std::byte* to,
                             const ForkProcesses& processes, const TextsOfCall* texts) {
    if (raw.size() < event.least_bytes) return nullptr;
    std::span<const std::byte> found;
    for (const RawStep& step : event.steps) {
        const std::byte* const from = raw.data() + step.from;
        switch (step.kind) {
        case RawStep::Kind::copy:
            to = copy(to, from, step.bytes);
            break;
        case RawStep::Kind::thread_name:
            to = copy_thread_name(to, from);
            break;
        case RawStep::Kind::fixed_string:
            to = copy_string(to, from, step.bytes);
            break;
        case RawStep::Kind::io_flags:
            to = put_io_flags(to, from, step.bytes);
            break;
        case RawStep::Kind::string:
            if (!find_dynamic(step, raw, found)) return nullptr;
            to = copy_string(to, found.data(), found.size());
            break;
        case RawStep::Kind::probe_string:
            if (!find_dynamic(step, raw, found)) return nullptr;
            if (found.empty()) found = std::as_bytes(std::span(text_of_fault));
            to = copy_string(to, found.data(), found.size());
            break;
        case RawStep::Kind::told_text: {
            const std::string_view text = texts != nullptr ? texts->text(step.from) : text_not_read;
            to = copy_string(to, reinterpret_cast<const std::byte*>(text.data()), text.size());
            break;
        }
        case RawStep::Kind::sequence: {
            if (!find_dynamic(step, raw, found)) return nullptr;
            const auto count = static_cast<std::uint16_t>(found.size() / step.bytes);
            std::memcpy(to, &count, sizeof(count));
            to = copy(to + sizeof(count), found.data(), std::size_t{count} * step.bytes);
            break;
        }
        case RawStep::Kind::of_parent:
            to = put_number(to, processes.of_parent);
            break;
        case RawStep::Kind::of_child:
            to = put_number(to, processes.of_child);
            break;
        }
    }
    return to;
}

} // namespace plumb
