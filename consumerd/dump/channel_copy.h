/*
 * A channel as it was at one moment, in memory of our own: nobody changes or shortens it while it is read.
 */
#ifndef PLUMB_CONSUMERD_DUMP_CHANNEL_COPY_H
#define PLUMB_CONSUMERD_DUMP_CHANNEL_COPY_H

#include "base/file.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace plumb {

/* Aligned as a channel is. */
class ChannelCopy {
public:
    /* `path` is for messages. */
    static Result<ChannelCopy> read(const FileDescriptor& file, const std::string& path);
    /* Of zeros, which take no memory yet. */
    static Result<ChannelCopy> empty(std::uint64_t size);
    std::span<std::byte> writable() { return {bytes_.get(), bytes_.get_deleter().size}; }
    std::span<const std::byte> bytes() const { return {bytes_.get(), bytes_.get_deleter().size}; }

private:
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* bytes) const;
    };
    ChannelCopy(std::byte* bytes, std::size_t size) : bytes_(bytes, Unmap{size}) {}
    Status fill(const FileDescriptor& file);

    std::unique_ptr<std::byte, Unmap> bytes_;
};

} // namespace plumb

#endif
