/*
 * Pages that were read out of the kernel's buffers and are not in the trace yet, where a kill of who reads does not take them: a mapped
 * file, into which the kernel copies each page by one system call. Who is killed has either made that call, and the page is here, or
 * not, and it is in the kernel's buffer.
 *
 *   base                                             base + events of all pages
 *   | page | page | page | page that was just read | <- cleared before it is read: it has no events, or all of its own
 *                        ^ filled
 *
 * `base` is how many events of this CPU's buffer the kernel had counted as read before the first of these pages, since there is
 * the buffer. By that, and the position of the drain's journal, which counts the same way, is known which of these pages are in the
 * trace.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_STAGED_PAGES_H
#define PLUMB_CONSUMERD_KERNEL_STAGED_PAGES_H

#include "base/mapped_region.h"
#include "base/result.h"
#include "consumerd/kernel/raw_page.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace plumb {

/* Of a page, or of as much of it as there is. */
std::uint64_t events_in_page(std::span<const std::byte> page, const RawPageFormat& format);

class StagedPages {
public:
    struct Shape {
        std::uint64_t cookie = 0;    /* of the session */
        std::uint32_t cpu_count = 0; /* numbers below that */
        std::uint32_t page_bytes = 0;
        bool operator==(const Shape&) const = default;
    };
    /* A new one, with nothing in it, in place of what is there. All of its memory is reserved. */
    static Result<std::unique_ptr<StagedPages>> create(const std::string& path, const Shape& shape);
    /* One that was left. number() of the error is ENOENT if there is none, EBADMSG if it is of something else. */
    static Result<std::unique_ptr<StagedPages>> open(const std::string& path, const Shape& shape);

    struct Content {
        std::uint64_t base = 0;
        std::uint64_t filled = 0;     /* bytes */
        std::uint64_t gap = 0;        /* events behind them that are told to be lost */
        std::uint64_t is_reading = 0; /* the page behind them was cleared, and is read */
    };
    /* Of a CPU: room for its pages, */
    std::span<std::byte> room(std::uint32_t cpu) const;
    /* and what is in it. */
    Content content(std::uint32_t cpu) const;
    void set(std::uint32_t cpu, const Content& content);

    /* With the page that was being read when its reader ended. */
    Content with_last_page(std::uint32_t cpu, const RawPageFormat& format) const;
    /* Events of all its pages. */
    std::uint64_t events_of(std::uint32_t cpu, const Content& content, const RawPageFormat& format) const;
    /* Around the call that reads the next page, of which there is room: */
    std::byte* begin_page(std::uint32_t cpu, const RawPageFormat& format);
    void end_page(std::uint32_t cpu, bool was_read);

private:
    struct Header;
    struct CpuHeader;
    StagedPages(MappedRegion region, const Shape& shape);
    CpuHeader& header_of(std::uint32_t cpu) const;
    static std::size_t head_bytes(const Shape& shape);
    static std::size_t room_bytes(const Shape& shape);

    MappedRegion region_;
    Shape shape_;
};

} // namespace plumb

#endif
