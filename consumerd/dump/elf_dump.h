/* A dump of memory in an ELF core file. */
#ifndef PLUMB_CONSUMERD_DUMP_ELF_DUMP_H
#define PLUMB_CONSUMERD_DUMP_ELF_DUMP_H

#include "base/result.h"
#include "consumerd/dump/memory_dump.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

class ElfDump : public DumpFormat {
public:
    static Result<std::unique_ptr<DumpFormat>> open(DumpFile file, const std::string& path);

    bool is_of_machine() const override { return is_of_machine_; }
    bool read(std::uint64_t address, std::span<std::byte> to) const override;
    void for_each_range(const EachRange& visit) const override {
        for_each_range_of(&Segment::in_file, visit);
    }
    void for_each_range_with_zeros(const EachRange& visit) const override {
        for_each_range_of(&Segment::bytes, visit);
    }
    std::uint64_t cut_off_bytes() const override { return cut_off_bytes_; }
    std::optional<std::string> vmcoreinfo() const override { return vmcoreinfo_; }

private:
    struct Segment {
        std::uint64_t address;
        std::uint64_t bytes;
        std::uint64_t in_file; /* of these; the rest are zeros, which were left out */
        std::uint64_t offset;
    };
    void for_each_range_of(std::uint64_t Segment::*bytes, const EachRange& visit) const;
    explicit ElfDump(DumpFile file) : file_(std::move(file)) {}
    Status take_segments(const std::string& path);
    void look_for_vmcoreinfo(std::uint64_t notes_at, std::uint64_t end);

    DumpFile file_;
    bool is_of_machine_ = false;
    std::uint64_t cut_off_bytes_ = 0;
    std::optional<std::string> vmcoreinfo_;
    std::vector<Segment> segments_; /* by address; none overlaps another one */
};

} // namespace plumb

#endif
