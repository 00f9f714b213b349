// Pages of the kernel's ring buffer, and formats of its events, built by hand for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::test {

// Flags of a page's commit word, and kinds of events that are no data.
constexpr uint64_t missed = uint64_t{1} << 31;
constexpr uint64_t stored = uint64_t{1} << 30;
constexpr uint32_t padding = 29;
constexpr uint32_t time_extend = 30;
constexpr uint32_t time_stamp = 31;

class Bytes {
public:
    template <typename T>
    Bytes& put(T value) {
        const auto raw = std::as_bytes(std::span(&value, 1));
        bytes_.insert(bytes_.end(), raw.begin(), raw.end());
        return *this;
    }
    Bytes& put(std::span<const std::byte> more) {
        bytes_.insert(bytes_.end(), more.begin(), more.end());
        return *this;
    }
    /* The characters alone, no NUL. */
    Bytes& text(std::string_view text) { return put(std::as_bytes(std::span(text))); }
    /* NULs up to `size`. */
    Bytes& fill(size_t size) {
        bytes_.resize(size);
        return *this;
    }
    size_t size() const { return bytes_.size(); }
    std::span<const std::byte> span() const { return bytes_; }
    const std::vector<std::byte>& vector() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

class PageBuilder {
public:
    explicit PageBuilder(uint64_t timestamp) : timestamp_(timestamp) {}

    PageBuilder& word(uint32_t value) {
        events_.put(value);
        return *this;
    }
    PageBuilder& header(uint32_t type, uint32_t delta) { return word(type | delta << 5); }
    PageBuilder& data(std::span<const std::byte> bytes) {
        events_.put(bytes);
        return *this;
    }
    /* What the kernel does with so many bytes: plain, or with a length word. */
    PageBuilder& event(uint32_t delta, std::span<const std::byte> bytes) {
        const auto words = static_cast<uint32_t>((bytes.size() + 3) / 4);
        if (words > 0 && words < padding)
            header(words, delta);
        else
            header(0, delta).word(static_cast<uint32_t>(bytes.size()) + 4);
        data(bytes);
        events_.fill((events_.size() + 3) & ~size_t{3});
        return *this;
    }
    PageBuilder& time(uint32_t type, uint64_t time) {
        return header(type, time & 0x7ffffff).word(static_cast<uint32_t>(time >> 27));
    }

    size_t used() const { return events_.size(); }
    std::vector<std::byte> page(uint64_t flags = 0) const { return page_with_commit(used() | flags); }
    std::vector<std::byte> page_with_commit(uint64_t commit) const {
        return Bytes().put(timestamp_).put(commit).put(events_.span()).vector();
    }

private:
    uint64_t timestamp_;
    Bytes events_;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
    return Bytes().text(text).vector();
}

// As tracefs has it, around the lines of the event's own fields.
inline std::string format_of(const std::string& name, const std::string& id, const std::string& fields,
                             const std::string& print = "\"\"") {
    return "name: " + name + "\nID: " + id +
           "\nformat:\n"
           "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
           "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
           "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
           "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
           "\n" +
           fields + "\nprint fmt: " + print + "\n";
}

// Of sched:sched_switch.
inline constexpr const char* switch_fields = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                                             "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                                             "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
                                             "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
                                             "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
                                             "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
                                             "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

} // namespace plumb::test
