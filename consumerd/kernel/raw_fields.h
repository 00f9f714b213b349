/*
 * Where the fields of a raw event are, out of the kernel's description of it: for those few events that are read for what
 * they tell of processes, and of all events the fields that hold numbers of processes.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_RAW_FIELDS_H
#define PLUMB_CONSUMERD_KERNEL_RAW_FIELDS_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct RawField {
    std::string name;
    std::string type; /* "pid_t", "unsigned int"; of an array without its length */
    std::uint16_t offset = 0;
    std::uint16_t bytes = 0;
    bool is_array = false;
};

class RawFields {
public:
    /* `format`: the text of events/SYSTEM/NAME/format. */
    explicit RawFields(const std::string& format);

    std::uint16_t id() const { return id_; } /* 0: there was none */
    const std::vector<RawField>& all() const { return fields_; }
    const RawField* find(std::string_view name) const;

private:
    std::uint16_t id_ = 0;
    std::vector<RawField> fields_;
};

/* The number in a field of up to 8 bytes. Nothing where the event ends before. */
std::optional<std::int64_t> raw_number(const RawField& field, std::span<const std::byte> event);
/* The text that a field of type __data_loc speaks of. */
std::string raw_text(const RawField& field, std::span<const std::byte> event);

/* Offsets of the 32-bit fields by which the kernel names a thread or process, that of the common ones among them. What system
 * calls and probes are given are numbers of the program's own. */
std::vector<std::uint16_t> process_number_offsets(const std::string& system, const RawFields& fields);

} // namespace plumb

#endif
